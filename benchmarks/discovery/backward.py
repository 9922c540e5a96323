"""Elements of an operator's result in terms of elements of its operands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import evaluate_op
from eqsat.tensor.ops.indexing import NEAREST
from eqsat.tensor.types import Type

Ints = NDArray[np.int64]
#: (operand, index of each element asked for, flat index in the operand, coefficient).
Addend = tuple[int, Ints, Ints, Ints]
_MOVING = frozenset({"transpose", "reshape", "identity", "concat", "slice", "pad", "tile", "reverse"})


@dataclass(slots=True)
class Reads:
    """Elements of a result in terms of operands.

    is_sum: each element is the sum of all its addends and the constant, otherwise a copy of one addend or constant.
    """

    is_sum: bool
    addends: list[Addend]
    constant: Ints


def reads(graph: TensorGraph, n: int, element: Ints) -> Reads | None:
    """Returns some elements (flat indices) of a node's result in terms of its operands.

    Returns None if they are neither copies nor sums.
    """
    node = graph.nodes[n]
    if node.op in _MOVING or node.op == "resize" and node.attr("mode") == NEAREST:
        return _moved(graph, n, element)
    known = _ADDENDS.get(node.op)
    if known is not None:
        constant = np.zeros(len(element), np.int64)
        addends = known(graph, n, element, constant)
        return None if addends is None else Reads(True, list(addends), constant)
    return None


def _moved(graph: TensorGraph, n: int, element: Ints) -> Reads:
    """Returns the elements of a data movement, by moving the elements' numbers."""
    node, begin, numbers = graph.nodes[n], [0], []
    for i in node.inputs:
        size = graph.type(i).elements
        numbers.append(np.arange(begin[-1], begin[-1] + size).reshape(graph.nodes[i].shape))
        begin.append(begin[-1] + size)
    attrs = tuple((k, (-1,) if k == "value" else v) for k, v in node.attrs)
    origin = np.asarray(evaluate_op(node.op, attrs, numbers, Type(node.shape, "INT32"))).reshape(-1)[element]
    constant = np.where(origin < 0, node.attr("value")[0], 0) if node.op == "pad" else np.zeros(len(element), np.int64)
    addends = []
    for k, i in enumerate(node.inputs):
        at = np.flatnonzero((origin >= begin[k]) & (origin < begin[k + 1]))
        addends.append((i, at, origin[at] - begin[k], np.ones(len(at), np.int64)))
    return Reads(False, addends, constant)


def _windows(
    shape: tuple[int, ...], attrs: Mapping[str, Any], kernel: tuple[int, int], row: Ints, column: Ints
) -> Iterator[tuple[int, int, Ints, Ints, Ints]]:
    """Yields (ky, kx, windows whose tap (ky, kx) is inside, its rows, its columns)."""
    (sy, sx), (dy, dx), (top, _, left, _) = attrs["stride"], attrs.get("dilation", (1, 1)), attrs["pad"]
    for ky, kx in product(range(kernel[0]), range(kernel[1])):
        y, x = row * sy - top + ky * dy, column * sx - left + kx * dx
        at = np.flatnonzero((y >= 0) & (y < shape[1]) & (x >= 0) & (x < shape[2]))
        yield ky, kx, at, y[at], x[at]


def _weights(graph: TensorGraph, n: int) -> Ints | None:
    """Returns a convolution's weights without zero point, or None if an operand is not constant."""
    node = graph.nodes[n]
    if any(graph.nodes[i].op != "const" for i in node.inputs[1:]):
        return None
    return _constant(graph, node.inputs[1]) - int(node.attr("w_zp")[0])


def _constant(graph: TensorGraph, n: int) -> Ints:
    data: Ints = graph.nodes[n].attr("value").data.astype(np.int64)
    return data


def _convolution(graph: TensorGraph, n: int, element: Ints, constant: Ints) -> Iterator[Addend] | None:
    weights = _weights(graph, n)
    return None if weights is None else _products(graph, n, element, constant, weights)


def _products(graph: TensorGraph, n: int, element: Ints, constant: Ints, weights: Ints) -> Iterator[Addend]:
    node, attrs = graph.nodes[n], dict(graph.nodes[n].attrs)
    image, row, column, channel = np.unravel_index(element, node.shape)
    bias = _constant(graph, node.inputs[2])
    constant += bias[channel if len(bias) > 1 else np.zeros_like(channel)]
    shape, zero = graph.nodes[node.inputs[0]].shape, attrs["in_zp"][0]
    depthwise = node.op == "depthwise_conv2d"
    kernel = weights.shape[:2] if depthwise else weights.shape[1:3]
    for ky, kx, at, y, x in _windows(shape, attrs, kernel, row, column):
        if depthwise:
            of, which = np.divmod(channel[at], weights.shape[3])
            factors, inner = weights[ky, kx, of, which][:, None], of[:, None]
        else:
            factors, inner = weights[channel[at], ky, kx], np.arange(shape[3])[None]
        np.subtract.at(constant, at, factors.sum(1) * zero)
        flat = ((image[at] * shape[1] + y) * shape[2] + x)[:, None] * shape[3] + inner
        kept = factors != 0
        yield node.inputs[0], np.repeat(at, kept.sum(1)), flat[kept], factors[kept]


def _reduced(graph: TensorGraph, n: int, element: Ints, constant: Ints) -> Iterator[Addend]:
    node, shape = graph.nodes[n], graph.nodes[graph.nodes[n].inputs[0]].shape
    axis, place = node.attr("axis"), list(np.unravel_index(element, node.shape))
    at, ones = np.arange(len(element)), np.ones(len(element), np.int64)
    for k in range(shape[axis]):
        place[axis] = np.full(len(element), k)
        yield node.inputs[0], at, np.ravel_multi_index(place, shape), ones


def _sum_of_both(graph: TensorGraph, n: int, element: Ints, constant: Ints) -> Iterator[Addend] | None:
    """Returns the addends of ADD and SUB of INT32, else None."""
    return _of_both(graph, n, element) if graph.nodes[n].dtype == "INT32" else None


def _of_both(graph: TensorGraph, n: int, element: Ints) -> Iterator[Addend]:
    node, at = graph.nodes[n], np.arange(len(element))
    for k, i in enumerate(node.inputs):
        shape = graph.nodes[i].shape
        numbers = np.broadcast_to(np.arange(graph.type(i).elements).reshape(shape), node.shape).reshape(-1)[element]
        yield i, at, numbers, np.full(len(element), -1 if k and node.op == "sub" else 1)


def _scaled(graph: TensorGraph, n: int, element: Ints, constant: Ints) -> Iterator[Addend] | None:
    """Returns the addends of a RESCALE to INT32 by a whole number, else None."""
    node = graph.nodes[n]
    attrs = dict(node.attrs)
    whole = all(m % (1 << s) == 0 for m, s in zip(attrs["multiplier"], attrs["shift"], strict=True))
    if node.dtype != "INT32" or not whole or attrs["input_unsigned"] or attrs["output_unsigned"]:
        return None
    factors = np.array([m >> s for m, s in zip(attrs["multiplier"], attrs["shift"], strict=True)], np.int64)
    factor = factors[element % node.shape[-1]] if attrs["per_channel"] else np.full(len(element), factors[0])
    constant += attrs["out_zp"][0] - factor * attrs["in_zp"][0]
    return iter([(node.inputs[0], np.arange(len(element)), element, factor)])


def _matrix(graph: TensorGraph, n: int, element: Ints, constant: Ints) -> Iterator[Addend] | None:
    """Returns the addends of MATMUL by a constant right operand, else None."""
    node = graph.nodes[n]
    left, right = node.inputs
    if graph.nodes[right].op != "const":
        return None
    matrix, depth = _constant(graph, right) - int(node.attr("w_zp")[0]), graph.nodes[left].shape[2]
    image, row, column = np.unravel_index(element, node.shape)
    factors = matrix[image, :, column]
    constant -= factors.sum(1) * node.attr("in_zp")[0]
    flat = ((image * node.shape[1] + row) * depth)[:, None] + np.arange(depth)
    return iter([(left, np.repeat(np.arange(len(element)), depth), flat.reshape(-1), factors.reshape(-1))])


#: {operator: its addends, for (graph, node, elements, constants)}.
#: The function adds to the constants in place.
_ADDENDS: Mapping[str, Callable[[TensorGraph, int, Ints, Ints], Iterator[Addend] | None]] = {
    "conv2d": _convolution,
    "depthwise_conv2d": _convolution,
    "reduce_sum": _reduced,
    "add": _sum_of_both,
    "sub": _sum_of_both,
    "rescale": _scaled,
    "matmul": _matrix,
}
