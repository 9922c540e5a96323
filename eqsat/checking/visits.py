"""Traversal of an e-graph: each e-node after its operands have values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

from eqsat.egraph.encoding import ENode, Frozen


def visited(frozen: Frozen, values: dict[int, Any], keep: Collection[int] | None = None) -> Iterator[ENode]:
    """Yields each e-node as soon as all its operands have values, including those on cycles.

    values: {class: value}; the caller adds the class of a yielded e-node if it can.
    keep: the classes whose values are wanted (None: all).
    Values of other classes are dropped when nothing remains to compare or to compute from them.
    """
    readers: dict[int, list[ENode]] = {}
    missing: dict[int, int] = {}
    uses = Counter[int]()
    ready = []
    for nodes in frozen.classes:
        for e in nodes:
            children = set(e.children)
            missing[id(e)] = len(children)
            for c in children:
                readers.setdefault(c, []).append(e)
            uses.update({e.cls} | children)
            if not children:
                ready.append(e)
    while ready:
        e = ready.pop()
        is_new = e.cls not in values
        yield e
        if is_new and e.cls in values:
            for r in readers.get(e.cls, ()):
                missing[id(r)] -= 1
                if not missing[id(r)]:
                    ready.append(r)
        for c in {e.cls, *e.children}:
            uses[c] -= 1
            if not uses[c] and keep is not None and c not in keep:
                values.pop(c, None)
