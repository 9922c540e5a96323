"""`asp` with disjoint cores first: on some graphs the quicker prover, so the portfolio runs both."""

from __future__ import annotations

from . import asp
from .check import Choice
from .graph import ChoiceGraph

DISJOINT_CORES = ("--opt-strategy=usc,oll,disjoint,stratify",)


def solve(graph: ChoiceGraph, report, *, deadline: float, seed: int, warm_start: Choice | None) -> str:
    """Runs in a worker process; `graph` is in normal form."""
    return asp.solve(graph, report, deadline=deadline, seed=seed, warm_start=warm_start, options=DISJOINT_CORES)
