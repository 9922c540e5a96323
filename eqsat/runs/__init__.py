"""Saved runs: optimizations stored on disk, so that they can be explained and searched again."""

from eqsat.runs.saved import FORMAT, VERSION, check_place, load, save
from eqsat.search.result import Run

__all__ = ["FORMAT", "VERSION", "Run", "check_place", "load", "save"]
