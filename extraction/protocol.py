"""What an extractor is, what a solver is, and what a solver reports while it runs.

An *extractor* is what a user names: a function from a ChoiceGraph to an Extraction. The exact ones share greedy
extraction and reductions (`exact`) and leave the rest to *solvers*, which run in processes of their own and against
each other (`race`). A solver is a frozen
dataclass: its fields are its options, plain values that JSON holds, by which the process makes it anew. A package of
its own may have one:

    @dataclass(frozen=True)
    class Mine:
        effort: int = 3

        def solve(self, graph, report, *, deadline, seed, warm_start):
            ...
            return "limit"

    extract = exact.extractor("mine", Mine())
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Protocol

from .check import Choice
from .graph import ChoiceGraph
from .result import Extraction

Ending = Literal["optimal", "infeasible", "limit"]
"""How a solver ends: the last choice that it reported is optimal; there is no choice; or neither is proved beyond
what it reported."""


class SolverReport(Protocol):
    """Takes what a solver finds, while it runs. Nothing of it is believed unchecked but the bounds."""

    def choice(self, choice: dict[int, int]) -> None:
        """An incumbent, {class: e-node}."""
        ...

    def bound(self, value: float) -> None:
        """A proved lower bound on the cost of every choice."""
        ...


class Solver(Protocol):
    """Solves a graph in normal form (`normal_form`), in a process of its own."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def solve(
        self, graph: ChoiceGraph, report: SolverReport, *, deadline: float, seed: int, warm_start: Choice | None
    ) -> Ending:
        """Search until proved or until `deadline`, on the clock of time.perf_counter.

        `warm_start` is a valid choice to improve on. Raises ImportError if a library is not installed.
        """
        ...


class Extractor(Protocol):
    """A method of `extract`."""

    def __call__(self, graph: ChoiceGraph, *, time_limit: float, seed: int, warm_start: Choice | None) -> Extraction:
        """The cheapest choice found within `time_limit` seconds, of any graph.

        `warm_start` is a choice to improve on. Raises Infeasible if it is proved that there is none, NoChoiceFound if
        the extractor gave up before it found one, SolverUnavailable if it cannot work at all.
        """
        ...
