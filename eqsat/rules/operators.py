"""Another operator for the same integers, where the NPU has a cheaper one."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Annotated

import numpy as np

from eqsat.egraph.attributes import Call, LeafValue
from eqsat.egraph.externs import extern
from eqsat.egraph.kinds import Conv2d, MaxPool, Rescale, Value, op, such
from eqsat.egraph.rule import rule
from eqsat.egraph.terms import let, symbols
from eqsat.rules.weights import channel_order
from eqsat.tensor import makers
from eqsat.tensor.dtypes import DType
from eqsat.tensor.movement import Move
from eqsat.tensor.types import Type

_POOL_WINDOW = 256  # Vela's limit on a pool's height and width
_POOL_CHANNELS = 128  # as many as one block of the NPU's output holds
_MATRIX_CHANNELS = 512  # beyond this a 0/1 matrix costs more weights than any movement


ReduceMax = Annotated[Call, op("reduce_max")]
#: Reductions that may be made in two steps; a sum is exact in INT32 as long as the whole sum is, which TOSA demands of both.
Reduction = Annotated[Call, op("reduce_sum", "reduce_max", "reduce_min", "reduce_any", "reduce_all", name="reduction")]
Input = Annotated[LeafValue, such("input", LeafValue, lambda leaf: not leaf.is_const)]


@extern
def reduce_as_pool(call: ReduceMax, operand: Type) -> list[tuple[Move, MaxPool, Move]]:
    """reduce_max along an axis = max_pool2d with a window of the whole axis, on [1, outer, axis, inner] as it lies, and for the
    innermost axis also on [1, axis, outer / c, c], where the pool has channels to work on."""
    if not DType.of(operand.dtype).is_activation:
        return []
    axis, shape = call.attr("axis"), operand.shape
    size, outer, inner = shape[axis], prod(shape[:axis]), prod(shape[axis + 1 :])
    if not 1 < size <= _POOL_WINDOW:
        return []
    after = (*shape[:axis], 1, *shape[axis + 1 :])
    out = [
        (Move.reshape(shape, (1, outer, size, inner)), _max_pool(1, size), Move.reshape((1, outer, 1, inner), after))
    ]
    channels = max(c for c in range(1, _POOL_CHANNELS + 1) if outer % c == 0)
    if inner == 1 and channels > 1:
        across = (1, size, outer // channels, channels)
        turned = Move.reshape(shape, (outer, size)).then(Move.transpose((outer, size), (1, 0)))
        out.append(
            (
                turned.then(Move.reshape((size, outer), across)),
                _max_pool(size, 1),
                Move.reshape((1, 1, *across[2:]), after),
            )
        )
    return out


def _max_pool(height: int, width: int) -> Call:
    return Call("max_pool2d", makers.max_pool((height, width)))


@extern
def order_as_conv(m: Move, operand: Type) -> tuple[Conv2d, LeafValue, LeafValue, Rescale] | None:
    """An order of channels of an INT8 tensor = a 1x1 convolution with a 0/1 matrix and a RESCALE by one."""
    order = channel_order(m)
    if (
        order is None
        or operand.dtype != "INT8"
        or len(m.in_shape) != 4
        or m.in_shape != m.out_shape
        or m.in_shape[0] != 1
        or len(order) > _MATRIX_CHANNELS
    ):
        return None
    n = len(order)
    matrix = np.zeros((n, 1, 1, n), np.int8)
    matrix[np.arange(n), 0, 0, order] = 1
    conv = Call("conv2d", makers.conv("INT8"))
    return (
        conv,
        LeafValue.constant(matrix, "INT8"),
        LeafValue.constant(np.zeros(n, np.int32), "INT32"),
        Call("rescale", makers.rescale("INT8")),
    )


@extern
def one_reduction(f: Reduction, g: Reduction, x: Type) -> tuple[Move, Reduction, Move] | None:
    """Two reductions of a kind along neighbouring axes = one along both as a single axis: view, reduction, view."""
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
def interleaved(m: Move, leaf: Input) -> tuple[Move, Conv2d, LeafValue, LeafValue, Rescale, Move] | None:
    """[planes, rest] to [rest, planes], few planes of an INT8 input (a picture from NCHW to NHWC) = a convolution with a 0/1
    kernel as high as there are planes, on [1, planes, rest / k, k], that gives k * planes channels."""
    if leaf.node.dtype != "INT8" or len(m.axes) != 2 or m.axes[1][1] == 1 or m.axes[1][0] > _PLANES:
        return None
    rest, planes = m.axes[0][0], m.axes[1][0]
    k = max(c for c in range(1, _STEP + 1) if rest % c == 0)
    if k == 1:
        return None
    kernel = np.zeros((k, planes, planes, 1, k), np.int8)
    for c in range(planes):
        kernel[np.arange(k), c, c, 0, np.arange(k)] = 1
    conv = Call("conv2d", makers.conv("INT8"))
    return (
        Move.reshape(m.in_shape, (1, planes, rest // k, k)),
        conv,
        LeafValue.constant(kernel.reshape(k * planes, planes, 1, k), "INT8"),
        LeafValue.constant(np.zeros(k * planes), "INT32"),
        Call("rescale", makers.rescale("INT8")),
        Move.reshape((1, 1, rest // k, k * planes), m.out_shape),
    )


#: Most planes, and most elements of a row at once: what keeps the kernel small and the NPU's channels filled.
_PLANES, _STEP = 8, 16

m, x, i = symbols("m", Move), symbols("x", Value), symbols("i", Input)
reduce_max = symbols("reduce_max", ReduceMax)
f, g = symbols("f g", Reduction)
rule = partial(rule, family="operators")

RULES = [
    rule(
        "reduce-pool",
        reduce_max(x),
        let(reduce_as_pool(reduce_max, x), lambda before, pool, after: after(pool(before(x)))),
    ),
    rule("order-matrix", m(x), let(order_as_conv(m, x), lambda conv, w, b, rescale: rescale(conv(x, w, b)))),
    rule("reduce-reduce", f(g(x)), let(one_reduction(f, g, x), lambda before, h, after: after(h(before(x))))),
    rule(
        "planes-conv",
        m(i),
        let(interleaved(m, i), lambda before, conv, w, b, rescale, after: after(rescale(conv(before(i), w, b)))),
    ),
]
