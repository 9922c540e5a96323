"""A neighbourhood of a choice as a small ChoiceGraph of its own: some classes are free, what else is chosen stays.

What stays is paid already and comes in only where it must: as the price of pairs that cross the border, and, against cycles, as a
free e-node that reads the free classes it depends on. What is chosen for the sake of free classes only may go, so it is inside,
with its one e-node.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass

from .check import Choice, reachable
from .graph import ChoiceGraph


@dataclass(frozen=True)
class Part:
    """graph: the neighbourhood. nodes: its e-nodes in the whole graph, -1 for what stands for things that stay."""

    graph: ChoiceGraph
    nodes: tuple[int, ...]

    def of(self, choice: Choice) -> dict[int, int]:
        """The neighbourhood's share of a choice of the whole graph."""
        chosen = set(choice.values())
        return {int(self.graph.node_class[i]): i for i, n in enumerate(self.nodes) if n < 0 or n in chosen}

    def put_into(self, whole: ChoiceGraph, choice: Choice, share: Choice) -> dict[int, int]:
        """`choice` with its share in the neighbourhood replaced."""
        new = [self.nodes[i] for i in share.values() if self.nodes[i] >= 0]
        return reachable(whole, {**choice, **{int(whole.node_class[n]): n for n in new}})


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
        self.due: dict[int, dict[int, float]] = {}  # reader -> read -> surcharge
        for (n, m), delta in graph.pair_costs.items():
            self.due.setdefault(n, {})[m] = delta
        for n, m in graph.forbidden_pairs:
            self.due.setdefault(n, {})[m] = float("inf")

    def ball(self, choice: Choice, size: int) -> set[int]:
        """Classes around a random active one, `size` of them active and with a choice to make."""
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

    def part(self, choice: Choice, free: set[int]) -> Part:
        """The neighbourhood of `choice`, which must list readers before what they read, with the classes `free` to choose anew."""
        stays, required, stack = set(), set(), list(self.graph.roots)
        while stack:
            c = stack.pop()
            if c in free:
                required.add(c)
            elif c not in stays:
                stays.add(c)
                stack.extend(self.graph.children(choice[c]))
        rows = {c: list(self.graph.class_nodes(c)) for c in sorted(free)} | {
            c: [choice[c]] for c in choice if c not in free and c not in stays
        }
        behind: dict[int, set[int]] = {}  # what stays -> the free classes it depends on
        for c in reversed(list(choice)):
            if c in stays:
                behind[c] = set().union(*({d} if d in free else behind[d] for d in self.graph.children(choice[c])))
        price = {n: float(self.graph.cost[n]) for nodes in rows.values() for n in nodes}
        for c in stays:
            for m, delta in self.due.get(choice[c], {}).items():
                if m in price:
                    price[m] += delta
        for n in price:
            price[n] += sum(
                delta
                for m, delta in self.due.get(n, {}).items()
                if self.owner[m] in stays and choice[self.owner[m]] == m
            )
        return self._built(rows, price, stays, {c: b for c, b in behind.items() if b}, required)

    def _built(
        self,
        rows: dict[int, list[int]],
        price: dict[int, float],
        stays: set[int],
        behind: dict[int, set[int]],
        required: set[int],
    ) -> Part:
        needed = sorted({d for n in price for d in self.graph.children(n) if d in behind})
        number = {c: i for i, c in enumerate([*rows, *needed])}
        classes, nodes = [], []
        for members in rows.values():
            kept = [
                n
                for n in members
                if price[n] < float("inf") and all(d in rows or d in stays for d in self.graph.children(n))
            ]
            classes.append(
                [(price[n], sorted({number[d] for d in self.graph.children(n) if d in number})) for n in kept]
            )
            nodes += kept
        classes += [[(0.0, sorted(number[b] for b in behind[d]))] for d in needed]
        nodes += [-1] * len(needed)
        place = {n: i for i, n in enumerate(nodes) if n >= 0}
        inside = [(place[n], place[m], delta) for n in place for m, delta in self.due.get(n, {}).items() if m in place]
        return Part(
            ChoiceGraph.build(
                classes,
                [number[c] for c in sorted(required)],
                {(n, m): delta for n, m, delta in inside if delta < float("inf")},
                forbidden_pairs=[(n, m) for n, m, delta in inside if delta == float("inf")],
            ),
            tuple(nodes),
        )
