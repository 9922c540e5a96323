"""Convolutions: height and width exchanged, several in one, and the transposed one as plain ones.

A convolution knows H from W only by the order of its kernel's axes, so both may be exchanged.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import numpy as np

from eqsat.egraph.attributes import Call, LeafValue
from eqsat.egraph.externs import extern
from eqsat.egraph.kinds import (
    ChannelRescale,
    Concat,
    Constant,
    Conv2d,
    Convolution,
    Pool,
    Rescale,
    TransposeConv2d,
    Value,
    Values,
    such,
)
from eqsat.egraph.rule import Rule, rule
from eqsat.egraph.terms import LHS, let, symbols, typed
from eqsat.tensor import makers
from eqsat.tensor.dtypes import DType
from eqsat.tensor.movement import Move
from eqsat.tensor.types import Shape, Type, attrs_of

#: Rows of the kernel of a transposed convolution that becomes as many convolutions.
_PHASES = 2

# ---- height and width exchanged ---------------------------------------------------------------------

_PAIRS = ("stride", "dilation", "kernel")
_KERNEL_AXES = {"conv2d": (0, 2, 1, 3), "depthwise_conv2d": (1, 0, 2, 3), "transpose_conv2d": (0, 2, 1, 3)}


def _exchange(shape: Shape) -> Move:
    return Move.transpose(shape, (0, 2, 1, 3))


#: A movement that exchanges H and W, and is no view.
Exchange = Annotated[
    Move, such("exchange", Move, lambda m: len(m.in_shape) == 4 and not m.is_view and m == _exchange(m.in_shape))
]


def _exchanged(call: Call) -> Call:
    attrs = dict(call.attrs)
    swapped = {k: (attrs[k][1], attrs[k][0]) for k in _PAIRS if k in attrs}
    swapped |= {k: (*attrs[k][2:], *attrs[k][:2]) for k in ("pad", "out_pad") if k in attrs}
    return call.with_attrs(**swapped)


def _exchanged_kernel(call: Call, w: LeafValue) -> LeafValue:
    return LeafValue.constant(w.data.transpose(_KERNEL_AXES[call.op]), w.node.dtype)


def _is_one_tap(call: Call, weights: Shape) -> bool:
    return (weights[:2] if call.op == "depthwise_conv2d" else weights[1:3]) == (1, 1)


@extern
def exchanged_both(
    call: Convolution, x: Type, w: Constant, t: Type
) -> tuple[Move, Convolution, LeafValue, Move] | None:
    """t = call x w with H and W exchanged, offered where exchanging costs nothing and the kernel has several taps in a row."""
    before, after = _exchange(x.shape), _exchange(t.shape)
    is_free = before.is_view and after.is_view and x.shape[1] != x.shape[2]
    if not is_free or _is_one_tap(call, w.data.shape):
        return None
    return before, _exchanged(call), _exchanged_kernel(call, w), after.inverse()


@extern
def exchanged_operand(call: Convolution, x: Type, w: Constant) -> tuple[Convolution, Move, LeafValue]:
    """exchange (call x w): the convolution, the exchange of x and the kernel."""
    return _exchanged(call), _exchange(x.shape), _exchanged_kernel(call, w)


@extern
def exchanged_result(call: Convolution, w: Constant, t: Type) -> tuple[Move, Convolution, LeafValue]:
    """t = call (exchange x) w: the exchange of the result, the convolution and the kernel."""
    return _exchange(_exchange(t.shape).out_shape), _exchanged(call), _exchanged_kernel(call, w)


@extern
def exchanged_pool_operand(pool: Pool, x: Type) -> tuple[Pool, Move]:
    """exchange (pool x): the pool and the exchange of x."""
    return _exchanged(pool), _exchange(x.shape)


@extern
def exchanged_pool_result(pool: Pool, t: Type) -> tuple[Move, Pool]:
    """t = pool (exchange x): the exchange of the result and the pool."""
    return _exchange(_exchange(t.shape).out_shape), _exchanged(pool)


# ---- transposed convolution ---------------------------------------------------------------------


@extern
def phases(
    call: TransposeConv2d, x: Type, w: Constant, b: Constant
) -> tuple[Conv2d, LeafValue, LeafValue, LeafValue, Concat, Type, Move] | None:
    """TRANSPOSE_CONV2D whose kernel is its stride: each output row of a pixel is a 1x1 convolution with the columns as channels,
    and rows laid beside each other along W are rows below each other. One convolution per output row, at most `_PHASES`."""
    oc, kh, kw, ic = w.data.shape
    n, height, width, _ = x.shape
    if any(call.attr("out_pad")) or x.dtype != "INT8" or (kh, kw) != call.attr("stride") or kh != _PHASES:
        return None
    conv = Call("conv2d", makers.conv("INT8", in_zp=call.attr("in_zp")[0], w_zp=call.attr("w_zp")[0]))
    bias = LeafValue.constant(np.tile(np.broadcast_to(b.data, (oc,)), kw), b.node.dtype)
    first, second = (
        LeafValue.constant(w.data[:, k].transpose(1, 0, 2).reshape(kw * oc, 1, 1, ic), w.node.dtype) for k in range(kh)
    )
    joined = (n, height, kh * width, kw * oc)
    return (
        conv,
        bias,
        first,
        second,
        Call("concat", attrs_of({"axis": 2})),
        Type(joined, DType.of(x.dtype).accumulator),
        Move.reshape(joined, (n, kh * height, kw * width, oc)),
    )


# ---- one convolution for several ----------------------------------------------------------------


@extern
def joint_weights(
    concat: Concat, v: Constant, w: Constant, b: Constant, d: Constant
) -> tuple[LeafValue, LeafValue] | None:
    """Weights and bias of two convolutions over one input, concatenated along the output channels."""
    if concat.attr("axis") != 3 or v.data.shape[1:] != w.data.shape[1:] or v.node.dtype != w.node.dtype:
        return None
    biases = [np.broadcast_to(bias.data, weights.data.shape[:1]) for bias, weights in ((b, v), (d, w))]
    return LeafValue.constant(np.concatenate([v.data, w.data]), v.node.dtype), LeafValue.constant(
        np.concatenate(biases), b.node.dtype
    )


def _per_channel(call: Call, x: Type, name: str) -> tuple[int, ...]:
    values: tuple[int, ...] = call.attr(name)
    return values if call.attr("per_channel") else values * x.shape[-1]


@extern
def joint_rescale(concat: Concat, r: Call, s: Call, x: Type, y: Type) -> tuple[ChannelRescale, Type] | None:
    """concat of two RESCALEs = one RESCALE per channel of the concat, of that type."""
    if concat.attr("axis") != len(x.shape) - 1 or x.dtype != "INT32":
        return None
    if x.shape[:-1] != y.shape[:-1] or y.dtype != x.dtype:
        return None
    scales = {name: (*_per_channel(r, x, name), *_per_channel(s, y, name)) for name in ("multiplier", "shift")}
    if r.with_attrs(per_channel=True, **scales) != s.with_attrs(per_channel=True, **scales):
        return None
    return r.with_attrs(per_channel=True, **scales), Type((*x.shape[:-1], x.shape[-1] + y.shape[-1]), x.dtype)


m, pool = symbols("m", Exchange), symbols("pool", Pool)
f, conv, deconv = symbols("f", Convolution), symbols("conv", Conv2d), symbols("deconv", TransposeConv2d)
x, y, bias = symbols("x y bias", Value)
v, w, b, d = symbols("v w b d", Constant)
xs, concat = symbols("xs", Values), symbols("concat", Concat)
rule = partial(rule, family="convolution")
#: Names of rules on RESCALEs, and what RESCALEs they are about: with a scale per channel, or with one.
_RESCALES = {"Ax": ChannelRescale, "P1": Rescale}


def _concat_rescale(name: str, first: Any, second: Any) -> Rule:
    r, s = symbols("r", first), symbols("s", second)
    return rule(
        name,
        concat(xs[..., r(x), s(y), ...]),
        let(joint_rescale(concat, r, s, x, y), lambda joint, t: concat(xs[..., joint(typed(concat([x, y]), t)), ...])),
    )


RULES = [
    rule(
        "turn-conv",
        f(x, w, bias),
        let(exchanged_both(f, x, w, LHS), lambda before, g, v, after: after(g(before(x), v, bias))),
    ),
    rule(
        "push-turn",
        m(f(x, w, bias)),
        let(exchanged_operand(f, x, w), lambda g, before, v: g(before(x), v, bias)),
    ),
    rule(
        "pull-turn",
        f(m(x), w, bias),
        let(exchanged_result(f, w, LHS), lambda after, g, v: after(g(x, v, bias))),
    ),
    rule("push-turn-pool", m(pool(x)), let(exchanged_pool_operand(pool, x), lambda p, before: p(before(x)))),
    rule("pull-turn-pool", pool(m(x)), let(exchanged_pool_result(pool, LHS), lambda after, p: after(p(x)))),
    rule(
        "transpose-conv-phases",
        deconv(x, w, b),
        let(
            phases(deconv, x, w, b),
            lambda g, d, v, u, c, t, after: after(typed(c([g(x, v, d), g(x, u, d)]), t)),
        ),
    ),
    rule(
        "concat-conv",
        concat(xs[..., conv(x, v, b), conv(x, w, d), ...]),
        let(joint_weights(concat, v, w, b, d), lambda u, e: concat(xs[..., conv(x, u, e), ...])),
    ),
    *(_concat_rescale(f"concat-rescale-{a}-{b}", _RESCALES[a], _RESCALES[b]) for a in _RESCALES for b in _RESCALES),
]
