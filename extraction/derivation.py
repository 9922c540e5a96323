"""Derivable classes.

A class is derivable if one of its e-nodes reads only derivable classes.
An e-node that reads nothing makes its class derivable.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from extraction.graph import ChoiceGraph


def derive(nodes: Iterable[tuple[int, Collection[int]]]) -> set[int]:
    """Returns the classes that have a derivation by these e-nodes, in linear time.

    nodes: (its class, the classes that it reads) of each e-node.
    """
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
