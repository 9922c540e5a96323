"""Extraction of large graphs by parts.

    found = extract(graph, portfolio, "portfolio", time_limit=600)     # portfolio: any extractor

If a single class joins the classes below it to the rest, the part below is extracted separately.
Equal parts are extracted once.

A class cuts a graph if every path between the roots and the classes below goes through it.
Each of its e-nodes must also read only classes below, or only other classes.
Then nothing above changes which choice below is the cheapest.
In the graph above, one e-node with the cost of that choice stands for the part.
If every derivation above needs that class, the e-node is free there, and the cost is added at the end.
So equal parts stay equal even if the parts below them differ.
The cut classes of an undirected graph are found in linear time.
(Hopcroft and Tarjan, "Algorithm 447: efficient algorithms for graph manipulation", 1973.)

The bounds of the parts add up.
A part that a choice may leave out costs between its bound and its cost.
This widens the gap of the whole by the gap of the part.
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

#: E-nodes up to which a graph is extracted as a whole.
WHOLE = 100_000

#: E-nodes that a part has at least, so that it is worth solvers of its own.
LEAST = 2_000

#: Cuts of one part up to which it is determined which of them every derivation needs.
_MOST_CHECKED_CUTS = 8


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a graph, extracted separately.

    graph : the part; an e-node of cost 0 stands for each part below
    nodes : its e-nodes in the whole graph, -1 for an e-node that stands for a part
    below : {e-node that stands for a part: the class that cuts there}
    needed: those of `below` without which this part has no derivation
    digest: equal for equal parts

    The root is class 0; the topmost part has the roots of the whole graph.
    """

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
    """Returns the choice that an extractor called `name` makes by parts, each with its share of the time.

    time_limit: seconds for the whole graph.
    Raises Infeasible, NoChoiceFound.
    """
    begin = time.perf_counter()
    parts = cut(graph, LEAST)
    if len(parts) == 1:
        return extractor(graph, time_limit=time_limit, seed=seed, warm_start=warm_start)
    sizes = {p.digest: p.graph.n_nodes for p in parts.values()}
    known: dict[tuple[bytes, tuple[float, ...]], Extraction | None] = {}
    found: dict[int, Extraction | None] = {}
    cost: dict[int, float] = {}  # inf: the part has no choice
    gap = 0.0  # the most by which the chosen parts exceed the optimum
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
    """Returns the extraction of a part, or None if it is proved that there is no choice."""
    try:
        return extractor(graph, time_limit=time_limit, seed=seed, warm_start=None).unless_interrupted()
    except Infeasible:
        return None


def _priced(part: Part, optional: Sequence[float]) -> ChoiceGraph:
    """Returns the part's graph with the costs of the optional parts below; those without a choice are forbidden."""
    cost = part.graph.cost.copy()
    cost[part.optional] = [0.0 if x == math.inf else x for x in optional]
    gone = frozenset(n for n, x in zip(part.optional, optional, strict=True) if x == math.inf)
    return replace(part.graph, cost=cost, forbidden=part.graph.forbidden | gone)


def _joined(graph: ChoiceGraph, parts: Mapping[int, Part], found: Mapping[int, Extraction | None]) -> dict[int, int]:
    """Returns the choice of the whole graph that the choices of the parts make up."""
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
    """Returns {class that cuts: the part below it}, each after all parts below it.

    least: e-nodes that a part has at least.
    The key of the topmost part is the number of classes, which is no class.
    """
    tree = _Tree(graph)
    cuts = _Cuts(graph, tree, least)
    return {top: cuts.part(top) for top in cuts.tops}


class _Tree:
    """Depth-first search from the roots along reads in both directions.

    order   : the classes in the order of discovery, preceded by a virtual root that reads the roots
    place[c]: position of c in `order`
    end[c]  : the subtree of c is order[place[c]:end[c]]
    above[c]: parent of c
    low[c]  : least place of any class that is adjacent to the subtree of c
    """

    def __init__(self, graph: ChoiceGraph):
        virtual_root = graph.n_classes
        start, near = _neighbours(graph)
        self.place, self.low, self.end, self.above = ([-1] * (virtual_root + 1) for _ in range(4))
        self.order: list[int] = []
        at = start[:-1]
        stack = [virtual_root]
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

    def is_separated(self, c: int) -> bool:
        """Whether only the parent of c joins the subtree of c to the rest."""
        return self.low[c] >= self.place[self.above[c]]


def _neighbours(graph: ChoiceGraph) -> tuple[list[int], list[int]]:
    """Returns the classes that read each class or are read by it, in flat arrays (start, near).

    The neighbours of c are near[start[c]:start[c + 1]].
    The virtual root reads the roots.
    """
    virtual_root = graph.n_classes
    readers = np.repeat(graph.node_class, np.diff(graph.child_start))
    usable = np.ones(graph.n_nodes, bool)
    usable[list(graph.forbidden)] = False
    kept = np.repeat(usable, np.diff(graph.child_start)) & (readers != graph.child_index)
    one = np.concatenate([readers[kept], np.full(len(graph.roots), virtual_root)])
    other = np.concatenate([graph.child_index[kept], np.array(graph.roots, np.int64)])
    both = np.unique(np.concatenate([one * (virtual_root + 1) + other, other * (virtual_root + 1) + one]))
    start = np.searchsorted(both // (virtual_root + 1), np.arange(virtual_root + 2))
    return start.tolist(), (both % (virtual_root + 1)).tolist()


class _Cuts:
    """The places where a graph is cut.

    below: {class that cuts: its e-nodes that read below it}
    tops : the classes that cut, the lowest first, then the virtual root
    """

    def __init__(self, graph: ChoiceGraph, tree: _Tree, least: int):
        self.graph, self.tree, virtual_root = graph, tree, graph.n_classes
        self.below: dict[int, list[int]] = {}
        self._spans: dict[int, list[tuple[int, int]]] = {}
        self._readers: dict[int, list[int]] = {}  # e-node -> the e-nodes that have a pair with it
        for n, m in (*graph.pair_costs, *graph.forbidden_pairs):
            self._readers.setdefault(m, []).append(n)
        weight = [0] * (virtual_root + 1)  # of the class's subtree, without parts cut off
        separated = [0] * (virtual_root + 1)  # of subtrees that only the class joins to the rest
        for c in reversed(tree.order[1:]):
            weight[c] += len(graph.class_nodes(c))
            if separated[c] >= least and self._cuts(c):
                weight[c] -= separated[c]
            above = tree.above[c]
            weight[above] += weight[c]
            if tree.is_separated(c):
                separated[above] += weight[c]
                self._spans.setdefault(above, []).append((tree.place[c], tree.end[c]))
        self.tops = [*self.below, virtual_root]
        self._part_of = self._assigned()
        self._members: dict[int, list[int]] = {top: [] for top in self.tops}
        for c in tree.order[1:]:
            self._members[self._part_of[c]].append(c)
        self._pairs = self._assigned_pairs()

    def _cuts(self, c: int) -> bool:
        """Whether the graph is cut at class c; if so, adds it to `below`."""
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
        paired = {int(graph.node_class[r]) for n in lower for r in self._readers.get(n, ())}
        if not lower or len(lower) > 1 and any(not self._is_inside(c, d) for d in paired):
            return False
        self.below[c] = lower
        return True

    def _is_inside(self, c: int, d: int) -> bool:
        """Whether only class c joins class d to the rest."""
        return any(a <= self.tree.place[d] < b for a, b in self._spans.get(c, ()))

    def _assigned(self) -> dict[int, int]:
        """Returns {class: its part}; a class that cuts belongs to the part above."""
        part_of = {self.graph.n_classes: self.graph.n_classes}
        for c in self.tree.order[1:]:
            above = self.tree.above[c]
            part_of[c] = above if above in self.below and self.tree.is_separated(c) else part_of[above]
        return part_of

    def _assigned_pairs(self) -> dict[int, list[tuple[int, int]]]:
        """Returns {part: the pairs whose reader is in it}."""
        lower = {n: c for c, nodes in self.below.items() for n in nodes}
        pairs: dict[int, list[tuple[int, int]]] = {top: [] for top in self.tops}
        for n, m in (*self.graph.pair_costs, *self.graph.forbidden_pairs):
            part = lower[n] if n in lower else self._part_of.get(int(self.graph.node_class[n]))
            if part is not None:
                pairs[part].append((n, m))
        return pairs

    def part(self, top: int) -> Part:
        """Returns the part below a class that cuts, or the topmost one for the virtual root."""
        graph, virtual_root = self.graph, self.graph.n_classes
        classes = [*([top] if top < virtual_root else []), *sorted(self._members[top])]
        position = {c: i for i, c in enumerate(classes)}
        rows: list[list[tuple[float, list[int]]]] = []
        nodes: list[int] = []
        number: dict[int, int] = {}
        below: dict[int, int] = {}
        for c in classes:
            lower = self.below.get(c, [])
            own = lower if c == top else sorted(set(graph.class_nodes(c)) - graph.forbidden - set(lower))
            parts = [] if c == top else lower
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
            [position[r] for r in graph.roots] if top == virtual_root else [0],
            {(a, b): graph.pair_costs[n, m] for a, b, n, m in pairs if (n, m) in graph.pair_costs},
            forbidden_pairs=[(a, b) for a, b, n, m in pairs if (n, m) in graph.forbidden_pairs],
            per_reader=[position[c] for c in classes if c in graph.per_reader],
        )
        asked = below if len(below) <= _MOST_CHECKED_CUTS else {}
        needed = frozenset(n for n in asked if not derivable(small, [n]))
        return Part(small, tuple(nodes), below, needed, _digest(small, (*below, -1, *sorted(needed))))


def _digest(graph: ChoiceGraph, more: Iterable[int]) -> bytes:
    """Returns a digest that is equal for equal graphs with equal `more`."""
    hashed = hashlib.blake2b(digest_size=16)
    for array in (graph.class_start, graph.cost, graph.child_start, graph.child_index):
        hashed.update(array.tobytes() + b"|")
    pairs = sorted(graph.pair_costs.items()), sorted(graph.forbidden_pairs), sorted(graph.per_reader), graph.roots
    hashed.update(repr((pairs, tuple(more))).encode())
    return hashed.digest()
