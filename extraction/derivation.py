"""Which classes have a derivation: an e-node all of whose classes have one, down to e-nodes that read nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from .graph import ChoiceGraph


def derived(nodes: Iterable[tuple[int, Collection[int]]]) -> set[int]:
    """Classes that have one by these e-nodes, each (its class, the classes that it reads); in linear time."""
    owner: list[int] = []
    missing: list[int] = []  # by e-node: how many of its classes are not derived yet
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
    """Whether all roots have a derivation without some e-nodes, and without those that are forbidden."""
    banned, owner = graph.forbidden.union(without), graph.node_class.tolist()
    allowed = ((owner[n], graph.children(n)) for n in range(graph.n_nodes) if n not in banned)
    return derived(allowed).issuperset(graph.roots)
