"""Saved runs: what an optimization knew, on disk, to be explained and searched again."""

from eqsat.runs.run import FORMAT, VERSION, Run, check_place, load

__all__ = ["FORMAT", "VERSION", "Run", "check_place", "load"]
