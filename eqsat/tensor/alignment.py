"""Inputs that agree with the signs of weights, which drive sums of products to their extremes.

With 64 weights of both signs, random inputs reach only some tenths of the largest sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count, product
from math import prod

import numpy as np

from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import Node, TensorGraph
from eqsat.tensor.movement import Move
from eqsat.tensor.ops.op import Attributes
from eqsat.tensor.types import Array, Type

#: Most patterns of a tensor.
_PATTERNS = 3
#: Positions of a result from which on one pattern is enough, since each takes the next channel.
_PLACES = 64
#: Most elements of an operator's weights; larger ones have no patterns.
_WEIGHTS = 1 << 20
#: Most windows of a pattern along one axis.
_WINDOWS = 8
#: Operators whose result does not fall as their operand rises.
_RISING = frozenset({"rescale", "cast", "clamp", "identity"})


def patterns(graph: TensorGraph, nodes: Sequence[int] | None = None) -> dict[int, list[Array]]:
    """Returns patterns of operands by node: 1 where values should be high, -1 where low, 0 where free.

    They are of the operands of convolutions and products with constant weights.
    They are also carried back through movement and monotone operators.
    nodes: whose operands are considered, in topological order; None: all live ones.
    """
    out: dict[int, list[Array]] = {}
    for n in reversed(graph.live() if nodes is None else nodes):
        node = graph.nodes[n]
        if not node.inputs or graph.nodes[node.inputs[0]].op == "const":
            continue
        i = node.inputs[0]
        found = [*out.get(i, ()), *_own(graph, n), *_before(graph, node, out.get(n, []))][:_PATTERNS]
        if found:
            out[i] = found
    return out


def _own(graph: TensorGraph, n: int) -> list[Array]:
    node = graph.nodes[n]
    products = _PRODUCTS.get(node.op)
    if products is None or products.lay is None or (weights := _weights(graph, node)) is None:
        return []
    if weights.size > _WEIGHTS:
        return []
    turns = np.moveaxis(weights, products.turns, 0)
    # The largest sums come first.
    signs = np.sign(turns[np.argsort(-np.abs(turns).reshape(len(turns), -1).sum(1), kind="stable")]).astype(np.int8)
    operand, result = graph.type(node.inputs[0]), graph.type(n)
    several = 1 if prod(result.shape[1:-1]) >= _PLACES else _PATTERNS
    return [products.lay(dict(node.attrs), signs, operand, result, first) for first in range(several)]


def _before(graph: TensorGraph, node: Node, found: Sequence[Array]) -> list[Array]:
    shape = graph.nodes[node.inputs[0]].shape
    if node.op == "transpose":
        back = Move.transpose(shape, node.attr("perms")).inverse()
        return [back.apply(x) for x in found]
    if node.op == "reshape":
        return [x.reshape(shape) for x in found]
    if node.op == "pad":
        pads = node.attr("pads")
        return [x[tuple(slice(pads[2 * d], pads[2 * d] + m) for d, m in enumerate(shape))] for x in found]
    return list(found) if node.op in _RISING else []


def _spread(x: Type, out: Type, attrs: Attributes, d: int, kernel: int) -> list[Array]:
    """Returns the taps of each window along the height (0) or width (1), without overlap; -1 is in the padding."""
    before, stride, dilation = attrs["pad"][2 * d], attrs["stride"][d], attrs["dilation"][d]
    step = -(-((kernel - 1) * dilation + 1) // stride)
    first = min(-(-before // stride), out.shape[1 + d] - 1)
    windows = range(first, out.shape[1 + d], step)[:_WINDOWS]
    taps = [o * stride - before + np.arange(kernel) * dilation for o in windows]
    return [np.where((at >= 0) & (at < x.shape[1 + d]), at, -1) for at in taps]


def _over_windows(attrs: Attributes, signs: Array, x: Type, out: Type, first: int) -> Array:
    """Lays the signs of weights over windows of the operand, int8 of its shape.

    signs: [turn, kernel height, kernel width, channels of x].
    Each window takes the next turn, with every other one negated.
    first: number of the pattern.
    """
    laid = np.zeros(x.shape, np.int8)
    rows, columns = (_spread(x, out, attrs, d, signs.shape[1 + d]) for d in (0, 1))
    turns = count(first * len(rows) * len(columns))
    for (ys, xs), turn in zip(product(rows, columns), turns, strict=False):
        inside = signs[turn % len(signs)][ys >= 0][:, xs >= 0]
        laid[:, ys[ys >= 0][:, None], xs[xs >= 0]] = inside * (-1) ** turn
    return laid


def _over_rows(attrs: Attributes, signs: Array, x: Type, out: Type, first: int) -> Array:
    """Lays signs [turn, matrix, elements of a column] over rows of the operand as `_over_windows` does over windows."""
    turns = first * x.shape[1] + np.arange(x.shape[1])
    return np.asarray(signs[turns % len(signs)].swapaxes(0, 1) * np.where(turns % 2, -1, 1)[:, None]).astype(np.int8)


@dataclass(frozen=True, slots=True)
class _Products:
    """An operator with weights.

    turns: the axis of the weights that distinguishes output channels with the same inputs.
    summed: the axes that are summed up.
    lay: lays signs of weights, with `turns` as first axis, over the operand; None: unsupported.
    """

    turns: int
    summed: tuple[int, ...]
    lay: Callable[[Attributes, Array, Type, Type, int], Array] | None = None


_PRODUCTS = {
    "conv2d": _Products(0, (1, 2, 3), _over_windows),
    "depthwise_conv2d": _Products(3, (0, 1), _over_windows),
    "transpose_conv2d": _Products(0, (1, 2, 3)),
    "matmul": _Products(2, (1,), _over_rows),
}


def _weights(graph: TensorGraph, node: Node) -> Array | None:
    """Returns weights without their zero point, or None unless they are constants that numpy holds."""
    operands = [graph.nodes[i] for i in node.inputs[1:]]
    if any(o.op != "const" or DType.of(o.dtype).carried for o in operands):
        return None
    weights: Array = operands[0].attr("value").data.astype(np.int64) - node.attr("w_zp")[0]
    return weights


def reach(graph: TensorGraph, n: int) -> tuple[Array, Array] | None:
    """Returns the smallest and largest sum of a convolution or product with constant weights.

    Both are int64, per index of the last axis.
    Each is the bias plus the weights times the ends of the operand's range that fit their signs.
    Returns None for other nodes.
    """
    node = graph.nodes[n]
    products = _PRODUCTS.get(node.op)
    dtype = DType.of(graph.nodes[node.inputs[0]].dtype) if products else None
    if products is None or dtype is None or not dtype.is_integral or (weights := _weights(graph, node)) is None:
        return None
    low, high = (end - node.attr("in_zp")[0] for end in dtype.limits)
    # Padding counts as the zero point.
    low, high = min(low, 0), max(high, 0)
    up, down = (np.maximum(sign * weights, 0).sum(products.summed) for sign in (1, -1))
    # A MATMUL may have several matrices.
    if node.op == "matmul":
        up, down, bias = up.max(0), down.max(0), np.int64(0)
    else:
        up, down = up.reshape(-1), down.reshape(-1)
        bias = graph.nodes[node.inputs[2]].attr("value").data.astype(np.int64)
    return bias + low * up - high * down, bias + high * up - low * down
