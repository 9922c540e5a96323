"""The normal form that reductions rewrite and exact solvers solve.

It has the optima of its ChoiceGraph, up to the constant `offset`, and fewer concepts:

* There are no forbidden e-nodes.
* For every e-node n and class d that it reads, the pair terms over d's e-nodes have minimum 0.

The minimum moves into the price of n, which pays it whatever is chosen for d, and which may become negative.
The remaining pair term is a *surcharge* >= 0.
So activity that is not needed can pay only in classes from which an e-node of negative price can be reached.
Such classes are *tainted*.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from extraction.graph import ChoiceGraph, Infeasible

#: {class that is read: {its e-node: surcharge > 0}}
Surcharges = dict[int, dict[int, float]]


@dataclass
class NormalForm:
    """Mutable working copy; classes and e-nodes keep the numbers of the graph they came from.

    members : class -> its remaining e-nodes (empty: the class is gone)
    owner   : e-node -> its class
    reads   : e-node -> the classes that it still has to read
    price   : e-node -> price
    pairs   : e-node -> its surcharges
    required: classes that every choice activates: the roots, and those found since
    offset  : added to a cost of the form it gives the cost in the graph
    fixed   : class that is gone -> its choice, if it is reached
    """

    members: list[list[int]]
    owner: list[int]
    reads: list[set[int]]
    price: list[float]
    pairs: dict[int, Surcharges]
    required: set[int]
    offset: float = 0.0
    fixed: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: ChoiceGraph) -> NormalForm:
        members = [[n for n in graph.class_nodes(c) if n not in graph.forbidden] for c in range(graph.n_classes)]
        pairs: dict[int, Surcharges] = {}
        reads = [set(graph.children(n)) for n in range(graph.n_nodes)]
        for (n, d), terms in graph.pair_terms().items():
            pairs.setdefault(n, {})[d] = terms
        self = cls(members, graph.node_class.tolist(), reads, graph.cost.tolist(), pairs, set(graph.roots))
        self.settle()
        return self

    def nodes(self) -> list[int]:
        """Returns all remaining e-nodes."""
        return [n for nodes in self.members for n in nodes]

    def readers(self) -> dict[int, list[int]]:
        """Returns {class: the remaining e-nodes that read it}."""
        readers: dict[int, list[int]] = {c: [] for c, nodes in enumerate(self.members) if nodes}
        for n in self.nodes():
            for d in self.reads[n]:
                readers.setdefault(d, []).append(n)
        return readers

    def settle(self) -> None:
        """Restores the minimum of 0 of all surcharges after e-nodes were removed."""
        alive = set(self.nodes()) if self.pairs else set()
        for n in list(self.pairs):
            terms = self.pairs.pop(n)
            if n in alive and (kept := self._settle(n, terms, alive)):
                self.pairs[n] = kept

    def _settle(self, n: int, terms: Surcharges, alive: set[int]) -> Surcharges:
        """Moves the minimum of n's surcharges into its price; returns the rest."""
        kept: Surcharges = {}
        for d, by_node in terms.items():
            if d not in self.reads[n]:
                continue
            if len(by_node) < len(self.members[d]) and by_node.keys() <= alive and min(by_node.values()) > 0.0:
                kept[d] = by_node  # settled: one of d is free, and none of the others was removed
                continue
            least = min((by_node.get(m, 0.0) for m in self.members[d]), default=0.0)
            self.price[n] += least
            rest = {m: by_node.get(m, 0.0) - least for m in self.members[d]}
            rest = {m: w for m, w in rest.items() if w > 0.0}
            if rest:
                kept[d] = rest
        return kept

    def remove(self, n: int) -> None:
        """Takes e-node n out of its class."""
        self.members[self.owner[n]].remove(n)

    def fix(self, c: int) -> None:
        """Fixes class c to its one e-node; the class is gone then."""
        self.fixed[c] = self.members[c][0]
        self.members[c] = []

    def is_fixed(self, c: int) -> bool:
        return not self.members[c] and c in self.fixed

    def decide(self, n: int, d: int, m: int) -> None:
        """Drops the read of class d by e-node n, whose choice is m for good; n pays the surcharge."""
        self.reads[n].discard(d)
        self.price[n] += self.pairs.get(n, {}).pop(d, {}).get(m, 0.0)

    def find_tainted(self) -> set[int]:
        """Returns the classes from which an e-node of negative price can be reached."""
        found = {self.owner[n] for n in self.nodes() if self.price[n] < 0}
        if found:
            readers, stack = self.readers(), list(found)
            while stack:
                for r in readers.get(stack.pop(), ()):
                    if self.owner[r] not in found:
                        found.add(self.owner[r])
                        stack.append(self.owner[r])
        return found

    def require_roots(self) -> None:
        """Raises Infeasible if a class that must be active has no e-node left."""
        for c in self.required:
            if not self.members[c]:
                raise Infeasible(f"class {c} has to be extracted and has no e-node that can be")
