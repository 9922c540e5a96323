"""Prices as whole numbers, for solvers that take only these."""

from __future__ import annotations

import numpy as np

from extraction.graph import ChoiceGraph

#: Largest scaled price: clingo keeps a weight in a signed 32-bit integer.
LARGEST = 2**31 - 1


class Scale:
    """Rounds prices to multiples of 1 / `factor`.

    The factor is the least power of ten that represents all prices to 1e-7 of the largest one.
    (Measured costs are often decimal fractions stored in single precision.)
    If no such factor fits the weights, it is the largest that does.
    slack: the most that rounding can add to any choice, in scaled units.
    """

    def __init__(self, graph: ChoiceGraph):
        surcharges = list(graph.pair_costs.values())
        prices = np.concatenate([graph.cost, np.array(surcharges, dtype=float)])
        top = float(np.abs(prices).max(initial=0.0)) or 1.0
        factor = min(1.0, LARGEST / top)
        while (
            top * factor * 10 <= LARGEST
            and np.abs(prices * factor - np.round(prices * factor)).max() > 1e-7 * top * factor
        ):
            factor *= 10
        self.factor = factor
        worst: dict[tuple[int, ...], float] = {}  # by class, and by two classes
        owner = graph.node_class.tolist()
        groups = [(c,) for c in owner] + [(owner[n], owner[m]) for n, m in graph.pair_costs]
        for group, price in zip(groups, prices.tolist()):
            worst[group] = max(worst.get(group, 0.0), self.round(price) - price * factor)
        self.slack = sum(worst.values())

    def round(self, price: float) -> int:
        """Returns `price` in scaled units."""
        return round(price * self.factor)

    def bound(self, value: float) -> float:
        """Returns a lower bound on prices from a lower bound in scaled units."""
        return (value - self.slack) / self.factor
