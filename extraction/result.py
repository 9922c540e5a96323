"""The result of an extractor."""

from __future__ import annotations

from dataclasses import dataclass, field

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
        """Returns itself; for callers that Ctrl-C should stop as well.

        Raises KeyboardInterrupt if `interrupted`.
        """
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
