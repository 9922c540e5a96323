"""`portfolio`, the default: greedy, reduce, then exact solvers against each other and against time.

Small remains are solved here, by branch and bound. Otherwise worker processes race, two at a time
(one for each of two cores): first the prover that is usually quickest together with HiGHS; then, if
neither is done, a prover together with neighbourhood search. Never worse than `dag_greedy`.
"""

from __future__ import annotations

import time

from . import branch
from .check import Choice
from .exact import Run
from .graph import ChoiceGraph
from .race import race
from .result import Extraction

FIRST_HEAT = 0.15
"""Part of the time limit, up to FIRST_HEAT_SECONDS, for the first race."""

FIRST_HEAT_SECONDS = 6.0

BRANCH_SECONDS = 0.2


def extract(graph: ChoiceGraph, *, time_limit: float = 10.0, seed: int = 0,
            warm_start: Choice | None = None) -> Extraction:
    """The best that all of them find. Raises Infeasible, NoChoiceFound."""
    run = Run(graph, time_limit, "portfolio")
    try:
        run.start(seed, warm_start)
        if not run.proved:
            _branch(run)
        if not run.proved:
            now = time.perf_counter()
            heat = min(FIRST_HEAT_SECONDS, FIRST_HEAT * (run.deadline - now))
            race(run.standing, ["asp", "ilp"], now + heat, seed)
        if not run.proved:
            race(run.standing, ["asp_disjoint", "lns"], run.deadline, seed)
    except KeyboardInterrupt:
        pass
    return run.result()


def _branch(run: Run) -> None:
    """Solve small remains without a process."""
    standing = run.standing
    assert standing is not None
    if standing.graph.n_nodes > branch.MAX_NODES:
        return
    try:
        choice = branch.solve(standing.graph, standing.cost,
                              min(run.deadline, time.perf_counter() + BRANCH_SECONDS))
    except branch.GiveUp:
        return
    if choice is not None:
        standing.offer(choice)
    if standing.choice is None:
        standing.infeasible = True
    else:
        standing.bound = standing.cost
