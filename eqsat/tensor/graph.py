"""TensorGraph: a small typed tensor language at the level of TOSA 1.0.

A graph is a list of immutable nodes in topological order; operands are node numbers.
The op table, `eqsat.tensor.ops`, has the meaning of operators.

>>> g = TensorGraph()
>>> x = g.add_input("x", (1, 2, 2, 3), "INT8")
>>> g.outputs.append(g.add("transpose", (x,), perms=(0, 3, 1, 2)))
>>> g.nodes[g.outputs[0]].shape
(1, 3, 2, 2)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from eqsat.tensor.ops import OPS, evaluate_defined, evaluate_op, infer
from eqsat.tensor.schema import attribute_types
from eqsat.tensor.types import Array, Attrs, Const, DType, GraphError, Shape, Type, Unpredictable, attrs_of, hides_bits


@dataclass(frozen=True, slots=True)
class Node:
    """One operator instance: `attrs` is a sorted tuple of (name, hashable value)."""

    op: str
    inputs: tuple[int, ...]
    attrs: Attrs
    shape: Shape
    dtype: str

    def attr(self, name: str) -> Any:
        """Returns the value of an attribute, or raises KeyError."""
        for k, v in self.attrs:
            if k == name:
                return v
        raise KeyError(f"{self.op} has no attribute {name!r}")


#: The types of numbers in a tuple, but for numpy's.
_NUMBERS = frozenset((int, bool, float))
_INTEGERS = frozenset((int, bool))
#: A type of attributes in words.
_WORDS = {int: "an integer", bool: "a bool", bytes: "bytes", tuple: "a tuple of numbers", str: "the name of a dtype"}


@cache
def _attribute_types(op: str) -> dict[str, tuple[type, int]] | None:
    """Returns {attribute: (type, least length of a tuple)} of an operator; None for one that TOSA does not have."""
    spec = OPS[op]
    if not spec.tosa:
        return None
    fields = {name: (t, 0) for name, t in attribute_types(op.upper()).items()}
    folded = {name: (tuple, int(dtype != "SHAPE")) for name, dtype in spec.folded}
    return {**fields, **folded, **({"dtype": (str, 0)} if spec.declared else {})}


def _check_attributes(op: str, attrs: Attrs) -> None:
    """Raises GraphError unless attributes are those of TOSA's schema, each of its type there."""
    wanted = _attribute_types(op)
    if wanted is None:
        return
    names = {name for name, _ in attrs}
    if wanted.keys() != names:
        taken, given = ", ".join(sorted(wanted)) or "none", ", ".join(sorted(names)) or "none"
        raise GraphError(f"{op} takes the attributes {taken}, got {given}")
    for name, value in attrs:
        kind, least = wanted[name]
        if not _is_of(value, kind) or kind is tuple and len(value) < least:
            raise GraphError(f"{op}: the attribute {name} is {value!r}: give {_WORDS[kind]}")
        if kind is tuple and not _INTEGERS.issuperset(map(type, value)) and any(map(hides_bits, value)):
            raise GraphError(f"{op}: the attribute {name} is {value!r}: equal attributes must be the same bits")


def _is_of(value: Any, kind: type) -> bool:
    """Whether the value of an attribute is of a type; numpy's numbers are numbers, too."""
    if kind is int:
        return type(value) is int or isinstance(value, np.integer)
    if kind is not tuple or type(value) is not tuple:
        return type(value) is kind
    return _NUMBERS.issuperset(map(type, value)) or all(isinstance(v, int | float | np.number) for v in value)


@dataclass(slots=True)
class TensorGraph:
    """A DAG of nodes in topological order.

    Equal constants are one node; equal operators stay distinct, and the e-graph merges them.
    `outputs` may name one node several times; each slot stays distinct in the result.
    """

    nodes: list[Node] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    output_names: list[str] = field(default_factory=list)
    _constants: dict[Node, int] = field(default_factory=dict, repr=False)
    _names: set[str] = field(default_factory=set, repr=False, compare=False)

    def _put(self, node: Node) -> int:
        if node.op == "const" and node in self._constants:
            return self._constants[node]
        self.nodes.append(node)
        if node.op == "const":
            self._constants[node] = len(self.nodes) - 1
        return len(self.nodes) - 1

    def add_input(self, name: str, shape: Sequence[int], dtype: str) -> int:
        """Adds a graph input. Raises GraphError for a size below 1, which crashes Vela, and for a name in use."""
        if any(d < 1 for d in shape):
            raise GraphError(f"input {name!r} has a dim below 1 in {tuple(shape)}: give every dim a positive size")
        if len(self._names) != len(self.inputs):
            self._names = {self.nodes[i].attr("name") for i in self.inputs}
        if name in self._names:
            raise GraphError(f"two inputs are named {name!r}")
        n = self._put(Node("input", (), attrs_of({"name": name}), tuple(shape), dtype))
        self.inputs.append(n)
        self._names.add(name)
        return n

    def add_const(self, data: Array, dtype: str, shape: Sequence[int] | None = None) -> int:
        """Adds a constant and returns its number; `shape` is only given with raw bytes."""
        shape = tuple(data.shape if shape is None else shape)
        if not DType.of(dtype).carried:
            data = np.asarray(data, DType.of(dtype).storage).reshape(shape)
        return self._put(Node("const", (), attrs_of({"value": Const(data, dtype, shape)}), shape, dtype))

    def add(self, op: str, inputs: Sequence[int], **attrs: Any) -> int:
        """Adds a node, whose type the op table infers, and returns its number, like `add_with`."""
        return self.add_with(op, inputs, attrs_of(attrs))

    def add_with(self, op: str, inputs: Sequence[int], attrs: Attrs) -> int:
        """Adds a node with attributes in their normal form and returns its number.

        Raises GraphError if the operator does not accept the operands or attributes.
        """
        _check_attributes(op, attrs)
        t = infer(op, attrs, [self.type(i) for i in inputs])
        if any(d < 1 for d in t.shape):
            raise GraphError(f"{op} yields the zero-size shape {t.shape}; Vela cannot compile it")
        return self._put(Node(op, tuple(inputs), attrs, t.shape, t.dtype))

    def add_copy(self, node: Node, operands: Sequence[int]) -> int:
        """Adds a node of another graph, with operands of the same types; a copied input is not added to `inputs`."""
        return self._put(replace(node, inputs=tuple(operands)))

    def type(self, n: int) -> Type:
        """Returns the type of a node's value."""
        node = self.nodes[n]
        return Type(node.shape, node.dtype)

    def live(self) -> list[int]:
        """Returns the nodes on which the outputs depend, and all inputs, in topological order."""
        seen = set(self.inputs)
        stack = list(self.outputs)
        while stack:
            n = stack.pop()
            if n not in seen:
                seen.add(n)
                stack.extend(self.nodes[n].inputs)
        return sorted(seen)

    def readers(self) -> dict[int, list[int]]:
        """Returns the live readers of every live node, once per operand slot; outputs are not readers."""
        out: dict[int, list[int]] = {n: [] for n in self.live()}
        for n in out:
            for i in self.nodes[n].inputs:
                out[i].append(n)
        return out

    def rewrite(self, at: Mapping[int, Write] | None = None, without: Container[int] = ()) -> Rewritten:
        """Returns a copy of the live nodes.

        at: writes in place of nodes, of the same types.
        without: nodes that are left out, unless they are in `at`.
        """
        at = at or {}
        out = Rewritten(TensorGraph(output_names=list(self.output_names)), {}, {})
        for n in self.live():
            first, node = len(out.graph.nodes), self.nodes[n]
            if n in at:
                out.number[n] = at[n](out)
            elif n not in without:
                out.number[n] = out.graph.add_copy(node, [out.number[i] for i in node.inputs])
            for k in range(first, len(out.graph.nodes)):
                out.source.setdefault(k, n)
        out.graph.inputs = [out.number[i] for i in self.inputs]
        out.graph.outputs = [out.number[o] for o in self.outputs]
        return out

    def prune(self) -> TensorGraph:
        """Returns a copy with live nodes only."""
        return self.rewrite().graph

    def signature(self) -> tuple[list[Type], list[Type]]:
        """Returns the types of the inputs and of the output slots."""
        return [self.type(i) for i in self.inputs], [self.type(o) for o in self.outputs]

    def op_counts(self) -> dict[str, int]:
        """Returns the number of live operators by name, without leaves; opaque ones count under their TOSA name."""
        nodes = [self.nodes[n] for n in self.live()]
        counted = (n for n in nodes if OPS[n.op].kind != "leaf" and n.op != "item")
        counts = Counter(n.attr("tosa").lower() if n.op == "opaque" else n.op for n in counted)
        return dict(sorted(counts.items()))

    def evaluate(self, inputs: Sequence[Array], defined: bool = False) -> list[Array]:
        """Returns the outputs for `inputs` by the numpy semantics of the op table.

        inputs: in the order of `self.inputs`.
        defined: whether to raise Unpredictable if TOSA leaves a value open.
        Raises GraphError for inputs of other shapes.
        """
        for i, x in zip(self.inputs, inputs, strict=True):
            if tuple(x.shape) != self.nodes[i].shape:
                raise GraphError(
                    f"input {self.nodes[i].attr('name')!r} has shape {x.shape}, expected {self.nodes[i].shape}"
                )
        values: dict[int, Array] = dict(zip(self.inputs, inputs, strict=True))
        for n in self.live():
            if n not in values:
                values[n] = self.evaluate_node(n, values, defined)
        return [values[o] for o in self.outputs]

    def evaluate_node(self, n: int, values: Mapping[int, Array], defined: bool) -> Array:
        """Returns the value of a node for `values` of its operands, like `evaluate`."""
        node = self.nodes[n]
        if node.op == "const":
            data: Array = node.attr("value").data
            return data
        operands = [values[i] for i in node.inputs]
        if not defined:
            return evaluate_op(node.op, node.attrs, operands, self.type(n))
        return evaluate_defined(node.op, node.attrs, operands, [self.type(i) for i in node.inputs], self.type(n))


@dataclass(slots=True)
class Rewritten:
    """A rewritten copy of a graph.

    number: the new node of each old one.
    source: the old node for which each new one was written: the replaced one, unless the write has set another.
    """

    graph: TensorGraph
    number: dict[int, int]
    source: dict[int, int]


#: Adds the replacement of a node to the new graph and returns the number of its value's node.
Write = Callable[[Rewritten], int]


def find_unread(graph: TensorGraph) -> list[int]:
    """Returns the positions of the inputs that are read neither by an operator nor by an output."""
    readers, outputs = graph.readers(), set(graph.outputs)
    return [k for k, i in enumerate(graph.inputs) if not readers[i] and i not in outputs]


def unpredictable(graph: TensorGraph, inputs: Sequence[Array]) -> str:
    """Returns why TOSA leaves the results of a graph open for `inputs`, by the first such operator.

    Returns "" if it does not, or if that is unknown after operators that numpy does not compute.
    """
    values: dict[int, Array] = dict(zip(graph.inputs, inputs, strict=True))
    for n in graph.live():
        if n not in values and all(i in values for i in graph.nodes[n].inputs):
            try:
                values[n] = graph.evaluate_node(n, values, defined=True)
            except Unpredictable as e:
                return str(e)
            except GraphError:
                continue
    return ""
