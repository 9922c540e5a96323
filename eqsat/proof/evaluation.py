"""Evaluation of a graph to terms, operator by operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from eqsat.proof import extrema, indexing, linear, pointwise
from eqsat.proof.steps import Undecidable
from eqsat.proof.values import Terms, Value
from eqsat.tensor.graph import Node, TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tensor.ops.indexing import NEAREST
from eqsat.tensor.ops.op import NotModelled
from eqsat.tensor.types import Const, DType, Type

_MOVING = frozenset({"transpose", "reshape", "identity", "concat", "slice", "pad", "tile", "reverse"})
_CONVOLUTIONS = frozenset({"conv2d", "depthwise_conv2d", "transpose_conv2d"})
_REDUCED = {"reduce_max": "max", "reduce_any": "max", "reduce_min": "min", "reduce_all": "min"}
#: Called with (terms, node, its value) for each node; returns the value to continue with.
#: Operands without further readers are freed only afterwards.
Seen = Callable[[Terms, int, Value], Value]


def evaluate(t: Terms, graph: TensorGraph, seen: Seen = lambda t, n, v: v) -> list[Value]:
    """Returns the terms of a graph's outputs. Raises Undecidable, which names the operator without a normal form."""
    live = graph.live()
    left = {n: len(r) for n, r in graph.readers().items()}
    for o in graph.outputs:
        left[o] += 1
    values: dict[int, Value] = {}
    for n in live:
        node = graph.nodes[n]
        operands = [values[i] for i in node.inputs]
        t.node = n
        try:
            is_input = node.op == "input"
            value = variable(t, graph.inputs.index(n), graph.type(n)) if is_input else value_of(t, node, operands)
            values[n] = seen(t, n, value)
        except Undecidable as e:
            raise type(e)(f"{describe(graph, n)}: {e}" if str(e) else describe(graph, n)) from e
        for i in node.inputs:
            left[i] -= 1
            if not left[i]:
                del values[i]
    return [values[o] for o in graph.outputs]


def describe(graph: TensorGraph, n: int) -> str:
    """Returns a node's operator, attributes, shape and number for messages."""
    node = graph.nodes[n]
    return f"{OPS[node.op].text(node.attrs)} {list(node.shape)} (node {n})"


def value_of(t: Terms, node: Node, operands: Sequence[Value]) -> Value:
    """Returns the term of an operator applied to operands, or of a constant. Raises Undecidable."""
    out = Type(node.shape, node.dtype)
    if node.op == "const":
        return _constant(t, node.attr("value"), out)
    if any(not DType.of(dtype).is_integral for dtype in (out.dtype, *(v.dtype for v in operands))):
        if node.op in _MOVING and node.op != "pad":
            return indexing.move(t, node.op, node.attrs, operands, out)
        return indexing.opaque(t, node.op, node.attrs, operands, out)
    found = _family(t, node, operands, out)
    return indexing.opaque(t, node.op, node.attrs, operands, out) if found is None else found


def variable(t: Terms, number: int, out: Type) -> Value:
    """Returns the term of graph input `number`: one independent root per element."""
    return t.number(t.symbol("input", number), out.shape, out.dtype)


def _constant(t: Terms, value: Const, out: Type) -> Value:
    if DType.of(out.dtype).is_integral:
        return t.constant(value.data.reshape(out.shape), out.dtype)
    if value.data.size % out.elements:  # packed elements
        return t.number(t.symbol("bytes", value.digest), out.shape, out.dtype)
    raw = value.data.reshape(-1).view(np.uint8).reshape(out.elements, -1).astype(np.int64)
    return t.root(t.field.digest(t.symbol("bytes"), t.field.reduce(raw.T[None])), out.shape, out.dtype)


def _family(t: Terms, node: Node, xs: Sequence[Value], out: Type) -> Value | None:
    """Returns the term that the module for this operator makes, or None if it has no form."""
    op, attrs = node.op, dict(node.attrs)
    if op in _MOVING or op == "resize" and attrs["mode"] == NEAREST:
        return indexing.move(t, op, node.attrs, xs, out)
    if op in _CONVOLUTIONS:
        return linear.convolution(t, op, attrs, xs, out)
    simple: dict[str, Callable[[], Value | None]] = {
        "rescale": lambda: pointwise.rescale(t, attrs, xs[0], out),
        "matmul_rows": lambda: _matmul_rows(t, attrs, xs, out),
        "matmul": lambda: linear.matmul(t, attrs, xs, out),
        "avg_pool2d": lambda: linear.average(t, attrs, xs[0], out),
        "reduce_sum": lambda: linear.reduce_sum(t, attrs, xs[0], out),
        "resize": lambda: linear.interpolate(t, attrs, xs[0], out),
        "max_pool2d": lambda: extrema.pool_maximum(t, attrs, xs[0], out),
        "select": lambda: pointwise.select(t, xs, out),
        "gather": lambda: indexing.gather(t, node.attrs, xs, out),
        "argmax": lambda: indexing.first_largest(t, node.attrs, xs, out),
    }
    if op in simple:
        return simple[op]()
    if op in _REDUCED:
        return extrema.reduce(t, _REDUCED[op], attrs, xs[0], out)
    if OPS[op].kind == "pointwise" and OPS[op].tosa and not isinstance(OPS[op].integer, NotModelled):
        if len(xs) == 1:
            return pointwise.unary(t, op, node.attrs, xs[0], out)
        return pointwise.binary(t, op, node.attrs, xs, out)
    return None


def _matmul_rows(t: Terms, attrs: Mapping[str, Any], xs: Sequence[Value], out: Type) -> Value | None:
    """Returns the term of MATMUL by the transposed right operand, then RESCALE, with the rows as outermost axis."""
    rows, batch, columns = out.shape
    x, y = xs
    turned = np.arange(y.elements).reshape(y.shape).swapaxes(1, 2)
    sums = Type((batch, rows, columns), DType.of(x.dtype).accumulator)
    total = linear.matmul(t, attrs, [x, y.take(turned, turned.shape)], sums)
    outermost = np.arange(total.elements).reshape(sums.shape).swapaxes(0, 1)
    return pointwise.rescale(t, {**attrs, "in_zp": (0,)}, total.take(outermost, out.shape), out)
