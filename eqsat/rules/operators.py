"""Rules that replace an operator by another one with equal results if the NPU runs the other one faster."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from eqsat.egraph.kinds import Call, Constant, Conv2d, LeafValue, MaxPool, Mul, Rescale, Value, op, such
from eqsat.egraph.rule import rule
from eqsat.egraph.terms import extern, let, symbols
from eqsat.rules.weights import ChannelOrder, channel_order
from eqsat.tensor import makers
from eqsat.tensor.blocking import regroup
from eqsat.tensor.movement import Move
from eqsat.tensor.types import DType, Type

#: Maximum elements of a pool's height and width: Vela's limit.
_POOL_WINDOW = 256
#: Maximum number of channels of a pool that is made: as many as one block of the NPU's output holds.
_POOL_CHANNELS = 128
#: Maximum number of channels of a 0/1 matrix; the weights of a larger matrix cost more than any movement.
_MATRIX_CHANNELS = 512
#: `_PLANES`: maximum number of planes of an input that are interleaved, which keeps the 0/1 kernel small.
#: `_STEP`: maximum number of elements of a row that are read as channels, which fills the NPU's channels.
_PLANES, _STEP = 8, 16

#: `_LEAST_WINDOW`: elements of a window below which a pool takes no fewer cycles.
#: `_FEWER`: maximum number of elements that two pools read, as a share of the elements that one pool reads.
_LEAST_WINDOW, _FEWER = 4, 0.9

ReduceMax = Annotated[Call, op("reduce_max")]
Argmax = Annotated[Call, op("argmax")]
#: Reductions that may be done in two steps.
#: A sum in steps is exact in INT32 as long as the entire sum is, which TOSA requires of both forms.
TwoStep = Annotated[Call, op("reduce_sum", "reduce_max", "reduce_min", "reduce_any", "reduce_all", name="reduction")]
#: An input of the graph.
Input = Annotated[LeafValue, such("input", LeafValue, lambda leaf: not leaf.is_const)]


@extern
def as_pool(call: ReduceMax, operand: Type) -> list[tuple[Move, MaxPool, Move]]:
    """Returns a REDUCE_MAX as a MAX_POOL2D whose window covers the reduced axis, between movements.

    The pool reads [1, outer, axis, inner], which is a view.
    For the innermost axis there is also a pool that reads [1, axis, outer / c, c], so that it has c channels.
    """
    axis, shape = call.attr("axis"), operand.shape
    size, outer, inner = shape[axis], prod(shape[:axis]), prod(shape[axis + 1 :])
    if not DType.of(operand.dtype).is_activation or not 1 < size <= _POOL_WINDOW:
        return []
    after = (*shape[:axis], 1, *shape[axis + 1 :])
    out = [
        (Move.reshape(shape, (1, outer, size, inner)), _max_pool(1, size), Move.reshape((1, outer, 1, inner), after))
    ]
    channels = max(c for c in range(1, _POOL_CHANNELS + 1) if outer % c == 0)
    if inner == 1 and channels > 1:
        across = (1, size, outer // channels, channels)
        there = regroup(shape, (outer, size), (1, 0), across)
        out.append((there, _max_pool(size, 1), Move.reshape((1, 1, *across[2:]), after)))
    return out


def _max_pool(height: int, width: int) -> MaxPool:
    return Call("max_pool2d", makers.max_pool((height, width)))


@extern
def as_matrix(order: ChannelOrder, operand: Type) -> tuple[Conv2d, Constant, Constant, Rescale] | None:
    """Returns an order of channels as a 1x1 convolution with a 0/1 matrix, followed by a RESCALE by one."""
    channels, shape = channel_order(order), order.in_shape
    if not DType.of(operand.dtype).is_activation or len(shape) != 4 or shape != order.out_shape or shape[0] != 1:
        return None
    if channels is None or (size := len(channels)) > _MATRIX_CHANNELS:
        return None
    matrix = np.zeros((size, 1, 1, size), np.int8)
    matrix[np.arange(size), 0, 0, channels] = 1
    return _copying(operand.dtype, matrix)


def _copying(dtype: str, kernel: NDArray[np.int8]) -> tuple[Conv2d, Constant, Constant, Rescale]:
    """Returns the convolution with a 0/1 kernel, its weights and bias, and the RESCALE by one.

    kernel: [out, height, width, in].
    The RESCALE gives the values that the convolution reads, in their dtype.
    """
    return (
        Call("conv2d", makers.conv(dtype)),
        LeafValue.constant(kernel, "INT8"),
        LeafValue.constant(np.zeros(len(kernel)), DType.of(dtype).accumulator),
        Call("rescale", makers.by_one(dtype)),
    )


@extern
def one_reduction(f: TwoStep, g: TwoStep, x: Type) -> tuple[Move, TwoStep, Move] | None:
    """Returns two reductions of the same kind along neighbouring axes as one reduction, between views.

    The first view makes one axis of both.
    """
    if f.op != g.op or abs(f.attr("axis") - g.attr("axis")) != 1:
        return None
    low = min(f.attr("axis"), g.attr("axis"))
    merged = (*x.shape[:low], x.shape[low] * x.shape[low + 1], *x.shape[low + 2 :])
    return (
        Move.reshape(x.shape, merged),
        f.with_attrs(axis=low),
        Move.reshape((*merged[:low], 1, *merged[low + 1 :]), (*x.shape[:low], 1, 1, *x.shape[low + 2 :])),
    )


@extern
def interleaving(m: Move, leaf: Input) -> tuple[Move, Conv2d, Constant, Constant, Rescale, Move] | None:
    """Returns a movement of an input with few planes from [planes, rest] to [rest, planes] as a convolution.

    An example is a picture from NCHW to NHWC.
    The convolution reads [1, planes, rest / k, k] and gives k * planes channels.
    Its 0/1 kernel is as high as there are planes.
    A RESCALE by one follows, and there are views before and after.
    """
    if not DType.of(leaf.node.dtype).is_activation or len(m.axes) != 2 or m.axes[1][1] == 1 or m.axes[1][0] > _PLANES:
        return None
    rest, planes = m.axes[0][0], m.axes[1][0]
    k = max(c for c in range(1, _STEP + 1) if rest % c == 0)
    if k == 1:
        return None
    kernel = np.zeros((k, planes, planes, 1, k), np.int8)
    for c in range(planes):
        kernel[np.arange(k), c, c, 0, np.arange(k)] = 1
    return (
        Move.reshape(m.in_shape, (1, planes, rest // k, k)),
        *_copying(leaf.node.dtype, kernel.reshape(k * planes, planes, 1, k)),
        Move.reshape((1, 1, rest // k, k * planes), m.out_shape),
    )


@extern
def as_product(widen: Rescale, x: Type) -> tuple[Mul, Rescale, Constant] | None:
    """Returns a RESCALE that widens an INT16 value and multiplies it by an integer of 16 bits as a product with a
    constant.

    The result is the product, the RESCALE by one that widens both operands, and the constant.
    A RESCALE by one becomes part of the product.
    Any other RESCALE becomes one or two operators, unless it is part of a sum.
    """
    multiplier, shift = widen.attr("multiplier")[0], widen.attr("shift")[0]
    factor, rest = divmod(multiplier, 1 << shift)
    plain = not (widen.attr("per_channel") or widen.attr("input_unsigned") or widen.attr("output_unsigned"))
    same_zero = not any(widen.attr("in_zp") + widen.attr("out_zp"))
    if (x.dtype, widen.attr("dtype")) != ("INT16", "INT32") or not (plain and same_zero) or rest:
        return None
    if not 1 < factor <= DType.of(x.dtype).limits[1]:
        return None
    constant = LeafValue.constant(np.full((1,) * len(x.shape), factor), x.dtype)
    return Call("mul", makers.mul()), Call("rescale", makers.rescale("INT32")), constant


@extern
def separate(pool: MaxPool, x: Type, result: Type) -> tuple[MaxPool, MaxPool] | None:
    """Returns a max pool as one pool along one axis and then one along the other, in the cheaper order.

    Returns None unless the two pools read far fewer elements (`_FEWER`).
    """
    (height, width), (down, right), pads = pool.attr("kernel"), pool.attr("stride"), pool.attr("pad")
    rows, columns = result.shape[1:3]
    along_h = pool.with_attrs(kernel=(height, 1), stride=(down, 1), pad=(*pads[:2], 0, 0))
    along_w = pool.with_attrs(kernel=(1, width), stride=(1, right), pad=(0, 0, *pads[2:]))
    second = rows * columns
    h_first = rows * x.shape[2] * max(height, _LEAST_WINDOW) + second * max(width, _LEAST_WINDOW)
    w_first = x.shape[1] * columns * max(width, _LEAST_WINDOW) + second * max(height, _LEAST_WINDOW)
    if min(height, width) == 1 or min(h_first, w_first) > _FEWER * second * height * width:
        return None
    return (along_h, along_w) if h_first <= w_first else (along_w, along_h)


@extern
def outward(call: Argmax, x: Type) -> tuple[Argmax, Move] | None:
    """Returns call' and m such that call x = call' (m x), where call acts along the last axis.

    m puts that axis outside all other axes except the batch.
    If the ARGMAX is along channels, Vela 5.1 takes 13 times as long on Ethos-U85.
    """
    rank = len(x.shape)
    if rank < 2 or call.attr("axis") != rank - 1 or x.shape[-1] == 1:
        return None
    to = 1 if rank > 2 else 0
    return call.with_attrs(axis=to), Move.transpose(x.shape, (*range(to), rank - 1, *range(to, rank - 1)))


m, order = symbols("m", Move), symbols("order", ChannelOrder)
largest, argmax, pool = symbols("largest", ReduceMax), symbols("argmax", Argmax), symbols("pool", MaxPool)
f, g = symbols("f g", TwoStep)
widen = symbols("widen", Rescale)
x, picture = symbols("x", Value), symbols("picture", Input)
rule = partial(rule, family="operators")

RULES = [
    rule("argmax-outward", argmax(x), let(outward(argmax, x), lambda a, n: a(n(x)))),
    rule("reduce-pool", largest(x), let(as_pool(largest, x), lambda view, pool, back: back(pool(view(x))))),
    rule("pool-separable", pool(x), let(separate(pool, x, pool(x)), lambda first, second: second(first(x)))),
    rule(
        "order-matrix",
        order(x),
        let(as_matrix(order, x), lambda conv, weights, bias, by_one: by_one(conv(x, weights, bias))),
    ),
    rule("reduce-reduce", f(g(x)), let(one_reduction(f, g, x), lambda view, h, back: back(h(view(x))))),
    rule(
        "widening-product",
        widen(x),
        let(as_product(widen, x), lambda product, by_one, factor: product(by_one(x), by_one(factor))),
    ),
    rule(
        "planes-conv",
        m(picture),
        let(
            interleaving(m, picture),
            lambda view, conv, kernel, bias, by_one, back: back(by_one(conv(view(picture), kernel, bias))),
        ),
    ),
]
