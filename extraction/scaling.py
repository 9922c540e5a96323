"""Prices as whole numbers, for solvers that count in nothing else."""

from __future__ import annotations

import numpy as np

from .graph import ChoiceGraph

LARGEST = 2**31 - 1
"""clingo keeps a weight in a signed 32-bit integer."""


class Scale:
    """Rounds prices to multiples of 1 / `factor`.

    The factor is the least power of ten that represents all prices to a relative 1e-7 of the largest
    (measured costs are often decimal fractions stored in single precision), or the largest that fits
    the weights. `slack` is the most that rounding can add to any choice, in scaled units.
    """

    def __init__(self, graph: ChoiceGraph, largest: int = LARGEST):
        surcharges = list(graph.pair_costs.values())
        prices = np.concatenate([graph.cost, np.array(surcharges, dtype=float)])
        top = float(np.abs(prices).max(initial=0.0)) or 1.0
        factor = min(1.0, largest / top)
        while (
            top * factor * 10 <= largest
            and np.abs(prices * factor - np.round(prices * factor)).max() > 1e-7 * top * factor
        ):
            factor *= 10
        self.factor = factor
        worst: dict[tuple[int, ...], float] = {}  # one e-node for each class, one pair for each two
        owner = graph.node_class.tolist()
        groups = [(c,) for c in owner] + [(owner[n], owner[m]) for n, m in graph.pair_costs]
        for group, price in zip(groups, prices.tolist()):
            worst[group] = max(worst.get(group, 0.0), self.round(price) - price * factor)
        self.slack = sum(worst.values())

    def round(self, price: float) -> int:
        """`price` in scaled units."""
        return round(price * self.factor)

    def bound(self, value: float) -> float:
        """A lower bound on prices from one on scaled units."""
        return (value - self.slack) / self.factor
