"""Large graphs by parts: where a single class joins what is below it to the rest, the part below is extracted by
itself, and equal parts once.

    found = extract(graph, portfolio, "portfolio", time_limit=600)     # portfolio: any extractor

A class cuts a graph if each way from a root to what is below it, and each way back, goes through it, and each of its
e-nodes reads below it alone or above it alone. So nothing above changes which choice below is the cheapest: above, one
e-node of its cost stands for the part. Where every derivation above needs that class, it costs nothing there and its
cost is added, so that equal parts stay equal whatever is below them. What cuts an undirected graph (Hopcroft and
Tarjan, "Algorithm 447: efficient algorithms for graph manipulation", 1973) is found in linear time.

Bounds of parts add up. A part that may be left out costs between its bound and its cost, which widens the gap of the
whole by that of the part.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .check import Choice, check, reachable
from .derivation import derivable
from .errors import Infeasible
from .graph import ChoiceGraph
from .protocol import Extractor
from .result import Extraction, closes

WHOLE = 100_000
"""E-nodes up to which a graph is extracted as a whole."""

LEAST = 2_000
"""E-nodes below a cut, so that a part is worth its own solvers."""

_FOUND_NEEDED = 8
"""Cuts of one part, up to which it is found out which of them every derivation needs."""


@dataclass(frozen=True, slots=True)
class Part:
    """graph: an e-node of cost 0 stands for each part below; the root is class 0, but for the topmost part, which has
    the roots of the whole. nodes: its e-nodes in the whole graph, -1 for what stands for a part. below: such an e-node
    -> the class that cuts there; needed: those without which the part has no derivation. digest: equal where graphs
    are."""

    graph: ChoiceGraph
    nodes: tuple[int, ...]
    below: dict[int, int]
    needed: frozenset[int]
    digest: bytes

    @property
    def optional(self) -> list[int]:
        return [n for n in self.below if n not in self.needed]


def extract(
    graph: ChoiceGraph,
    extractor: Extractor,
    name: str,
    *,
    time_limit: float = 10.0,
    seed: int = 0,
    warm_start: Choice | None = None,
) -> Extraction:
    """The choice that an extractor called `name` makes by parts, each with its share of the time. Raises Infeasible,
    NoChoiceFound."""
    begin = time.perf_counter()
    parts = cut(graph, LEAST)
    if len(parts) == 1:
        return extractor(graph, time_limit=time_limit, seed=seed, warm_start=warm_start)
    sizes = {p.digest: p.graph.n_nodes for p in parts.values()}
    known: dict[tuple[bytes, tuple[float, ...]], Extraction | None] = {}
    found: dict[int, Extraction | None] = {}
    cost: dict[int, float] = {}  # inf: the part has no choice
    gap = 0.0  # by how much all that is chosen may cost too much
    for top, part in parts.items():
        needed = sum(cost[part.below[n]] for n in part.needed)
        optional = tuple(cost[part.below[n]] for n in part.optional)
        key = part.digest, optional
        if key not in known:
            left = max(0.1, time_limit - (time.perf_counter() - begin))
            share = part.graph.n_nodes / max(sum(sizes.values()), part.graph.n_nodes)
            known[key] = _extracted(_priced(part, optional), extractor, share * left, seed)
            sizes.pop(part.digest, None)
        found[top] = best = known[key]
        cost[top] = best.cost + needed if best else math.inf
        gap += best.cost - best.lower_bound if best else 0.0
    if cost[graph.n_classes] == math.inf:
        raise Infeasible("no choice is left where the graph is cut")
    choice = _joined(graph, parts, found)
    bound = check(graph, choice) - gap
    if warm_start is not None and check(graph, warm_start) < check(graph, choice):
        choice = reachable(graph, warm_start)
    total, seconds = check(graph, choice), time.perf_counter() - begin
    optimal = closes(bound, total, graph.integral)
    status = "optimal" if optimal else "feasible"
    return Extraction(choice, total, float(total) if optimal else bound, status, [(seconds, total)], seconds, name)


def _extracted(graph: ChoiceGraph, extractor: Extractor, time_limit: float, seed: int) -> Extraction | None:
    """None: it is proved that there is no choice."""
    try:
        return extractor(graph, time_limit=time_limit, seed=seed, warm_start=None).unless_interrupted()
    except Infeasible:
        return None


def _priced(part: Part, optional: Sequence[float]) -> ChoiceGraph:
    """The part's graph with what the parts cost that it can do without; those that have no choice are forbidden."""
    prices = dict(zip(part.optional, optional, strict=True))
    cost = part.graph.cost.copy()
    cost[part.optional] = [0.0 if x == math.inf else x for x in optional]
    gone = frozenset(n for n, x in prices.items() if x == math.inf)
    return replace(part.graph, cost=cost, forbidden=part.graph.forbidden | gone)


def _joined(graph: ChoiceGraph, parts: Mapping[int, Part], found: Mapping[int, Extraction | None]) -> dict[int, int]:
    """The choice of the whole graph that the choices of the parts are."""
    choice: dict[int, int] = {}
    todo = [graph.n_classes]
    while todo:
        top = todo.pop()
        part, best = parts[top], found[top]
        assert best is not None
        for n in best.choice.values():
            if n in part.below:
                todo.append(part.below[n])
            else:
                choice[int(graph.node_class[part.nodes[n]])] = part.nodes[n]
    return reachable(graph, choice)


def cut(graph: ChoiceGraph, least: int) -> dict[int, Part]:
    """{class that cuts: the part below it}, each after all that are below it; the topmost part is that of a class which
    is not there, the number of classes."""
    tree = _Tree(graph)
    cuts = _Cuts(graph, tree, least)
    return {top: cuts.part(top) for top in cuts.tops}


class _Tree:
    """Depth-first search from the roots, in both directions of reading: order[i] is the i-th class to be found, before
    all of them the world, which reads the roots. What was found from a class on lies in order[place[c]:end[c]]; low[c]:
    the earliest place that anything in there is joined to."""

    def __init__(self, graph: ChoiceGraph):
        world = graph.n_classes
        start, near = _neighbours(graph)
        self.place, self.low, self.end, self.above = ([-1] * (world + 1) for _ in range(4))
        self.order: list[int] = []
        at = start[:-1]
        stack = [world]
        while stack:
            c = stack[-1]
            if self.place[c] < 0:
                self.place[c] = self.low[c] = len(self.order)
                self.order.append(c)
            if at[c] == start[c + 1]:
                stack.pop()
                self.end[c] = len(self.order)
                if stack:
                    self.low[stack[-1]] = min(self.low[stack[-1]], self.low[c])
                continue
            d = near[at[c]]
            at[c] += 1
            if self.place[d] < 0:
                self.above[d] = c
                stack.append(d)
            elif d != self.above[c]:
                self.low[c] = min(self.low[c], self.place[d])

    def hangs(self, c: int) -> bool:
        """Whether nothing but the class above joins c, and what was found from it on, to the rest."""
        return self.low[c] >= self.place[self.above[c]]


def _neighbours(graph: ChoiceGraph) -> tuple[list[int], list[int]]:
    """Classes that read each class or are read by it: those of c are near[start[c]:start[c + 1]]. The world reads the
    roots."""
    world = graph.n_classes
    readers = np.repeat(graph.node_class, np.diff(graph.child_start))
    usable = np.ones(graph.n_nodes, bool)
    usable[list(graph.forbidden)] = False
    kept = np.repeat(usable, np.diff(graph.child_start)) & (readers != graph.child_index)
    one = np.concatenate([readers[kept], np.full(len(graph.roots), world)])
    other = np.concatenate([graph.child_index[kept], np.array(graph.roots, np.int64)])
    both = np.unique(np.concatenate([one * (world + 1) + other, other * (world + 1) + one]))
    start = np.searchsorted(both // (world + 1), np.arange(world + 2))
    return start.tolist(), (both % (world + 1)).tolist()


class _Cuts:
    """Where a graph is cut. below: class that cuts -> its e-nodes that read below it; tops: these classes, the lowest
    first, and the world."""

    def __init__(self, graph: ChoiceGraph, tree: _Tree, least: int):
        self.graph, self.tree, world = graph, tree, graph.n_classes
        self.below: dict[int, list[int]] = {}
        self._spans: dict[int, list[tuple[int, int]]] = {}
        self._readers: dict[int, list[int]] = {}  # e-node -> those that have a pair with it
        for n, m in (*graph.pair_costs, *graph.forbidden_pairs):
            self._readers.setdefault(m, []).append(n)
        weight = [0] * (world + 1)  # e-nodes from a class on, without those of parts
        hanging = [0] * (world + 1)  # of these, what hangs from it
        for c in reversed(tree.order[1:]):
            weight[c] += len(graph.class_nodes(c))
            if hanging[c] >= least and self._cuts(c):
                weight[c] -= hanging[c]
            above = tree.above[c]
            weight[above] += weight[c]
            if tree.hangs(c):
                hanging[above] += weight[c]
                self._spans.setdefault(above, []).append((tree.place[c], tree.end[c]))
        self.tops = [*self.below, world]
        self._part_of = self._assigned()
        self._members: dict[int, list[int]] = {top: [] for top in self.tops}
        for c in tree.order[1:]:
            self._members[self._part_of[c]].append(c)
        self._pairs = self._assigned_pairs()

    def _cuts(self, c: int) -> bool:
        """Whether the graph is cut at class c; then `below` has it."""
        graph = self.graph
        if c in graph.roots or c in graph.per_reader:
            return False
        lower = []
        for n in (n for n in graph.class_nodes(c) if n not in graph.forbidden):
            inside = {self._is_inside(c, d) for d in graph.children(n)}
            if len(inside) > 1:
                return False
            if True in inside:
                lower.append(n)
        if not lower or len(lower) > 1 and any(not self._is_inside(c, r) for r in self._paired(lower)):
            return False
        self.below[c] = lower
        return True

    def _paired(self, nodes: Iterable[int]) -> list[int]:
        """The classes whose e-nodes have pairs with these."""
        return [int(self.graph.node_class[r]) for n in nodes for r in self._readers.get(n, ())]

    def _is_inside(self, c: int, d: int) -> bool:
        """Whether class d hangs from class c."""
        return any(a <= self.tree.place[d] < b for a, b in self._spans.get(c, ()))

    def _assigned(self) -> dict[int, int]:
        """Class -> the part that it is in; one that cuts is in the part above."""
        part_of = {self.graph.n_classes: self.graph.n_classes}
        for c in self.tree.order[1:]:
            above = self.tree.above[c]
            part_of[c] = above if above in self.below and self.tree.hangs(c) else part_of[above]
        return part_of

    def _assigned_pairs(self) -> dict[int, list[tuple[int, int]]]:
        """By part the pairs whose reader is in it."""
        lower = {n: c for c, nodes in self.below.items() for n in nodes}
        pairs: dict[int, list[tuple[int, int]]] = {top: [] for top in self.tops}
        for n, m in (*self.graph.pair_costs, *self.graph.forbidden_pairs):
            part = lower[n] if n in lower else self._part_of.get(int(self.graph.node_class[n]))
            if part is not None:
                pairs[part].append((n, m))
        return pairs

    def part(self, top: int) -> Part:
        """The part that hangs from a class that cuts, or, from the world, the topmost one."""
        graph, world = self.graph, self.graph.n_classes
        classes = [*([top] if top < world else []), *sorted(self._members[top])]
        position = {c: i for i, c in enumerate(classes)}
        rows: list[list[tuple[float, list[int]]]] = []
        nodes: list[int] = []
        number: dict[int, int] = {}
        below: dict[int, int] = {}
        for c in classes:
            own, parts = self._nodes(c, top)
            number |= {n: len(nodes) + i for i, n in enumerate(own)} | dict.fromkeys(parts, len(nodes) + len(own))
            rows.append([(float(graph.cost[n]), [position[d] for d in graph.children(n)]) for n in own])
            nodes += own
            if parts:
                below[len(nodes)] = c
                rows[-1].append((0.0, []))
                nodes.append(-1)
        pairs = [(number[n], number[m], n, m) for n, m in self._pairs[top] if n in number and m in number]
        small = ChoiceGraph.build(
            rows,
            [position[r] for r in graph.roots] if top == world else [0],
            {(a, b): graph.pair_costs[n, m] for a, b, n, m in pairs if (n, m) in graph.pair_costs},
            forbidden_pairs=[(a, b) for a, b, n, m in pairs if (n, m) in graph.forbidden_pairs],
            per_reader=[position[c] for c in classes if c in graph.per_reader],
        )
        asked = below if len(below) <= _FOUND_NEEDED else {}
        needed = frozenset(n for n in asked if not derivable(small, [n]))
        return Part(small, tuple(nodes), below, needed, _digest(small, (*below, -1, *sorted(needed))))

    def _nodes(self, c: int, top: int) -> tuple[list[int], list[int]]:
        """The e-nodes of a class in a part, and those for which one stands there: they are in the part below."""
        lower = self.below.get(c, [])
        if c == top:
            return lower, []
        apart = set(lower)
        return [n for n in self.graph.class_nodes(c) if n not in self.graph.forbidden and n not in apart], lower


def _digest(graph: ChoiceGraph, more: Iterable[int]) -> bytes:
    """Equal for equal graphs about which `more` is equal."""
    hashed = hashlib.blake2b(digest_size=16)
    for array in (graph.class_start, graph.cost, graph.child_start, graph.child_index):
        hashed.update(array.tobytes() + b"|")
    pairs = sorted(graph.pair_costs.items()), sorted(graph.forbidden_pairs), sorted(graph.per_reader), graph.roots
    hashed.update(repr((pairs, tuple(more))).encode())
    return hashed.digest()
