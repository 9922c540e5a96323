"""Terms over a neighbourhood's own operators, enumerated by size.

Each value is evaluated at a random point of prime fields.
It is kept only if no smaller term has the same value, so equal terms occur once.
A term names operators and movements by their place in the neighbourhood.
So it can be written for other attributes and shapes too.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from benchmarks.discovery.neighbourhoods import operators
from benchmarks.discovery.readings import move_of, moved
from benchmarks.discovery.recipes import Source, begun
from eqsat.proof.evaluation import evaluate, value_of, variable
from eqsat.proof.field import Field
from eqsat.proof.steps import Undecidable
from eqsat.proof.values import Terms, Value
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import GraphError

#: A term: ("input", k), ("op", place, axis or -1, *operands) or
#: ("move", place, is inverse, operand).
Body = tuple[Any, ...]
#: Seed of the random point at which terms are evaluated.
_SEED = 1
#: Values that are kept per neighbourhood, at most.
_MOST_VALUES = 400
#: Elements of all these values together, at most.
_MOST_ELEMENTS = 1 << 24


@dataclass(frozen=True, slots=True)
class Rearranged:
    """A term over the operators of the neighbourhood, as a recipe."""

    body: Body

    @property
    def text(self) -> str:
        return _text(self.body)

    def follow(self, source: Source) -> TensorGraph | None:
        graph = source.graph
        new, nodes = begun(graph), operators(graph)

        def write(body: Body) -> int | None:
            kind, place, *rest = body
            if kind == "input":
                return new.inputs[place]
            if place >= len(nodes):
                return None
            operands = [x for o in rest[1:] if (x := write(o)) is not None]
            if len(operands) < len(rest) - 1:
                return None
            return put(new, graph, nodes[place], kind, rest[0], operands)

        y = write(self.body)
        if y is None:
            return None
        new.outputs.append(y)
        return new


def _text(body: Body) -> str:
    kind, place, *rest = body
    if kind == "input":
        return f"x{place}"
    name = f"{'inverse of ' if kind == 'move' and rest[0] else ''}#{place}"
    axis = f" along {rest[0]}" if kind == "op" and rest[0] >= 0 else ""
    return f"{name}{axis}({', '.join(map(_text, rest[1:]))})"


def put(new: TensorGraph, graph: TensorGraph, n: int, kind: str, how: int, operands: Sequence[int]) -> int | None:
    """Adds an operator or movement of the neighbourhood; returns None if it does not fit."""
    node = graph.nodes[n]
    try:
        if kind == "move":
            move = move_of(graph, n)
            move = move.inverse() if how else move
            return moved(new, operands[0], move) if move.in_shape == new.nodes[operands[0]].shape else None
        attrs = dict(node.attrs) | ({"axis": how} if how >= 0 else {})
        given = iter(operands)
        inputs = [
            new.add_const(graph.nodes[i].attr("value").data, graph.nodes[i].dtype, graph.nodes[i].shape)
            if graph.nodes[i].op == "const"
            else next(given)
            for i in node.inputs
        ]
        return new.add(node.op, inputs, **attrs)
    except (GraphError, ValueError, IndexError):
        return None


@dataclass(slots=True)
class _Bank:
    """The distinct values found so far.

    terms: makes their terms.
    seen: their shapes, dtypes and fingerprints.
    by_size: [size] -> [(body, node of `graph`, value)].
    elements: number of elements of all values.
    """

    graph: TensorGraph
    terms: Terms
    seen: set[Any] = field(default_factory=set)
    by_size: list[list[tuple[Body, int, Value]]] = field(default_factory=lambda: [[]])
    elements: int = 0

    def keep(self, body: Body, n: int, v: Value) -> Any:
        """Keeps a value that no smaller term has, and returns its fingerprint; None otherwise."""
        mark = v.shape, v.dtype, self.terms.field.fingerprint(self.terms.lanes(v))
        if mark in self.seen:
            return None
        self.seen.add(mark)
        self.elements += v.elements
        self.by_size[_size(body)].append((body, n, v))
        return mark

    @property
    def is_full(self) -> bool:
        return len(self.seen) >= _MOST_VALUES or self.elements >= _MOST_ELEMENTS


def rearranged(graph: TensorGraph, seconds: float) -> Iterator[Rearranged]:
    """Yields terms with the output's fingerprint and at most the neighbourhood's operators.

    seconds: processor time for all of them.
    """
    until = time.thread_time() + seconds
    source = Terms(Field(_SEED))
    try:
        (wanted,) = evaluate(source, graph)
    except Undecidable:
        return
    bank = _Bank(begun(graph), Terms(Field(_SEED), source))
    target = (wanted.shape, wanted.dtype, source.field.fingerprint(source.lanes(wanted)))
    for k, n in enumerate(bank.graph.inputs):
        found = bank.keep(("input", k), n, variable(bank.terms, k, bank.graph.type(n)))
        if found == target:
            yield Rearranged(("input", k))
    nodes = operators(graph)
    for size in range(1, len(nodes) + 1):
        bank.by_size.append([])
        for place, n in enumerate(nodes):
            for found in _larger(bank, graph, place, n, size, until):
                if found[1] == target:
                    yield Rearranged(found[0])
        if time.thread_time() > until:
            return


def _larger(bank: _Bank, graph: TensorGraph, place: int, n: int, size: int, until: float) -> Iterator[tuple[Body, Any]]:
    """Yields new terms of this size with the operator on top, and their fingerprints."""
    node = graph.nodes[n]
    taken = [i for i in node.inputs if graph.nodes[i].op != "const"]
    is_move = OPS[node.op].kind == "move"
    axes = range(len(node.shape)) if "axis" in dict(node.attrs) else [-1]
    ways: list[tuple[str, int]] = [("move", 0), ("move", 1)] if is_move else [("op", a) for a in axes]
    for sizes in product(range(size), repeat=len(taken)):
        if sum(sizes) != size - 1:
            continue
        for operands in product(*(list(bank.by_size[s]) for s in sizes)):
            if not is_move and any(
                bank.graph.nodes[o[1]].dtype != graph.nodes[i].dtype for o, i in zip(operands, taken)
            ):
                continue
            for kind, how in ways:
                if bank.is_full or time.thread_time() > until:
                    return
                body = (kind, place, how, *(o[0] for o in operands))
                mark = _kept(bank, graph, n, body, operands)
                if mark is not None:
                    yield body, mark


def _kept(bank: _Bank, graph: TensorGraph, n: int, body: Body, operands: Sequence[tuple[Body, int, Value]]) -> Any:
    """Adds a term to the bank and returns its fingerprint, or None if a smaller term is equal."""
    before = len(bank.graph.nodes)
    made = put(bank.graph, graph, n, body[0], body[2], [o[1] for o in operands])
    if made is None or bank.graph.type(made).elements > 4 * max(graph.type(i).elements for i in graph.live()):
        return None
    values = {o[1]: o[2] for o in operands}
    try:
        for m in range(before, made + 1):
            node = bank.graph.nodes[m]
            for i in node.inputs:
                if i not in values:  # a constant
                    values[i] = value_of(bank.terms, bank.graph.nodes[i], [])
            values[m] = value_of(bank.terms, node, [values[i] for i in node.inputs])
    except Undecidable:
        return None
    return bank.keep(body, made, values[made])


def _size(body: Body) -> int:
    return 0 if body[0] == "input" else 1 + sum(_size(b) for b in body[3:])
