"""Budgets of a choice, and Lagrange steps towards cheap choices within them.

    budget = Budget(bytes_of, 4096)
    met = steps(graph, [budget], [start])

A step adds to the cost of an e-node its weights, each at the price of its budget.
The price rises while the budget is exceeded, and falls while it is not.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from extraction.check import Choice, check
from extraction.dag_greedy import first_pass
from extraction.graph import ChoiceGraph, Prices
from extraction.local_search import WORK, LocalSearch
from extraction.stopping import clock, is_over

#: Sum of weights above a budget that counts as rounding.
_ROUNDING = 1e-6
#: Steps from one start.
_STEPS = 10
#: Price of all excess in the first step, as a share of the cost.
_FIRST = 0.1
#: Factor by which the price of a budget rises and falls at first; its root after each turn.
_FACTOR = 4.0


@dataclass(frozen=True, eq=False)
class Budget:
    """An upper limit on the sum of weights over a choice.

    weights: float64[n_nodes], the weight of every e-node of a graph
    most   : the largest allowed sum
    """

    weights: NDArray[np.float64]
    most: float

    def excess(self, choice: Choice) -> float:
        """Returns by how much a choice exceeds the budget, 0 if it does not."""
        over = float(self.weights[list(choice.values())].sum()) - self.most
        return over if over > _ROUNDING else 0.0


def steps(
    graph: ChoiceGraph, budgets: Sequence[Budget], starts: Sequence[Choice], *, time_limit: float = 10.0, seed: int = 0
) -> list[dict[int, int]]:
    """Returns the choices of Lagrange steps from each start; none from one within the budgets.

    Each step improves the choice of the step before locally, at its prices.
    A choice that exceeds a budget and does not change is followed by a greedy one.
    time_limit: seconds of computing from one start.
    Raises Infeasible.
    """
    search = _Steps(graph, budgets)
    return [choice for start in starts for choice in search.of(start, clock() + time_limit, seed)]


class _Steps:
    """Lagrange steps in one graph.

    prices: those of the present step.
    own: prices of e-nodes without the budgets.
    """

    def __init__(self, graph: ChoiceGraph, budgets: Sequence[Budget]) -> None:
        self.graph, self.budgets = graph, budgets
        self.prices = Prices(graph)
        self.own = self.prices.node
        self.weights = np.array([b.weights for b in budgets])

    @cached_property
    def picks(self) -> dict[int, int]:
        """Picks for the classes that a start does not reach."""
        self.prices.node = self.own
        return first_pass(self.prices)

    def of(self, start: Choice, deadline: float, seed: int) -> Iterator[dict[int, int]]:
        """Yields the choices of the steps from a start, until `deadline` on `stopping.clock`."""
        excess = self._excess(start)
        if not excess.any():
            return
        rng, cost, picks, choice = random.Random(seed), check(self.graph, start), self.picks, dict(start)
        rates, factors = np.zeros(len(self.budgets)), np.full(len(self.budgets), _FACTOR)
        over, is_stuck = excess > 0, False
        for _ in range(_STEPS):
            if is_over(deadline):
                return
            first = _FIRST * cost / np.maximum(excess, 1.0)
            rates = np.where(over, np.where(rates > 0, rates * factors, first), rates / factors)
            self.prices.node = (np.array(self.own) + rates @ self.weights).tolist()
            if is_stuck:
                picks = first_pass(self.prices)
            search = LocalSearch(self.prices, picks if is_stuck else {**picks, **choice})
            search.descend(deadline, rng, work=WORK // _STEPS)
            is_stuck = bool(over.any()) and search.active() == choice
            choice = search.active()
            yield choice
            excess, were_over = self._excess(choice), over
            over = excess > 0
            factors = np.where((over != were_over) & (rates > 0), factors**0.5, factors)

    def _excess(self, choice: Choice) -> NDArray[np.float64]:
        return np.array([b.excess(choice) for b in self.budgets])
