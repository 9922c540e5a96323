"""Saved runs: optimizations stored on disk, so that they can be explained and searched again."""

from eqsat.runs.archive import FORMAT, VERSION, check_place
from eqsat.runs.saved import load, save
from eqsat.search.run import Run

__all__ = ["FORMAT", "VERSION", "Run", "check_place", "load", "save"]
