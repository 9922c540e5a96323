"""Written graphs with one error each.

A weight, bias, scale, zero point, table entry or limit is off by one, operands are exchanged, or data moves elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import Node, TensorGraph
from eqsat.tensor.ops import infer
from eqsat.tensor.types import Const, GraphError, Type, attrs_of

Attributes = dict[str, Any]
#: Changes the attributes of a node in place; returns False if there is nothing to change.
Change = Callable[[Attributes, Node, TensorGraph, np.random.Generator], bool]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A graph with one error.

    kind: what was changed.
    node: where it was changed.
    """

    kind: str
    node: int
    graph: TensorGraph


def mutants(graph: TensorGraph, count: int, seed: int = 0) -> Iterator[Mutant]:
    """Yields `count` different mutants, or as many as 10 * count tries find.

    Kinds are drawn evenly.
    """
    rng = np.random.default_rng(seed)
    live = graph.live()
    places: dict[str, list[int]] = {}
    for n in live:
        for kind in KINDS.get(graph.nodes[n].op, ()):
            places.setdefault(kind, []).append(n)
    made: set[Node] = set()
    for _ in range(10 * count if places else 0):
        if len(made) == count:
            return
        kind = str(rng.choice(sorted(places)))
        n = int(rng.choice(places[kind]))
        node = _changed(graph, n, kind, rng)
        if node is not None and node not in made:
            made.add(node)
            yield Mutant(kind, n, _with(graph, n, node))


def _changed(graph: TensorGraph, n: int, kind: str, rng: np.random.Generator) -> Node | None:
    """Returns a node with an error of a kind, None if there is nothing to change or its type changes."""
    node = graph.nodes[n]
    if node.op == "const":
        return _constant(node, rng)
    if kind == "operands":
        return _exchanged(graph, node, rng)
    attrs = dict(node.attrs)
    if not CHANGES[kind](attrs, node, graph, rng):
        return None
    try:
        same = infer(node.op, attrs_of(attrs), [graph.type(i) for i in node.inputs]) == Type(node.shape, node.dtype)
    except GraphError:
        return None
    return Node(node.op, node.inputs, attrs_of(attrs), node.shape, node.dtype) if same else None


def _with(graph: TensorGraph, n: int, node: Node) -> TensorGraph:
    """Returns a graph with another node in the place of `n`."""
    nodes = list(graph.nodes)
    nodes[n] = node
    return TensorGraph(nodes, list(graph.inputs), list(graph.outputs), list(graph.output_names))


def _constant(node: Node, rng: np.random.Generator) -> Node | None:
    """Returns a constant with one element off by one, None if it has no integers."""
    dtype = DType.of(node.dtype)
    if not dtype.is_integral or not node.attr("value").data.size:
        return None
    data = np.array(node.attr("value").data)
    flat = data.reshape(-1)
    k = int(rng.integers(flat.size))
    flat[k] = _off_by_one(int(flat[k]), *dtype.limits, rng)
    return Node("const", (), attrs_of({"value": Const(data, node.dtype, node.shape)}), node.shape, node.dtype)


def _off_by_one(value: int, low: int, high: int, rng: np.random.Generator) -> int:
    """Returns a value one above or below, within the limits."""
    step = int(rng.choice([-1, 1]))
    return value + step if low <= value + step <= high else value - step


def _exchanged(graph: TensorGraph, node: Node, rng: np.random.Generator) -> Node | None:
    """Returns a node with two operands of one type exchanged, None if their types differ or they are the same."""
    i, j = (int(k) for k in rng.choice(len(node.inputs), 2, replace=False))
    a, b = node.inputs[i], node.inputs[j]
    if a == b or graph.type(a) != graph.type(b):
        return None
    inputs = list(node.inputs)
    inputs[i], inputs[j] = b, a
    return Node(node.op, tuple(inputs), node.attrs, node.shape, node.dtype)


def _entry(name: str, steps: tuple[int, ...] = (-1, 1)) -> Change:
    """Returns a change of one entry of a tuple by a step."""

    def change(attrs: Attributes, node: Node, graph: TensorGraph, rng: np.random.Generator) -> bool:
        values = list(attrs[name])
        if not values:
            return False
        k = int(rng.integers(len(values)))
        values[k] += int(rng.choice(steps))
        attrs[name] = tuple(values)
        return True

    return change


def _zero_point(name: str) -> Change:
    """Returns a change of a zero point by one, within the dtype.

    It is for INT8 alone: INT32 has no zero point, and 0 is likely to be the only one that INT16 may have.
    """

    def change(attrs: Attributes, node: Node, graph: TensorGraph, rng: np.random.Generator) -> bool:
        dtype = node.dtype if name == "out_zp" else graph.nodes[node.inputs[name == "w_zp"]].dtype
        if dtype != "INT8":
            return False
        attrs[name] = (_off_by_one(attrs[name][0], -128, 127, rng),)
        return True

    return change


def _limit(attrs: Attributes, node: Node, graph: TensorGraph, rng: np.random.Generator) -> bool:
    """Changes a limit of a clamp by one."""
    dtype, name = DType.of(node.dtype), str(rng.choice(["min_val", "max_val"]))
    attrs[name] = dtype.to_bytes(_off_by_one(int(dtype.from_bytes(attrs[name])), *dtype.limits, rng))
    return True


def _permutation(attrs: Attributes, node: Node, graph: TensorGraph, rng: np.random.Generator) -> bool:
    """Exchanges two axes of one size."""
    perms = list(attrs["perms"])
    if len(perms) < 2:
        return False
    i, j = (int(k) for k in rng.choice(len(perms), 2, replace=False))
    perms[i], perms[j] = perms[j], perms[i]
    attrs["perms"] = tuple(perms)
    return node.shape[i] == node.shape[j] != 1


def _table(attrs: Attributes, node: Node, graph: TensorGraph, rng: np.random.Generator) -> bool:
    """Changes an entry of a table by one."""
    values, low = list(attrs["table"]), -128 if len(attrs["table"]) == 256 else -32768
    k = int(rng.integers(len(values)))
    values[k] = _off_by_one(values[k], low, -low - 1, rng)
    attrs["table"] = tuple(values)
    return True


def _shifted_pads(name: str) -> Change:
    """Returns a change that moves one element of padding from before to behind, or the other way round."""

    def change(attrs: Attributes, node: Node, graph: TensorGraph, rng: np.random.Generator) -> bool:
        pads = list(attrs[name])
        axis = 2 * int(rng.integers(len(pads) // 2)) if pads else 0
        if not pads or not (pads[axis] or pads[axis + 1]):
            return False
        step = 1 if pads[axis + 1] and (not pads[axis] or rng.random() < 0.5) else -1
        pads[axis] += step
        pads[axis + 1] -= step
        attrs[name] = tuple(pads)
        return min(pads) >= 0

    return change


def _start(attrs: Attributes, node: Node, graph: TensorGraph, rng: np.random.Generator) -> bool:
    """Changes a start of a slice by one."""
    start, source = list(attrs["start"]), graph.nodes[node.inputs[0]].shape
    free = [k for k, n in enumerate(source) if node.shape[k] < n]
    if not free:
        return False
    k = int(rng.choice(free))
    start[k] = _off_by_one(start[k], 0, source[k] - node.shape[k], rng)
    attrs["start"] = tuple(start)
    return True


#: Changes of attributes, by name.
CHANGES: dict[str, Change] = {
    "multiplier": _entry("multiplier", (-1, 1, -(1 << 12), 1 << 12)),
    "shift": _entry("shift"),
    "in_zp": _zero_point("in_zp"),
    "w_zp": _zero_point("w_zp"),
    "out_zp": _zero_point("out_zp"),
    "limit": _limit,
    "table": _table,
    "permutation": _permutation,
    "start": _start,
    "pads": _shifted_pads("pads"),
    "pad": _shifted_pads("pad"),
}
#: Changes of the attributes of convolutions.
_SUMS = ("in_zp", "pad")
#: The kinds of errors of each operator.
KINDS: dict[str, tuple[str, ...]] = {
    "const": ("constant",),
    "rescale": ("multiplier", "shift", "in_zp", "out_zp"),
    "clamp": ("limit",),
    "table": ("table",),
    "transpose": ("permutation",),
    "slice": ("start",),
    "pad": ("pads",),
    "conv2d": _SUMS,
    "depthwise_conv2d": _SUMS,
    "transpose_conv2d": ("in_zp",),
    "max_pool2d": ("pad",),
    "avg_pool2d": ("in_zp", "out_zp", "pad"),
    "matmul": ("in_zp", "operands"),
    **dict.fromkeys(("concat", "sub", "greater", "greater_equal", "select", "add", "mul", "maximum"), ("operands",)),
}
