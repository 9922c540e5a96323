"""The soundness checker: all e-nodes of one class of a saturated e-graph must agree to the bit.

That is proved for every input where possible; other e-nodes are compared on samples.
A rule is checked only on graphs on which it fires.

>>> from eqsat.rules import RULES
>>> g = TensorGraph()
>>> x = g.add_input("x", (2, 3), "INT8")
>>> g.outputs = [g.add("transpose", (g.add("transpose", (x,), perms=(1, 0)),), perms=(1, 0))]
>>> checked = check(g, RULES)
>>> checked.proved == checked.frozen.n_nodes, "move-move" in checked.frozen.saturation.matches
(True, True)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eqsat.egraph.encoding import ENode, Frozen, saturate
from eqsat.egraph.engine import DEFAULT_BUDGET, Budget
from eqsat.egraph.rule import Rule
from eqsat.proof.evaluation import evaluate, value_of, variable
from eqsat.proof.field import Field, Lanes
from eqsat.proof.steps import Undecidable
from eqsat.proof.values import Terms, Value
from eqsat.tensor.graph import Node, TensorGraph
from eqsat.tensor.ops import evaluate_op
from eqsat.tensor.samples import domains, samples
from eqsat.tensor.types import Array, DType, GraphError, Type

#: Most elements of all e-nodes for a proof: terms take a few hundred bytes per element while they are made.
_LARGEST = 1 << 24


@dataclass(frozen=True, slots=True)
class Proofs:
    """The equalities that are proved among the e-nodes of an e-graph.

    They hold for every input on which the source graph does not overflow.
    equal: `id` of the e-nodes that equal the first e-node of their class that has a term, and of that one.
    undecided: {operator: number of its e-nodes that are not proved}, without those that read a class without e-nodes.
    "output" stands for outputs whose classes are not proved to have the source's values, as after a wrong removal.
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
    values, visited = dict[int, Value](), set[int]()
    for e in visit(frozen, values, slots):
        visited.add(id(e))
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
    if out.undecided:  # then there may be e-nodes that read a class without a term
        out.undecided.update(e.op for e in _reachable(frozen) if id(e) not in visited)
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
    keep: the classes whose values are kept; others are dropped when no e-node is left to compare or compute with them.
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


def _reachable(frozen: Frozen) -> Iterator[ENode]:
    """Yields the e-nodes that can be computed from inputs and constants."""
    reached: dict[int, bool] = {}
    for e in visit(frozen, reached, range(len(frozen.classes))):
        reached[e.cls] = True
        yield e


#: Samples on which e-nodes are compared.
TRIALS = 4


class Unsound(AssertionError):
    """Two e-nodes of one class have different values; the message says which, and where."""


@dataclass(frozen=True, slots=True)
class Checked:
    """An e-graph that passed the check.

    evaluated: number of e-nodes proved or compared on samples; opaque operators and their readers have no numpy value.
    proved: number of e-nodes equal to the others of their class for every input. undecided: as in `Proofs`.
    """

    frozen: Frozen
    evaluated: int
    proved: int = 0
    undecided: Mapping[str, int] = field(default_factory=dict)


def check(
    graph: TensorGraph, rules: Sequence[Rule], *, budget: Budget = DEFAULT_BUDGET, trials: int = TRIALS
) -> Checked:
    """Saturates a graph with rules and checks its e-graph.

    trials: samples on which e-nodes that are not proved are compared.
    Raises Unsound, EngineError (also if a rule changes a type), and GraphError if the graph cannot be evaluated.
    """
    return check_frozen(saturate(graph, rules, budget), trials)


def check_frozen(frozen: Frozen, trials: int = TRIALS) -> Checked:
    """Checks a saturated e-graph, also that outputs have the source graph's values. Raises Unsound and GraphError."""
    proofs = prove(frozen)
    graph, evaluated = frozen.source, len(proofs.equal)
    for given in samples(domains(graph), trials) if proofs.undecided else ():
        inputs = {graph.nodes[i].attr("name"): x for i, x in zip(graph.inputs, given, strict=True)}
        values, evaluated = _class_values(frozen, inputs, proofs.equal)
        for slot, (o, want) in enumerate(zip(graph.outputs, graph.evaluate(given), strict=True)):
            found = values.get(frozen.handle[o])
            if found is None or not np.array_equal(found, want):
                raise Unsound(f"the class of output {slot} lost the value of the graph")
    return Checked(frozen, evaluated, len(proofs.equal), dict(proofs.undecided))


def _class_values(frozen: Frozen, inputs: Mapping[str, Array], proved: Collection[int]) -> tuple[dict[int, Array], int]:
    """Returns ({class of an output: value}, number of e-nodes evaluated). Raises Unsound if e-nodes of a class differ.

    inputs: {name: array}. proved: the `id` of e-nodes that need not be compared.
    """
    values: dict[int, Array] = {}
    origin: dict[int, ENode] = {}
    evaluated = 0
    for e in visit(frozen, values, [frozen.handle[o] for o in frozen.source.outputs]):
        if id(e) in proved and e.cls in values:
            evaluated += 1
            continue
        t = frozen.type_of(e.cls)
        value = _evaluate(e, values, t, inputs)
        if value is None:
            continue
        evaluated += 1
        if e.cls not in values:
            if value.shape != t.shape:
                raise Unsound(f"{_text(e)} has shape {value.shape}, its class {t.shape}")
            values[e.cls], origin[e.cls] = value, e
        elif not np.array_equal(values[e.cls], value):
            raise Unsound(_difference(origin[e.cls], values[e.cls], e, value))
    return values, evaluated


def _evaluate(e: ENode, values: Mapping[int, Array], t: Type, inputs: Mapping[str, Array]) -> Array | None:
    if e.op == "input":
        return inputs[dict(e.attrs)["name"]]
    if e.op == "const":
        return dict(e.attrs)["value"].data if not DType.of(t.dtype).carried else None
    operands = [values[c] for c in e.children]
    if e.move is not None:
        return e.move.apply(operands[0])
    try:
        return evaluate_op(e.op, e.attrs, operands, t)
    except GraphError:
        return None  # opaque


def _difference(e: ENode, value: Array, other: ENode, its: Array) -> str:
    if value.shape != its.shape:
        return f"{_text(e)} has shape {value.shape}, but {_text(other)} {its.shape}"
    at = tuple(int(i) for i in np.argwhere(value != its)[0])
    return f"{_text(e)} = {value[at]}, but {_text(other)} = {its[at]} at {at}"


def _text(e: ENode) -> str:
    return f"{e.op} {e.move or ' '.join(f'{k}={v}' for k, v in e.attrs)} of {e.children}"
