"""Benchmarks: measures models on targets in several configurations, and stores one record per cell on disk.

>>> # run(["emg", "mine.py:make"], ["ethos-u85-256"], ["stock", "eqsat"], Path("RUN"))
"""

from eqsat.bench.cells import Configuration, Model
from eqsat.bench.run import run
from eqsat.ground.process import Limits

__all__ = ["Configuration", "Limits", "Model", "run"]
