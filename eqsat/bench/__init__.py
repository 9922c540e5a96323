"""Benchmarks: models x targets x configurations, a record on disk per cell.

>>> # run(["emg", "mine.py:make"], ["ethos-u85-256"], ["stock", "eqsat"], Path("RUN"))

`cells` names what is measured, and `lowering` runs ExecuTorch once per model and target.
`measure` returns the figures of a cell, `best` of stock at its best, `litert` of the LiteRT path to an Ethos-U.
`isolated` is the process of a task, `records` the files of a run, and `run` the whole.
"""

from eqsat.bench.cells import Configuration, Model
from eqsat.bench.run import run
from eqsat.ground.process import Limits

__all__ = ["Configuration", "Limits", "Model", "run"]
