"""Node prices and edge prices of a ChoiceGraph: what one more active e-node adds to the total.

The total of a choice is the sum of `node[n]` over its e-nodes and of `edge(n, m)` over its reads.
The price of a per-reader class moves from its e-nodes to the edges.
Deltas of pairs are edge prices already.
"""

from __future__ import annotations

from .graph import ChoiceGraph


class Prices:
    """Node and edge prices of `graph`, as plain lists and dicts for tight Python loops.

    node   : [e-node]: its price
    reads  : [e-node]: the classes that it reads, each once
    readers: [class]: the allowed e-nodes that read it, each once
    paired : {e-node: {class that it reads: {e-node of that class: price of the read}}}

    A price is inf where e-nodes may not be chosen together; reads that are not in `paired` are free.
    """

    def __init__(self, graph: ChoiceGraph):
        self.graph = graph
        cost = graph.cost.tolist()
        self.node: list[float] = cost[:]
        for c in graph.per_reader:
            if c not in graph.roots:  # a root's outside reader pays the node price, the others edges
                for m in graph.class_nodes(c):
                    self.node[m] = 0.0
        self.reads = graph.reads
        self.readers: list[list[int]] = [[] for _ in range(graph.n_classes)]
        for n, reads in enumerate(self.reads):
            if n not in graph.forbidden:
                for d in reads:
                    self.readers[d].append(n)
        pairs = graph.pair_terms()
        whole = {c: {m: cost[m] for m in graph.class_nodes(c)} for c in graph.per_reader}
        self.paired: dict[int, dict[int, dict[int, float]]] = {}
        for n in range(graph.n_nodes) if whole else {n for n, _ in pairs}:
            found = {}
            for d in self.reads[n]:
                mine = pairs.get((n, d))
                if d in whole:
                    found[d] = {m: c + mine.get(m, 0.0) for m, c in whole[d].items()} if mine else whole[d]
                elif mine:
                    found[d] = mine
            if found:
                self.paired[n] = found

    def edges(self, n: int, choice: dict[int, int] | list[int]) -> float:
        """Returns the price of all reads of n under `choice`; inf if one is forbidden."""
        price = 0.0
        for d, prices in self.paired.get(n, {}).items():
            price += prices.get(choice[d], 0.0)
        return price
