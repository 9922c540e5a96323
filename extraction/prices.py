"""What one more active e-node adds to the total: node prices and edge prices of a ChoiceGraph.

The total of a choice is the sum of `node[n]` over its e-nodes and of `edge(n, m)` over its reads.
A per-reader class moves its price from the node to the edges; pair deltas are edges already.
"""

from __future__ import annotations

import math

from .graph import ChoiceGraph


class Prices:
    """Node and edge prices of `graph`, as plain lists and dicts for tight Python loops. paired: of each e-node whose edges may have a price the
    classes that it is about."""

    def __init__(self, graph: ChoiceGraph):
        self.graph = graph
        cost = graph.cost.tolist()
        self.node: list[float] = cost[:]
        for c in graph.per_reader:
            if c not in graph.roots:  # a root's outside reader pays the node price, the others edges
                for m in graph.class_nodes(c):
                    self.node[m] = 0.0
        self._cost: list[float] = cost
        self.reads = [tuple(dict.fromkeys(graph.children(n))) for n in range(graph.n_nodes)]
        owner = self._class = graph.node_class.tolist()
        self._pairs: dict[int, dict[int, float]] = {}
        for (n, m), delta in graph.pair_costs.items():
            self._pairs.setdefault(n, {})[m] = delta
        for n, m in graph.forbidden_pairs:
            self._pairs.setdefault(n, {})[m] = math.inf
        self.paired: dict[int, tuple[int, ...]] = {}
        for n in range(graph.n_nodes) if graph.per_reader else self._pairs:
            others = {owner[m] for m in self._pairs.get(n, ())} | graph.per_reader
            if found := tuple(d for d in self.reads[n] if d in others):
                self.paired[n] = found

    def edge(self, n: int, m: int) -> float:
        """The price of e-node n reading e-node m; inf if it may not. Zero unless n is in `paired`."""
        price = self._pairs[n].get(m, 0.0) if n in self._pairs else 0.0
        return price + self._cost[m] if self._class[m] in self.graph.per_reader else price

    def edges(self, n: int, choice: dict[int, int] | list[int]) -> float:
        """The price of all that n reads under `choice`."""
        price = 0.0
        for d in self.paired.get(n, ()):
            price += self.edge(n, choice[d])
        return price
