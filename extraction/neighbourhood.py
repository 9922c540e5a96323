"""A neighbourhood of a choice as a small ChoiceGraph: some classes are free, the rest of the choice
    stays.

The part that stays is paid for already.
It enters the small graph only where it must.
Pairs across the border change the prices of e-nodes inside.
Against cycles, a free e-node stands for a class that stays and reads the free classes on which that class depends.
Classes that are active only for the sake of free classes may become inactive.
So they are inside, each with its chosen e-node.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass

from extraction.check import Choice, reachable
from extraction.graph import ChoiceGraph


@dataclass(frozen=True)
class Subproblem:
    """A neighbourhood as a problem of its own.

    graph: the neighbourhood as a ChoiceGraph
    nodes: its e-nodes in the whole graph, -1 for placeholders of the part that is kept
    """

    graph: ChoiceGraph
    nodes: tuple[int, ...]

    def of(self, choice: Choice) -> dict[int, int]:
        """Returns the neighbourhood's share of a choice of the whole graph."""
        chosen = set(choice.values())
        return {int(self.graph.node_class[i]): i for i, n in enumerate(self.nodes) if n < 0 or n in chosen}

    def put_into(self, whole: ChoiceGraph, choice: Choice, share: Choice) -> dict[int, int]:
        """Returns `choice` with its share in the neighbourhood replaced."""
        new = [self.nodes[i] for i in share.values() if self.nodes[i] >= 0]
        return reachable(whole, {**choice, **{int(whole.node_class[n]): n for n in new}})


@dataclass(frozen=True)
class _Cut:
    """A choice cut into the classes that stay and the free ones.

    stays   : classes that are active whatever is chosen for the free ones
    inside  : class -> the e-nodes to choose from; all e-nodes of a free class, the chosen one of a
        class that is active only for the sake of free ones
    required: free classes that are roots, or that a class that stays reads
    depends : class that stays -> the free classes on which it depends
    """

    stays: set[int]
    inside: dict[int, list[int]]
    required: set[int]
    depends: dict[int, set[int]]


class Neighbours:
    """Neighbourhoods in a graph in normal form (see `reduce`)."""

    def __init__(self, graph: ChoiceGraph, rng: random.Random):
        self.graph, self.rng = graph, rng
        self.owner = graph.node_class.tolist()
        self.adjacent: list[set[int]] = [set() for _ in range(graph.n_classes)]
        for n in range(graph.n_nodes):
            for d in graph.children(n):
                self.adjacent[self.owner[n]].add(d)
                self.adjacent[d].add(self.owner[n])
        self.open = [len(graph.class_nodes(c)) > 1 for c in range(graph.n_classes)]
        self.surcharges: dict[int, dict[int, float]] = {}  # reader -> read -> surcharge
        for (n, _), terms in graph.pair_terms().items():
            self.surcharges.setdefault(n, {}).update(terms)

    def ball(self, choice: Choice, size: int) -> set[int]:
        """Returns classes around a random active one.

        size: active classes among them with more than one e-node.
        """
        start = self.rng.choice([c for c in choice if self.open[c]] or list(choice))
        ball, queue, count = {start}, deque([start]), 1
        while queue and count < size:
            near = sorted(self.adjacent[queue.popleft()] - ball)
            self.rng.shuffle(near)
            for d in near:
                ball.add(d)
                queue.append(d)
                count += d in choice and self.open[d]
                if count >= size:
                    break
        return ball

    def part(self, choice: Choice, free: set[int]) -> Subproblem:
        """Returns the neighbourhood of `choice` in which the classes `free` are chosen anew.

        choice: lists readers before the classes that they read.
        """
        cut = self._cut_free(choice, free)
        price = self._prices(choice, cut)
        readable = cut.inside.keys() | cut.stays
        usable = {
            c: [n for n in nodes if readable.issuperset(self.graph.children(n))] for c, nodes in cut.inside.items()
        }
        # a class gets a free e-node if it stays, depends on free classes and is read inside
        border = sorted({d for n in price for d in self.graph.children(n) if cut.depends.get(d)})
        number = {c: i for i, c in enumerate([*usable, *border])}
        reads = {n: sorted({number[d] for d in self.graph.children(n) if d in number}) for n in price}
        rows = [[(price[n], reads[n]) for n in nodes] for nodes in usable.values()]
        rows += [[(0.0, sorted(number[c] for c in cut.depends[d]))] for d in border]
        nodes = [n for kept in usable.values() for n in kept]
        new = {n: i for i, n in enumerate(nodes)}
        pairs = {(new[n], new[m]): delta for n in new for m, delta in self.surcharges.get(n, {}).items() if m in new}
        graph = ChoiceGraph.build(rows, [number[c] for c in sorted(cut.required)], pairs)
        return Subproblem(graph, (*nodes, *(-1 for _ in border)))

    def _cut_free(self, choice: Choice, free: set[int]) -> _Cut:
        stays, required, stack = set(), set(), list(self.graph.roots)
        while stack:
            c = stack.pop()
            if c in free:
                required.add(c)
            elif c not in stays:
                stays.add(c)
                stack.extend(self.graph.children(choice[c]))
        inside = {c: list(self.graph.class_nodes(c)) for c in sorted(free)}
        inside |= {c: [choice[c]] for c in choice if c not in free and c not in stays}
        depends: dict[int, set[int]] = {}
        for c in reversed(list(choice)):
            if c in stays:
                reads = self.graph.children(choice[c])
                depends[c] = set().union(*({d} if d in free else depends[d] for d in reads))
        return _Cut(stays, inside, required, depends)

    def _prices(self, choice: Choice, cut: _Cut) -> dict[int, float]:
        """Returns the prices of the e-nodes inside, with their surcharges across the border."""
        price = {n: float(self.graph.cost[n]) for nodes in cut.inside.values() for n in nodes}
        chosen = {choice[c] for c in cut.stays}
        for c in cut.stays:
            for m, delta in self.surcharges.get(choice[c], {}).items():
                if m in price:
                    price[m] += delta
        for n in price:
            price[n] += sum(delta for m, delta in self.surcharges.get(n, {}).items() if m in chosen)
        return price
