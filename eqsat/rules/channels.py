"""Rules that turn ADD, SUB and MUL with a constant per channel into depthwise convolutions, which the NPU runs many
times as fast.

Such operators come from a BatchNorm that could not be folded, from a LayerScale, or from the scale and shift of a
LayerNorm.
Each of them is a RESCALE, one ADD, SUB or MUL, and another RESCALE.
The fact known(y) = k means that y is the constant k.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

from eqsat.egraph.attributes import Call, LeafValue
from eqsat.egraph.externs import extern
from eqsat.egraph.kinds import Binary, Constant, Rescale, Unary, Value, op
from eqsat.egraph.rule import rule
from eqsat.egraph.terms import LHS, fact, symbols
from eqsat.rules.chains import AsConvolution, Chain, convolution_of, exact_line, is_plain, varies_by_channel
from eqsat.tensor.ops import evaluate_op, infer
from eqsat.tensor.types import GraphError, Type

#: Operators that, with a constant, keep an affine function of x affine in each channel.
Arithmetic = Annotated[Call, op("add", "sub", "mul", name="arithmetic")]
#: Fact known(y): the constant that y is.
known = fact("known", Value, gives=Constant)


def _as_convolution(
    widen: Call, call: Call, constant: LeafValue, on_the_left: bool, narrow: Call, x: Type, t: Type
) -> AsConvolution | None:
    if not (is_plain(widen) and is_plain(narrow) and varies_by_channel(constant)):
        return None
    chain = Chain(()).then(widen).then(call, constant, on_the_left).then(narrow)
    return convolution_of(chain, x, t, exact_line)


@extern
def as_convolution(
    widen: Rescale, call: Arithmetic, constant: Constant, narrow: Rescale, x: Type, t: Type
) -> AsConvolution | None:
    """Returns narrow (call (widen x) constant) as a 1x1 depthwise convolution and its RESCALE, between views.

    Returns None if it finds no convolution that is exact for all 256 values.
    """
    return _as_convolution(widen, call, constant, False, narrow, x, t)


@extern
def as_convolution_left(
    widen: Rescale, call: Arithmetic, constant: Constant, narrow: Rescale, x: Type, t: Type
) -> AsConvolution | None:
    """Returns narrow (call constant (widen x)) as a 1x1 depthwise convolution and its RESCALE, between views.

    Returns None if it finds no convolution that is exact for all 256 values.
    """
    return _as_convolution(widen, call, constant, True, narrow, x, t)


@extern
def integral(constant: Constant) -> Constant | None:
    """Returns a constant if its dtype is INT8 or INT32, the dtypes of quantized values and of their sums."""
    return constant if constant.node.dtype in ("INT8", "INT32") else None


@extern
def result(call: Call, *constants: Constant) -> Constant | None:
    """Returns the result of an operator on constants.

    In most cases the operator is the RESCALE of an INT8 constant to the scale of its neighbour.
    """
    try:
        t = infer(call.op, call.attrs, [Type(k.node.shape, k.node.dtype) for k in constants])
        return LeafValue.constant(evaluate_op(call.op, call.attrs, [k.data for k in constants], t), t.dtype)
    except GraphError:
        return None


f, g, call = symbols("f", Unary), symbols("g", Binary), symbols("call", Arithmetic)
widen, narrow = symbols("widen narrow", Rescale)
x, y, z = symbols("x y z", Value)
k = symbols("k", Constant)
rule = partial(rule, family="channels")

RULES = [
    rule("channels-right", narrow(call(widen(x), y)), as_convolution(widen, call, known(y), narrow, x, LHS)(x)),
    rule("channels-left", narrow(call(y, widen(x))), as_convolution_left(widen, call, known(y), narrow, x, LHS)(x)),
    rule("known-leaf", known(k), integral(k)),
    rule("known-unary", known(f(y)), result(f, known(y))),
    rule("known-binary", known(g(y, z)), result(g, known(y), known(z))),
]
