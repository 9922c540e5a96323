"""Neighbourhood search: free a ball of classes, keep the rest, solve, repeat.

A neighbourhood is a ChoiceGraph of its own (see `neighbourhood`).
It is reduced, and clingo solves what remains, up to a number of conflicts.
The work for that does not depend on the size of the whole graph.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from .asp import Asp, Encoding
from .check import Choice, check, reachable
from .graph import ChoiceGraph
from .neighbourhood import Neighbours
from .protocol import Ending, SolverReport
from .reduce import reduce
from .stopping import stop_asked

#: Options of clingo: core-guided search, the most expensive cores first.
OPTIONS = ("--opt-strategy=usc,oll,stratify",)
#: Classes with a choice to make in the first neighbourhoods.
FIRST_SIZE = 20

#: Conflicts of clingo for one neighbourhood; the next ones are smaller if these were not enough.
CONFLICTS = 10_000

#: Factor of the size after a neighbourhood that was solved.
GROW = 1.1

#: E-nodes of a neighbourhood up to which the next ones grow: half a second on an idle machine.
LARGE = 4_000

#: Factor of the size after a neighbourhood that was not solved.
SHRINK = 0.8

#: Part of the cost by which a choice must be better to be news.
#: Prices differ by more than that from the cycles of a compiled graph.
VISIBLE = 0.003

#: A counted search ends after so many neighbourhoods without news.
#: They are also half of all that were made, and a third of all that it may make.
QUIET = 8


@dataclass(frozen=True)
class Lns:
    """Neighbourhood search; it proves nothing.

    neighbourhoods: it ends after so many, or earlier if it finds nothing.
    """

    neighbourhoods: int

    def solve(
        self, graph: ChoiceGraph, report: SolverReport, *, deadline: float, seed: int, warm_start: Choice
    ) -> Ending:
        best = reachable(graph, warm_start)
        cost = known = check(graph, best)
        neighbours = Neighbours(graph, random.Random(seed))
        size, news = float(FIRST_SIZE), 0
        for done in range(self.neighbourhoods):
            if done - news >= max(QUIET, done / 2, self.neighbourhoods / 3):
                break
            if time.perf_counter() >= deadline or stop_asked():
                break
            part = neighbours.part(best, neighbours.ball(best, int(size)))
            share, solved = _solved(part.graph, check(part.graph, part.of(best)), deadline, seed)
            if share is not None:
                better = part.put_into(graph, best, share)
                better_cost = check(graph, better)
                if better_cost < cost:
                    best, cost = better, better_cost
                    report.choice(best)
                if known - cost >= VISIBLE * abs(known):
                    known, news = cost, done
            if not solved:
                size = max(2.0, size * SHRINK)
            elif part.graph.n_nodes < LARGE:
                size = min(size * GROW, graph.n_classes)
        return "limit"


def _solved(graph: ChoiceGraph, upper_bound: float, deadline: float, seed: int) -> tuple[Choice | None, bool]:
    """Returns the best choice found, and whether it is optimal."""
    reduced = reduce(graph, upper_bound)
    if reduced.solved:
        return reduced.lift({0: 0}), True
    report = _Last()
    ending = Encoding(reduced.graph, Asp(OPTIONS, conflicts=CONFLICTS), seed).solve(report, deadline)
    return None if report.last is None else reduced.lift(report.last), ending == "optimal"


class _Last:
    """A SolverReport that keeps the last choice; bounds of a neighbourhood mean nothing for the whole graph."""

    def __init__(self) -> None:
        self.last: Choice | None = None

    def choice(self, choice: dict[int, int]) -> None:
        self.last = choice

    def bound(self, value: float) -> None:
        pass
