"""What is known about a graph under extraction: the incumbent and the bound, whichever solver told them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from extraction.check import Choice, check
from extraction.graph import ChoiceGraph
from extraction.protocol import Ending
from extraction.result import closes


@dataclass
class State:
    """The known facts about one graph, as a SolverReport.

    incumbent: the best choice, empty before the first
    cost     : its cost, or inf
    least    : no choice costs less
    on_better: called with each new incumbent and its cost
    """

    graph: ChoiceGraph
    incumbent: dict[int, int] = field(default_factory=dict)
    cost: float = float("inf")
    least: float = float("-inf")
    on_better: Callable[[Choice, float], None] = lambda choice, cost: None

    @property
    def proved(self) -> bool:
        """Whether the incumbent is proved optimal."""
        return closes(self.least, self.cost, self.graph.integral)

    def offer(self, choice: Choice) -> None:
        """Takes `choice` as the incumbent if it is valid and better.

        Raises InvalidExtraction.
        """
        cost = check(self.graph, choice)
        if cost < self.cost:
            self.incumbent, self.cost = dict(choice), cost
            self.on_better(choice, cost)

    def choice(self, choice: dict[int, int]) -> None:
        """Takes a choice that a solver reports, like `offer`."""
        self.offer(choice)

    def bound(self, value: float) -> None:
        """Takes a lower bound that a solver reports."""
        self.least = max(self.least, value)

    def end(self, ending: Ending) -> None:
        """Takes what a solver proved at its end."""
        if ending == "optimal":
            self.least = max(self.least, self.cost)
