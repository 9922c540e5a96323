"""`portfolio`, the default: greedy, reduce, then exact solvers against each other and against time.

Small remains are solved here, by branch and bound. Otherwise worker processes race. Core-guided
clingo proves most graphs, in one of two ways: told of knots it runs through; with shrunk cores until
late, when disjoint cores take over. Beside them HiGHS runs for a first heat, then neighbourhood search.
Three processes share two cores, because no graph tells beforehand who will be first. Large graphs, of
which few are proved in time, have clingo told of knots and neighbourhood search from the start, one for
each of two cores. Never worse than `dag_greedy`, as long as that ends within its share of the time limit.
"""

from __future__ import annotations

import time

from . import branch
from .check import Choice
from .exact import Run
from .graph import ChoiceGraph
from .race import Entrant, race
from .result import Extraction

FIRST_HEAT, FIRST_HEAT_SECONDS = 0.25, 5.0
"""Part of the time, up to so many seconds, after which neighbourhood search takes over from HiGHS."""

SECOND_WAY = 0.6
"""Part of the time after which disjoint cores take over from shrunk ones."""

LARGE = 10_000
"""E-nodes after the reductions from which neighbourhood search gets all the time."""

BRANCH_SECONDS = 0.2


def extract(
    graph: ChoiceGraph, *, time_limit: float = 10.0, seed: int = 0, warm_start: Choice | None = None
) -> Extraction:
    """The best that all of them find. Raises Infeasible, NoChoiceFound."""
    run = Run(graph, time_limit, "portfolio")
    try:
        run.start(seed, warm_start)
        if not run.proved:
            _branch(run)
        if not run.proved:
            race(run.standing, schedule(run.standing.graph.n_nodes, time.perf_counter(), run.deadline), seed)
    except KeyboardInterrupt:
        if not run.choice:
            raise
        run.interrupted = True
    return run.result()


def schedule(n_nodes: int, now: float, deadline: float) -> list[Entrant]:
    """Who runs when on a reduced graph of `n_nodes` e-nodes."""
    if n_nodes >= LARGE:
        return [Entrant("asp_knots", now, deadline), Entrant("lns", now, deadline)]
    left = deadline - now
    heat = now + min(FIRST_HEAT_SECONDS, FIRST_HEAT * left)
    change = now + SECOND_WAY * left
    return [
        Entrant("asp_knots", now, deadline),
        Entrant("asp", now, change),
        Entrant("ilp", now, heat),
        Entrant("lns", heat, deadline),
        Entrant("asp_disjoint", change, deadline),
    ]


def _branch(run: Run) -> None:
    """Solve small remains without a process."""
    standing = run.standing
    assert standing is not None
    if standing.graph.n_nodes > branch.MAX_NODES:
        return
    try:
        choice = branch.solve(standing.graph, standing.cost, min(run.deadline, time.perf_counter() + BRANCH_SECONDS))
    except branch.GiveUp:
        return
    if choice is not None:
        standing.offer(choice)
    if standing.choice is None:
        standing.infeasible = True
    else:
        standing.bound = standing.cost
