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

from typing import Literal, Protocol

from extraction.check import Choice
from extraction.graph import ChoiceGraph
from extraction.result import Extraction

#: How a solver ends.
#: optimal: the last choice that it reported is optimal.
#: limit: nothing is proved beyond the reported choices and bounds.
Ending = Literal["optimal", "limit"]


class SolverReport(Protocol):
    """Receives choices and bounds from a solver while it runs.

    Choices are checked; bounds are trusted.
    """

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
