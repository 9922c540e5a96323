"""`asp` for graphs that hang on few knots, such as one value in many layouts: says what knots need, and does not shrink cores."""

from __future__ import annotations

from . import asp
from .check import Choice
from .graph import ChoiceGraph

LARGE_CORES = ("--opt-strategy=usc,oll,stratify", "--configuration=jumpy")


def solve(graph: ChoiceGraph, report, *, deadline: float, seed: int, warm_start: Choice | None) -> str:
    """Runs in a worker process; `graph` is in normal form."""
    return asp.solve(
        graph, report, deadline=deadline, seed=seed, warm_start=warm_start, options=LARGE_CORES, detours=True
    )
