"""Derivable classes: a class is derivable if one of its e-nodes reads only derivable classes, or nothing."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from extraction.graph import ChoiceGraph
from extraction.normal_form import NormalForm


def derive(nodes: Iterable[tuple[int, Collection[int]]]) -> set[int]:
    """Returns the classes that have a derivation by e-nodes (class, classes that it reads), in linear time."""
    owner: list[int] = []
    missing: list[int] = []  # [e-node]: how many classes that it reads are not derived yet
    readers: defaultdict[int, list[int]] = defaultdict(list)
    queue: list[int] = []
    for n, (cls, reads) in enumerate(nodes):
        distinct = set(reads)
        owner.append(cls)
        missing.append(len(distinct))
        for d in distinct:
            readers[d].append(n)
        if not distinct:
            queue.append(cls)
    found: set[int] = set()
    while queue:
        cls = queue.pop()
        if cls in found:
            continue
        found.add(cls)
        for n in readers.get(cls, ()):
            missing[n] -= 1
            if not missing[n]:
                queue.append(owner[n])
    return found


def derivable(graph: ChoiceGraph, without: Iterable[int] = ()) -> bool:
    """Whether all roots have a derivation without the e-nodes `without` and the forbidden ones."""
    banned, owner = graph.forbidden.union(without), graph.node_class.tolist()
    allowed = ((owner[n], graph.children(n)) for n in range(graph.n_nodes) if n not in banned)
    return derive(allowed).issuperset(graph.roots)


def strong_components(successors: Mapping[int, Iterable[int]]) -> list[list[int]]:
    """Returns the strongly connected components, each after all that it can reach."""
    condensed = nx.condensation(nx.DiGraph(successors))
    return [sorted(condensed.nodes[c]["members"]) for c in reversed(list(nx.topological_sort(condensed)))]


def cyclic_component_of(successors: Mapping[int, Iterable[int]]) -> dict[int, int]:
    """Returns {class: number of its component} for the classes on cycles, also those that read themselves."""
    graph = nx.DiGraph(successors)
    reading_themselves = set(nx.nodes_with_selfloops(graph))
    cyclic = (c for c in nx.strongly_connected_components(graph) if len(c) > 1 or c <= reading_themselves)
    return {c: i for i, component in enumerate(cyclic) for c in component}


#: Classes above which no bit sets are made: they are quadratic in memory.
#: A class then counts as needing only itself.
CLOSURE_CLASSES = 25_000

#: Visits per class after which the fixpoint iteration gives up (dense cycles).
ROUNDS = 50

#: Members up to which a bit set is walked; a larger one is unpacked whole.
FEW = 24


class Closure:
    """For each class of a NormalForm the bit set of classes in every derivation of it, itself included.

    need(c) is {c} and the intersection, over the e-nodes n of c, of the union of need(d) over n's reads.
    The greatest solution is computed.
    By induction on the height of a derivation, each derivation of c contains need(c).
    Removing e-nodes or implied reads from the form keeps this true; other changes need a new Closure.
    """

    def __init__(self, form: NormalForm):
        self.classes = [c for c, nodes in enumerate(form.members) if nodes]
        self.index = {c: i for i, c in enumerate(self.classes)}
        self.bits: dict[int, int] = {c: 1 << i for c, i in self.index.items()}
        self._weights = np.zeros(len(self.classes))
        if len(self.classes) <= CLOSURE_CLASSES:
            self._solve(form)

    def _solve(self, form: NormalForm) -> None:
        own = dict(self.bits)
        need: dict[int, int] = {}
        above: dict[int, set[int]] = {c: set() for c in self.classes}
        for c in self.classes:
            for n in form.members[c]:
                for d in form.reads[n]:
                    above[d].add(c)
        queue = deque(c for c in self.classes if any(not form.reads[n] for n in form.members[c]))
        queued = set(queue)
        visits_left = ROUNDS * len(self.classes)
        while queue:
            visits_left -= 1
            if visits_left < 0:
                return
            c = queue.popleft()
            queued.discard(c)
            value = _common(form, c, need, own[c])
            if value is not None and need.get(c) != value:
                need[c] = value
                new = above[c] - queued
                queued |= new
                queue.extend(p for p in above[c] if p in new)
        self.bits = {c: need.get(c, own[c]) for c in self.classes}

    def needs(self, c: int, d: int) -> bool:
        """Whether every derivation of c contains d."""
        return bool(self.bits[c] >> self.index[d] & 1)

    def of_reads(self, form: NormalForm, n: int) -> int:
        """Returns the bit set of all classes that the reads of e-node n need."""
        bits = 0
        for d in form.reads[n]:
            bits |= self.bits[d]
        return bits

    def mask(self, classes: Iterable[int]) -> int:
        """Returns the bit set of `classes`."""
        bits = 0
        for c in classes:
            bits |= 1 << self.index[c]
        return bits

    def members(self, bits: int) -> set[int]:
        """Returns the classes of a bit set."""
        return {self.classes[i] for i in np.flatnonzero(flags_of(bits, len(self.classes)))}

    def weigh_with(self, weights: dict[int, float]) -> None:
        """Sets the weights that `weight` adds up; classes without a weight count 0."""
        self._weights = np.array([weights.get(c, 0.0) for c in self.classes])

    def weight(self, bits: int) -> float:
        """Returns the sum of the weights over a bit set."""
        if bits.bit_count() > FEW:
            return float(flags_of(bits, len(self.classes)) @ self._weights)
        total = 0.0
        while bits:
            i = bits.bit_length() - 1
            total += self._weights[i]
            bits ^= 1 << i
        return total


def flags_of(bits: int, size: int) -> NDArray[np.uint8]:
    """Returns the first `size` bits of a bit set, a number each."""
    packed = np.frombuffer(bits.to_bytes((size + 7) // 8, "little"), dtype=np.uint8)
    return np.unpackbits(packed, count=size, bitorder="little")


def _common(form: NormalForm, c: int, need: dict[int, int], own: int) -> int | None:
    """Returns `own` and the bits of all that every derivation of c needs by `need` so far; None if it has none yet."""
    common = -1
    for n in form.members[c]:
        if not form.reads[n] <= need.keys():
            continue  # no derivation yet
        union = 0
        for d in form.reads[n]:
            union |= need[d]
        if union & own:
            continue  # cyclic: no derivation of c goes through n
        common &= union
        if common == 0:
            break
    return None if common == -1 else own | common
