"""Benchmarks: measures models on targets in several configurations, and stores one record per cell on disk.

>>> # run(["emg", "mine.py:make"], ["ethos-u85-256"], ["stock", "eqsat"], Path("RUN"))

`cells` defines the cells to measure, and `lowering` runs ExecuTorch once per model and target.
`measure` returns the figures of a cell, and `best` the figures of stock at its best.
`isolated` runs each task in its own process, `records` handles the files of a run, and `run` combines all of this.
"""

from eqsat.bench.cells import Configuration, Model
from eqsat.bench.run import run
from eqsat.ground.process import Limits

__all__ = ["Configuration", "Limits", "Model", "run"]
