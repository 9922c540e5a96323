"""Node prices and edge prices of a ChoiceGraph: what one more active e-node adds to the total.

The total of a choice is the sum of `node[n]` over its e-nodes and of `edge(n, m)` over its reads.
"""

from __future__ import annotations

from extraction.graph import ChoiceGraph


class Prices:
    """Node and edge prices of `graph`, as plain lists and dicts for tight Python loops.

    node   : [e-node]: its price
    reads  : [e-node]: the classes that it reads, each once
    readers: [class]: the allowed e-nodes that read it, each once
    paired : {e-node: {class that it reads: {e-node of that class: price of the read}}}; other reads are free
    """

    def __init__(self, graph: ChoiceGraph):
        self.graph = graph
        self.node: list[float] = graph.cost.tolist()
        self.reads = graph.reads
        self.readers: list[list[int]] = [[] for _ in range(graph.n_classes)]
        for n, reads in enumerate(self.reads):
            if n not in graph.forbidden:
                for d in reads:
                    self.readers[d].append(n)
        pairs = graph.pair_terms()
        self.paired = {n: {d: pairs[n, d] for d in self.reads[n] if (n, d) in pairs} for n, _ in pairs}

    def edges(self, n: int, choice: dict[int, int] | list[int]) -> float:
        """Returns the price of all reads of n under `choice`."""
        price = 0.0
        for d, prices in self.paired.get(n, {}).items():
            price += prices.get(choice[d], 0.0)
        return price
