"""Convolutions: height and width exchanged, and the transposed one as plain ones.

A convolution knows H from W only by the order of its kernel's axes, so both may be exchanged.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Annotated, Any, NamedTuple

import numpy as np

from eqsat.egraph.attributes import Call, LeafValue
from eqsat.egraph.externs import extern
from eqsat.egraph.kinds import (
    Concat,
    Constant,
    Conv2d,
    Convolution,
    Operator,
    PaddingConvolution,
    Pooling,
    TransposeConv2d,
    Value,
    such,
)
from eqsat.egraph.rule import rule
from eqsat.egraph.terms import LHS, let, symbols, typed
from eqsat.tensor import makers
from eqsat.tensor.movement import Move
from eqsat.tensor.types import Shape, Type, attrs_of

#: Rows of the kernel of a transposed convolution that becomes as many convolutions.
_PHASES = 2

# ---- height and width ---------------------------------------------------------------------------

_PAIRS = ("stride", "dilation", "kernel")
_KERNEL_AXES = {"conv2d": (0, 2, 1, 3), "depthwise_conv2d": (1, 0, 2, 3), "transpose_conv2d": (0, 2, 1, 3)}


def _exchange(shape: Shape) -> Move:
    return Move.transpose(shape, (0, 2, 1, 3))


#: The exchange of H and W, where it moves something.
Exchange = Annotated[
    Move, such("exchange", Move, lambda m: len(m.in_shape) == 4 and not m.is_view and m == _exchange(m.in_shape))
]


def _exchanged(call: Operator) -> Operator:
    attrs = dict(call.attrs)
    swapped = {k: (attrs[k][1], attrs[k][0]) for k in _PAIRS if k in attrs}
    swapped |= {k: (*attrs[k][2:], *attrs[k][:2]) for k in ("pad", "out_pad") if k in attrs}
    return call.with_attrs(**swapped)


def _flat(x: Type, t: Type) -> bool:
    """Whether exchanging them in both is a view: one of H and W is 1, on both sides."""
    return _exchange(x.shape).is_view and _exchange(t.shape).is_view


def _one_tap(call: Call, weights: Shape) -> bool:
    return (weights[:2] if call.op == "depthwise_conv2d" else weights[1:3]) == (1, 1)


@extern
def exchange_pays(call: Convolution, x: Type, weights: Type, t: Type) -> bool:
    """Whether exchanging H and W costs nothing and the kernel has several taps in a row."""
    return _flat(x, t) and x.shape[1] != x.shape[2] and not _one_tap(call, weights.shape)


@extern
def turned(call: Operator, x: Type) -> tuple[Operator, Move]:
    """m (call x) = call' (m' x): call' and m'."""
    return _exchanged(call), _exchange(x.shape)


@extern
def turned_back(call: Operator, t: Type) -> tuple[Move, Operator]:
    """call (m x) = m' (call' x): m' and call'."""
    return _exchange(_exchange(t.shape).out_shape), _exchanged(call)


@extern
def exchange(x: Type) -> Move:
    """The exchange of H and W of a tensor."""
    return _exchange(x.shape)


@extern
def turned_kernel(call: Convolution, weights: Constant) -> Constant:
    """The kernel with its rows and columns exchanged."""
    return LeafValue.constant(weights.data.transpose(_KERNEL_AXES[call.op]), weights.node.dtype)


# ---- several images -----------------------------------------------------------------------------


@extern
def one_image(call: PaddingConvolution, x: Type, weights: Type, t: Type) -> tuple[Move, Move] | None:
    """call x = m (call (m' x)), where m' lays all pixels of a batch in one row: a pointwise convolution does not know
    images and rows. Behind one image Vela fuses a TABLE or CLAMP, and of images below each other it takes up to twice
    as long."""
    alone = _one_tap(call, weights.shape) and call.attr("stride") == (1, 1) and not any(call.attr("pad"))
    if not alone or x.shape[0] == 1:
        return None
    row = (1, 1, prod(x.shape[:3]))
    return Move.reshape((*row, t.shape[3]), t.shape), Move.reshape(x.shape, (*row, x.shape[3]))


# ---- transposed convolution ---------------------------------------------------------------------


class Phases(NamedTuple):
    """The view of the concat of two convolutions of one tensor, with the concat's type, the weights of each and the
    bias of both."""

    view: Move
    concat: Concat
    type: Type
    conv: Conv2d
    first: Constant
    second: Constant
    bias: Constant

    def graph(self: Any, x: Any) -> Any:
        """It, of x."""
        rows = [self.conv(x, weights, self.bias) for weights in (self.first, self.second)]
        return self.view(typed(self.concat(rows), self.type))


@extern
def phases(call: TransposeConv2d, x: Type, weights: Constant, bias: Constant) -> Phases | None:
    """TRANSPOSE_CONV2D whose kernel is its stride: each output row of a pixel is a 1x1 convolution with the columns as
    channels, and rows laid beside each other along W are rows below each other. One convolution per output row, at most
    `_PHASES`."""
    oc, kh, kw, ic = weights.data.shape
    n, height, width, _ = x.shape
    if any(call.attr("out_pad")) or x.dtype != "INT8" or (kh, kw) != call.attr("stride") or kh != _PHASES:
        return None
    first, second = (
        LeafValue.constant(weights.data[:, k].transpose(1, 0, 2).reshape(kw * oc, 1, 1, ic), weights.node.dtype)
        for k in range(kh)
    )
    whole = (n, height, kh * width, kw * oc)
    return Phases(
        Move.reshape(whole, (n, kh * height, kw * width, oc)),
        Call("concat", attrs_of({"axis": 2})),
        Type(whole, "INT32"),
        Call("conv2d", makers.conv("INT8", in_zp=call.attr("in_zp")[0], w_zp=call.attr("w_zp")[0])),
        first,
        second,
        LeafValue.constant(np.tile(np.broadcast_to(bias.data, (oc,)), kw), bias.node.dtype),
    )


m, direct = symbols("m", Exchange), symbols("direct", PaddingConvolution)
conv, plain, transposed = symbols("conv", Convolution), symbols("plain", Conv2d), symbols("transposed", TransposeConv2d)
pool = symbols("pool", Pooling)
w, c = symbols("w c", Constant)
x, b = symbols("x b", Value)
rule = partial(rule, family="convolution")

RULES = [
    rule(
        "turn-conv",
        conv(x, w, b),
        let(turned_back(conv, LHS), lambda back, c: back(c(exchange(x)(x), turned_kernel(conv, w), b))),
        where=exchange_pays(conv, x, w, LHS),
    ),
    rule(
        "conv-one-image", direct(x, w, b), let(one_image(direct, x, w, LHS), lambda back, n: back(direct(n(x), w, b)))
    ),
    rule("push-turn", m(conv(x, w, b)), let(turned(conv, x), lambda c, n: c(n(x), turned_kernel(conv, w), b))),
    rule("pull-turn", conv(m(x), w, b), let(turned_back(conv, LHS), lambda n, c: n(c(x, turned_kernel(conv, w), b)))),
    rule("push-turn-pool", m(pool(x)), let(turned(pool, x), lambda p, n: p(n(x)))),
    rule("pull-turn-pool", pool(m(x)), let(turned_back(pool, LHS), lambda n, p: n(p(x)))),
    rule("transpose-conv-phases", transposed(x, w, c), phases(transposed, x, w, c)(x)),
]
