"""Rules for convolutions: they exchange height and width, turn transposed convolutions and channel multipliers into
ordinary convolutions, and move channel orders and channel slices into the weights.

A convolution distinguishes height and width only by the order of its kernel's axes, so the two axes may be exchanged.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Annotated, Any

import numpy as np

from eqsat.egraph.kinds import (
    Call,
    ChannelRescale,
    Concat,
    Constant,
    Conv2d,
    Convolution,
    DepthwiseConv2d,
    LeafValue,
    Operator,
    PaddingConvolution,
    Pooling,
    Slice,
    TransposeConv2d,
    Value,
    such,
)
from eqsat.egraph.rule import rule
from eqsat.egraph.terms import LHS, extern, let, symbols
from eqsat.rules.across import inverse, reorder, take_along
from eqsat.rules.moves import move_constant
from eqsat.rules.roles import pull, push
from eqsat.rules.slicing import takes_channels
from eqsat.rules.weights import MAX_CHANNELS, is_product, kernel_of, take
from eqsat.tensor import makers
from eqsat.tensor.blocking import regroup
from eqsat.tensor.movement import Move
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Shape, Type, attrs_of

#: Kernel rows of a transposed convolution that becomes as many convolutions.
_PHASES = 2

# ---- height and width ---------------------------------------------------------------------------

_PAIRS = ("stride", "dilation", "kernel")


def _exchange(shape: Shape) -> Move:
    return Move.transpose(shape, (0, 2, 1, 3))


#: An exchange of H and W that is no view.
Exchange = Annotated[
    Move, such("exchange", Move, lambda m: len(m.in_shape) == 4 and not m.is_view and m == _exchange(m.in_shape))
]


@extern
def exchange_pays(call: Convolution, x: Type, weights: Type, t: Type) -> bool:
    """Tells whether exchanging H and W is a view, H and W differ, and the kernel has several taps."""
    is_view = _exchange(x.shape).is_view and _exchange(t.shape).is_view
    return is_view and x.shape[1] != x.shape[2] and kernel_of(call, weights.shape) != (1, 1)


@extern
def turn(call: Operator) -> Operator:
    """Returns an operator on images whose H and W are exchanged."""
    attrs = dict(call.attrs)
    swapped = {k: (attrs[k][1], attrs[k][0]) for k in _PAIRS if k in attrs}
    swapped |= {k: (*attrs[k][2:], *attrs[k][:2]) for k in ("pad", "out_pad") if k in attrs}
    return call.with_attrs(**swapped)


@extern
def exchange(x: Type) -> Move:
    """Returns the movement that exchanges H and W of a tensor [N, H, W, C]."""
    return _exchange(x.shape)


@extern
def turn_kernel(call: Convolution, weights: Constant) -> Constant:
    """Returns weights whose kernel rows and columns are exchanged."""
    height = OPS[call.op].kernel_axis
    return LeafValue.constant(weights.data.swapaxes(height, height + 1), weights.node.dtype)


# ---- several images -----------------------------------------------------------------------------


@extern
def one_image(x: Type, t: Type) -> tuple[Move, Move] | None:
    """Returns m and m' such that call x = m (call (m' x)), where m' puts all pixels of a batch into one row.

    A pointwise convolution does not distinguish images and rows.
    Vela fuses a TABLE or CLAMP into a convolution of one image; with several images they take up to twice as long.
    Returns None if there is a single image.
    """
    if x.shape[0] == 1:
        return None
    row = (1, 1, prod(x.shape[:3]))
    return Move.reshape((*row, t.shape[3]), t.shape), Move.reshape(x.shape, (*row, x.shape[3]))


# ---- transposed convolution ---------------------------------------------------------------------


@extern
def phases(
    call: TransposeConv2d, x: Type, weights: Constant, bias: Constant
) -> tuple[Move, Concat, Conv2d, Constant, Constant, Constant] | None:
    """Returns convolutions equal to a TRANSPOSE_CONV2D whose kernel is as large as its stride: one 1x1 convolution per
    kernel row.

    Each convolution gives one output row per row of pixels, with the kernel's columns as channels.
    The rows are concatenated along W, and a view then puts them below each other.
    Returns None unless the kernel has `_PHASES` rows, `out_pad` is 0, and the input is INT8.
    """
    oc, kh, kw, ic = weights.data.shape
    n, height, width, _ = x.shape
    if any(call.attr("out_pad")) or x.dtype != "INT8" or (kh, kw) != call.attr("stride") or kh != _PHASES:
        return None
    first, second = (
        LeafValue.constant(weights.data[:, k].transpose(1, 0, 2).reshape(kw * oc, 1, 1, ic), weights.node.dtype)
        for k in range(kh)
    )
    whole = (n, height, kh * width, kw * oc)
    return (
        Move.reshape(whole, (n, kh * height, kw * width, oc)),
        Call("concat", attrs_of({"axis": 2})),
        Call("conv2d", makers.conv("INT8", in_zp=call.attr("in_zp")[0], w_zp=call.attr("w_zp")[0])),
        first,
        second,
        LeafValue.constant(np.tile(np.broadcast_to(bias.data, (oc,)), kw), bias.node.dtype),
    )


# ---- channel multiplier --------------------------------------------------------------------------


@extern
def halve(
    scale: ChannelRescale, weights: Constant, bias: Constant, result: Type
) -> tuple[Move, Concat, ChannelRescale, Constant, Constant, ChannelRescale, Constant, Constant] | None:
    """Returns the order of channels, the concat, and RESCALE, weights and bias of each of two depthwise convolutions of
    half the channel multiplier that together equal one of an even multiplier.

    For a multiplier above 1, Vela makes that many convolutions and reorders their channels by up to seven transposes.
    Returns None for a single channel, because Vela makes a CONV2D of it.
    """
    *_, channels, multiplier = weights.data.shape
    half, odd = divmod(multiplier, 2)
    if odd or channels == 1:
        return None

    channels_out = np.arange(channels * multiplier).reshape(channels, 2, half)
    parts = []
    for k in range(2):
        of = channels_out[:, k].reshape(-1).tolist()
        kernel = take(weights, range(k * half, (k + 1) * half), 3)
        parts.append((take_along(scale, of), kernel, take(bias, of, 0)))
    # The concat has the halves outermost among its channels.
    split = (*result.shape[:-1], 2, channels, half)
    return (
        regroup(result.shape, split, (0, 1, 2, 4, 3, 5), result.shape),
        Call("concat", attrs_of({"axis": 3})),
        *parts[0],
        *parts[1],
    )


# ---- orders of channels -------------------------------------------------------------------------


def _run(m: Move) -> int:
    """Returns the number of elements that m moves together."""
    size, stride = m.axes[-1]
    return size if stride == 1 else 1


@extern
def order_first(m: Move) -> tuple[Move, Move] | None:
    """Returns rest and an order of channels such that m x = rest (order x), where rest moves longer runs of elements
    than m.

    The order puts the factors of the channels into the order of the channels in m's output.
    Returns None unless the order moves something, and rest has fewer axes than m.
    """
    atoms, last = m.atoms(), len(m.in_shape) - 1
    if m.is_view or atoms is None or m.in_shape[last] > MAX_CHANNELS:
        return None
    parts = [Move.reshape((n,), (n,)) for n in m.in_shape]
    parts[last] = Move.reorder([(a.size, a.in_stride) for a in atoms if a.in_dim == last])
    order = Move.product(parts)
    rest = order.inverse().then(m)
    if order.is_view or rest is None or rest.is_view or _run(rest) <= _run(m) or len(rest.axes) >= len(m.axes):
        return None
    return rest, order


@extern
def order_last(m: Move) -> tuple[Move, Move] | None:
    """Returns an order of channels and rest such that m x = order (rest x), where rest moves longer runs of elements
    than m."""
    found = order_first.fn(m.inverse())
    return None if found is None else (found[1].inverse(), found[0].inverse())


# ---- slices of channels -------------------------------------------------------------------------


@extern
def zeros_around(conv: Conv2d, call: Slice, whole: Type, weights: Constant) -> Constant | None:
    """Returns weights' such that conv (call x) weights = conv x weights', where the slice `call` takes some input
    channels.

    The weights' of all other channels are zero.
    """
    if whole.shape[-1] > MAX_CHANNELS or conv.attr("w_zp") != (0,):
        return None
    start = call.attr("start")[-1]
    wide = np.zeros((*weights.data.shape[:3], whole.shape[-1]), weights.data.dtype)
    wide[..., start : start + weights.data.shape[-1]] = weights.data
    return LeafValue.constant(wide, weights.node.dtype)


m, n, direct = symbols("m", Exchange), symbols("n", Move), symbols("direct", PaddingConvolution)
conv, plain, transposed = symbols("conv", Convolution), symbols("plain", Conv2d), symbols("transposed", TransposeConv2d)
pool = symbols("pool", Pooling)
depthwise, scale = symbols("depthwise", DepthwiseConv2d), symbols("scale", ChannelRescale)
w, c = symbols("w c", Constant)
s = symbols("s", Slice)
x, b = symbols("x b", Value)
rule = partial(rule, family="convolution")


def turn_conv(x: Any) -> Any:
    """Returns a term: the convolution of an image whose H and W are exchanged."""
    return turn(conv)(x, turn_kernel(conv, w), b)


def giving_in_order(rest: Any, order: Any) -> Any:
    """Returns a term: the RESCALE of the convolution whose output channels are reordered, and the rest of the
    movement."""
    inside = push(order, plain, x, w, c, plain(x, w, c))
    conv = let(
        inside, lambda same, v, d, view: reorder(order, scale)(plain(x, move_constant(v, w), move_constant(d, c)))
    )
    return rest(conv)


def reading_in_order(order: Any, rest: Any) -> Any:
    """Returns a term: the convolution whose input channels are reordered, after the rest of the movement."""
    inside = pull(0, order, plain, n(x), w, c, LHS)
    return let(inside, lambda view, v, d, same: plain(rest(x), move_constant(v, w), move_constant(d, c)))


RULES = [
    rule(
        "turn-conv",
        conv(x, w, b),
        inverse(exchange(LHS))(turn_conv(exchange(x)(x))),
        where=exchange_pays(conv, x, w, LHS),
    ),
    rule(
        "conv-one-image",
        direct(x, w, b),
        let(one_image(x, LHS), lambda back, n: back(direct(n(x), w, b))),
        where=is_product(direct, w),
    ),
    rule("push-turn", m(conv(x, w, b)), turn_conv(exchange(x)(x))),
    rule("pull-turn", conv(m(x), w, b), inverse(exchange(LHS))(turn_conv(x))),
    rule("push-turn-pool", m(pool(x)), turn(pool)(exchange(x)(x))),
    rule("pull-turn-pool", pool(m(x)), inverse(exchange(LHS))(turn(pool)(x))),
    rule("move-conv", n(scale(plain(x, w, c))), let(order_first(n), giving_in_order)),
    rule("conv-move", plain(n(x), w, c), let(order_last(n), reading_in_order)),
    rule("conv-slice", plain(s(x), w, b), plain(x, zeros_around(plain, s, x, w), b), where=takes_channels(s, x)),
    rule(
        "halve-multiplier",
        scale(depthwise(x, w, c)),
        let(
            halve(scale, w, c, LHS),
            lambda order, concat, f, v, d, g, u, e: order(concat([f(depthwise(x, v, d)), g(depthwise(x, u, e))])),
        ),
    ),
    rule(
        "transpose-conv-phases",
        transposed(x, w, c),
        let(
            phases(transposed, x, w, c),
            lambda view, concat, conv, u, v, bias: view(concat([conv(x, u, bias), conv(x, v, bias)])),
        ),
    ),
]
