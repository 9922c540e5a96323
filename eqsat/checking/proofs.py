"""Proofs that the e-nodes of each class of a saturated e-graph are equal for every input.

>>> from eqsat.egraph.encoding import saturate
>>> from eqsat.rules import RULES
>>> from eqsat.tensor.graph import TensorGraph
>>> g = TensorGraph()
>>> x = g.add_input("x", (2, 3), "INT8")
>>> g.outputs = [g.add("transpose", (g.add("transpose", (x,), perms=(1, 0)),), perms=(1, 0))]
>>> found = prove(saturate(g, RULES))
>>> len(found.equal) > 3, found.undecided
(True, Counter())
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eqsat.egraph.encoding import ENode, Frozen
from eqsat.proof.evaluation import evaluate, value_of, variable
from eqsat.proof.field import Field, Lanes
from eqsat.proof.steps import Undecidable
from eqsat.proof.values import Terms, Value
from eqsat.tensor.graph import Node

#: Elements of all e-nodes up to which an e-graph is proved.
#: Terms take a few hundred bytes per element while they are made.
_LARGEST = 1 << 24


@dataclass(frozen=True, slots=True)
class Proofs:
    """The equalities that are proved among the e-nodes of an e-graph.

    They hold for every input on which the source graph does not overflow.
    equal: `id` of the e-nodes that equal the first e-node of their class that has a term.
    That first e-node is among them.
    undecided: {operator: number of its e-nodes that are not proved}.
    "output" stands for outputs whose classes are not proved to have the source's values, as after a wrong removal.
    E-nodes that are unreachable, because the class of an operand is empty, are not counted.
    """

    equal: set[int] = field(default_factory=set)
    undecided: Counter[str] = field(default_factory=Counter)


def prove(frozen: Frozen, seed: int = 1) -> Proofs:
    """Returns which e-nodes are proved equal, at the random point of a seed."""
    graph, out = frozen.source, Proofs()
    every = [e for nodes in frozen.classes for e in nodes]
    types = (frozen.types[e.cls] for e in every)  # None if saturation ended before it was known
    if sum(t.elements for t in types if t is not None) > _LARGEST:
        return Proofs(undecided=Counter(e.op for e in every))
    source = Terms(Field(seed))
    try:
        expected: list[Lanes | None] = [source.lanes(v) for v in evaluate(source, graph)]
    except Undecidable:
        expected = [None for _ in graph.outputs]
    t = Terms(Field(seed), source)
    numbers = {graph.nodes[i].attr("name"): k for k, i in enumerate(graph.inputs)}
    slots = [frozen.handle[o] for o in graph.outputs]
    values: dict[int, Value] = {}
    for e in visit(frozen, values, slots):
        value = _value(t, e, frozen, values, numbers)
        overflows = bool(t.beyond(source))
        t.open.clear()
        if value is not None and e.cls not in values:
            values[e.cls] = value
            is_equal = not overflows
        else:
            is_equal = value is not None and not overflows and np.array_equal(t.lanes(value), t.lanes(values[e.cls]))
        if is_equal:
            out.equal.add(id(e))
        else:
            out.undecided[e.op] += 1
    for slot, want in zip(slots, expected, strict=True):
        if want is None or slot not in values or not np.array_equal(t.lanes(values[slot]), want):
            out.undecided["output"] += 1
    return out


def _value(t: Terms, e: ENode, frozen: Frozen, values: dict[int, Value], numbers: dict[str, int]) -> Value | None:
    """Returns the term of an e-node, or None if it has none."""
    operands, out = [values[c] for c in e.children], frozen.types[e.cls]
    if out is None:
        return None
    if e.op == "input":
        return variable(t, numbers[dict(e.attrs)["name"]], out)
    if e.move is not None:
        return operands[0].take(e.move.indices(), out.shape)
    try:
        return value_of(t, Node(e.op, e.children, e.attrs, out.shape, out.dtype), operands)
    except Undecidable:
        return None


def visit(frozen: Frozen, values: dict[int, Any], keep: Collection[int]) -> Iterator[ENode]:
    """Yields each e-node as soon as all its operands have values, including those on cycles.

    values: {class: value}; the caller adds the class of a yielded e-node if it can.
    keep: the classes whose values are wanted.
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
            if not uses[c] and c not in keep:
                values.pop(c, None)
