"""What one more active e-node adds to the total: node prices and edge prices of a ChoiceGraph.

The total of a choice is the sum of `node[n]` over its e-nodes and of `edge(n, m)` over its reads.
A per-reader class moves its price from the node to the edges; pair deltas are edges already.
"""

from __future__ import annotations

import math

from .graph import ChoiceGraph


class Prices:
    """Node and edge prices of `graph`, as plain lists and dicts for tight Python loops."""

    def __init__(self, graph: ChoiceGraph):
        self.graph = graph
        cost = graph.cost.tolist()
        self.node: list[float] = cost[:]
        for c in graph.per_reader:
            if c not in graph.roots:  # a root's outside reader pays the node price, the others edges
                for m in graph.class_nodes(c):
                    self.node[m] = 0.0
        self._cost: list[float] = cost
        self._class = graph.node_class.tolist()
        self.reads = [tuple(dict.fromkeys(graph.children(n))) for n in range(graph.n_nodes)]
        self.paired = {n for n, _ in graph.pair_costs} | {n for n, _ in graph.forbidden_pairs}
        if graph.per_reader:
            self.paired |= {n for n, ds in enumerate(self.reads) if not graph.per_reader.isdisjoint(ds)}

    def edge(self, n: int, m: int) -> float:
        """The price of e-node n reading e-node m; inf if it may not. Zero unless n is in `paired`."""
        if (n, m) in self.graph.forbidden_pairs:
            return math.inf
        price = self.graph.pair_costs.get((n, m), 0.0)
        return price + self._cost[m] if self._class[m] in self.graph.per_reader else price

    def edges(self, n: int, choice: dict[int, int] | list[int]) -> float:
        """The price of all that n reads under `choice`."""
        if n not in self.paired:
            return 0.0
        return sum(self.edge(n, choice[d]) for d in self.reads[n])
