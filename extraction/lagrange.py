"""Budgets of a choice, and Lagrange steps towards cheap choices within them.

    budget = Budget(bytes_of, 4096)
    met = steps(graph, [budget], start)

A step adds to the cost of an e-node its weights, each at the price of its budget.
The price rises while the budget is exceeded, and falls while it is not.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .bottom_up import readers_of
from .check import Choice, check
from .dag_greedy import first_pass
from .graph import ChoiceGraph
from .local_search import WORK, LocalSearch
from .prices import Prices
from .stopping import clock, is_over

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

    def share(self, choice: Choice) -> float:
        """Returns the excess as a share of the budget."""
        return self.excess(choice) / max(1.0, abs(self.most))


def steps(
    graph: ChoiceGraph, budgets: Sequence[Budget], start: Choice, *, time_limit: float = 10.0, seed: int = 0
) -> list[dict[int, int]]:
    """Returns the choices of Lagrange steps from a choice; none if it is within the budgets.

    Each step improves the choice of the step before locally, at its prices.
    A choice that exceeds a budget and does not change is followed by a greedy one.
    time_limit: seconds of computing.
    Raises Infeasible, NoChoiceFound.
    """
    prices = Prices(graph)
    own, readers, rng = np.array(prices.node), readers_of(graph, prices), random.Random(seed)
    weights = np.array([b.weights for b in budgets])
    rates, factors, were_over = np.zeros(len(budgets)), np.full(len(budgets), _FACTOR), None
    deadline, choice, cost = clock() + time_limit, dict(start), check(graph, start)
    others: dict[int, int] = {}  # picks for classes that the choice does not reach
    found: list[dict[int, int]] = []
    is_stuck = False
    for _ in range(_STEPS):
        excess = np.array([b.excess(choice) for b in budgets])
        over = excess > 0
        if is_over(deadline) or not (found or over.any()):
            break
        others = others or first_pass(graph, prices, readers)
        factors = factors if were_over is None else np.where((over != were_over) & (rates > 0), factors**0.5, factors)
        first = _FIRST * cost / np.maximum(excess, 1.0)
        rates = np.where(over, np.where(rates > 0, rates * factors, first), rates / factors)
        were_over = over
        prices.node = (own + rates @ weights).tolist()
        if is_stuck:
            others = first_pass(graph, prices, readers)
        search = LocalSearch(graph, prices, readers, others if is_stuck else {**others, **choice})
        search.descend(deadline, rng, work=WORK // _STEPS)
        is_stuck = bool(over.any()) and search.active() == choice
        choice = search.active()
        found.append(choice)
    return found
