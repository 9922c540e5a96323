"""`lns`: anytime neighbourhood search: free a ball of classes, keep the rest, solve, repeat.

A neighbourhood is a ChoiceGraph of its own (see `neighbourhood`).
It is reduced, and clingo solves what remains.
The time for that does not depend on the size of the whole graph.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from . import exact
from .asp import Encoding
from .check import Choice, check, reachable
from .dag_greedy import extract as greedy
from .errors import NoChoiceFound
from .graph import ChoiceGraph
from .neighbourhood import Neighbours
from .protocol import Ending, SolverReport
from .reduce import reduce

#: Options of clingo: core-guided search, the most expensive cores first.
OPTIONS = ("--opt-strategy=usc,oll,stratify",)
#: Classes with a choice to make in the first neighbourhoods.
FIRST_SIZE = 20

#: Seconds for one neighbourhood; the next ones are smaller if it was not enough.
PATIENCE = 1.0

#: Factor of the size after a neighbourhood that took less than a quarter of its time.
GROW = 1.1

#: Factor of the size after a neighbourhood that ran out of time.
SHRINK = 0.8


@dataclass(frozen=True)
class Lns:
    """Neighbourhood search until time is up; it proves nothing."""

    def solve(
        self, graph: ChoiceGraph, report: SolverReport, *, deadline: float, seed: int, warm_start: Choice | None
    ) -> Ending:
        if warm_start is None:
            try:
                warm_start = greedy(graph, time_limit=deadline - time.perf_counter(), seed=seed).choice
            except NoChoiceFound:
                return Encoding(graph, OPTIONS, seed).solve(report, deadline)
        best = reachable(graph, warm_start)
        cost = check(graph, best)
        neighbours = Neighbours(graph, random.Random(seed))
        size = float(FIRST_SIZE)
        while (now := time.perf_counter()) < deadline:
            part = neighbours.part(best, neighbours.ball(best, int(size)))
            share, in_time = _solved(part.graph, check(part.graph, part.of(best)), min(deadline, now + PATIENCE), seed)
            if share is not None:
                better = part.put_into(graph, best, share)
                better_cost = check(graph, better)
                if better_cost < cost:
                    best, cost = better, better_cost
                    report.choice(best)
            if not in_time:
                size = max(2.0, size * SHRINK)
            elif time.perf_counter() - now < PATIENCE / 4:
                size = min(size * GROW, graph.n_classes)
        return "limit"


extract = exact.extractor("lns", Lns())


def _solved(graph: ChoiceGraph, upper_bound: float, deadline: float, seed: int) -> tuple[Choice | None, bool]:
    """Returns the best choice found, and whether it is optimal."""
    reduced = reduce(graph, upper_bound, deadline - time.perf_counter())
    if reduced.solved:
        return reduced.lift({0: 0}), True
    report = _Last()
    ending = Encoding(reduced.graph, OPTIONS, seed).solve(report, deadline)
    return None if report.last is None else reduced.lift(report.last), ending != "limit"


class _Last:
    """A SolverReport that keeps the last choice.

    The bound of a neighbourhood means nothing for the whole graph.
    """

    def __init__(self) -> None:
        self.last: Choice | None = None

    def choice(self, choice: dict[int, int]) -> None:
        self.last = choice

    def bound(self, value: float) -> None:
        pass
