"""Protocols of extractors, of solvers, and of the reports that a solver makes while it runs.

An *extractor* is what a user names: a function from a ChoiceGraph to an Extraction.
The exact extractors share greedy extraction and reductions (`exact`).
They leave the remaining graph to a *solver*, a frozen dataclass whose fields are its options.
Another package defines a solver and its extractor like this:

    @dataclass(frozen=True)
    class Mine:
        effort: int = 3

        def solve(self, graph, report, *, deadline, seed, warm_start):
            ...
            return "limit"

    extract = exact.extractor("mine", Mine())
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

from extraction.check import Choice
from extraction.graph import ChoiceGraph

#: Relative gap below which a bound proves a cost that has no unit.
#: Costs in units are compared exactly instead (`closes`, `ChoiceGraph.in_units`).
OPTIMAL_TOLERANCE = 1e-9

#: Relative error of a solver's float bound; it counts up to half a unit.
BOUND_NOISE = 1e-6


@dataclass(frozen=True)
class Extraction:
    """A valid choice, its cost, and a bound on the cost of better ones.

    choice     : {class id: e-node number} for the classes reached from the roots; acyclic
    cost       : `check(graph, choice)`
    lower_bound: no valid choice costs less (up to OPTIMAL_TOLERANCE); -inf if nothing is known
    status     : "optimal" (the bound meets the cost) or "feasible"
    trace      : (seconds since the start, cost) of each incumbent
    seconds    : wall time
    extractor  : name of the method
    interrupted: whether Ctrl-C ended the search; the choice is the best until then
    """

    choice: dict[int, int]
    cost: float | int
    lower_bound: float
    status: str
    trace: list[tuple[float, float]] = field(default_factory=list)
    seconds: float = 0.0
    extractor: str = ""
    interrupted: bool = False

    def unless_interrupted(self) -> Extraction:
        """Returns itself, or raises KeyboardInterrupt if `interrupted`, for callers that Ctrl-C should stop as well."""
        if self.interrupted:
            raise KeyboardInterrupt
        return self

    @property
    def gap(self) -> float:
        """(cost - lower_bound) / |cost|: 0 if proved, at most 1 for costs >= 0 with a bound."""
        if self.status == "optimal":
            return 0.0
        return (self.cost - self.lower_bound) / max(abs(self.cost), 1e-12)


def closes(lower_bound: float, cost: float, integral: bool) -> bool:
    """Whether `lower_bound` proves that nothing is cheaper than `cost`."""
    size = max(1.0, abs(cost))
    if integral:
        # Between cost - 1 and cost there is no other total; the slack absorbs float noise in a bound.
        return lower_bound > cost - 1 + min(BOUND_NOISE * size, 0.5)
    return lower_bound >= cost - OPTIMAL_TOLERANCE * size


#: How a solver ends.
#: optimal: the last choice that it reported is optimal.
#: limit: nothing is proved beyond the reported choices and bounds.
Ending = Literal["optimal", "limit"]


class SolverReport(Protocol):
    """The receiver of a solver's choices, which are checked, and bounds, which are trusted, while it runs."""

    def choice(self, choice: dict[int, int]) -> None:
        """Reports an incumbent, {class: e-node}."""
        ...

    def bound(self, value: float) -> None:
        """Reports a proved lower bound on the cost of every choice."""
        ...


class Solver(Protocol):
    """Solves a graph in normal form (`normal_form`), which has a choice."""

    def solve(
        self, graph: ChoiceGraph, report: SolverReport, *, deadline: float, seed: int, warm_start: Choice | None
    ) -> Ending:
        """Searches until the optimum is proved or until `deadline`, on the clock of time.perf_counter.

        warm_start: a valid choice to improve on.
        Raises ImportError if a library is not installed.
        """
        ...


class Extractor(Protocol):
    """A method of `extract`."""

    def __call__(self, graph: ChoiceGraph, *, time_limit: float, seed: int, warm_start: Choice | None) -> Extraction:
        """Returns the cheapest choice found within `time_limit` seconds, for any graph.

        warm_start: a choice to improve on.
        Raises Infeasible if it is proved that there is no choice.
        Raises SolverUnavailable if it cannot work at all.
        """
        ...
