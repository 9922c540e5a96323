"""Saved runs: optimizations on disk, to be explained and searched again."""

from eqsat.runs.saved import FORMAT, VERSION, check_place, load, save
from eqsat.search.run import Run

__all__ = ["FORMAT", "VERSION", "Run", "check_place", "load", "save"]
