"""Tolerant (opt-in): fewer roundings, so not the same integers, but nearer to what the model computes in real numbers.

No preset has these rules; `Options(numerics="tolerant")` adds them.
Each has a bound in steps of its own result, and checks it for each match.
A rewrite that could differ by more is not made.
Bounds of successive rewrites add up.
So the optimizer also measures the whole graph (`eqsat/verification/deviation.py`).

Successive ops with constants per channel (`Chain` of `eqsat/rules/chains.py`) round at each step.
One convolution in their place rounds once.
Its bound is computed for all 256 values of every channel.
Values for which an inner step saturates do not count.
The limits at which it saturates come from calibration, and the model in real numbers has none.
If the zero point of a step is a limit of its dtype, the step may be an activation (a ReLU folded into it).
Such a step must not saturate at all.
The fact chain(x, y) = c says that y = c(x).
"""

from __future__ import annotations

import math
from functools import lru_cache, partial

import numpy as np

from eqsat.egraph.externs import extern
from eqsat.egraph.kinds import ChannelRescale, Constant, Operator, Rescale, Value
from eqsat.egraph.rule import rule
from eqsat.egraph.terms import fact, symbols
from eqsat.rules.chains import (
    AsConvolution,
    Chain,
    Line,
    convolution_of,
    integer_scale,
    integers,
    is_plain,
    real_scale,
    varies_by_channel,
)
from eqsat.rules.channels import Arithmetic, known
from eqsat.tensor.dtypes import DType
from eqsat.tensor.ops.rescale import INEXACT_ROUND
from eqsat.tensor.types import Type

#: Largest difference between a rewrite and what it replaces, in steps of the result.
BOUND = 3
#: Fact chain(x, y) = c: y = c(x) in every element, where x is INT8 and c depends on the channel.
chain = fact("chain", Value, Value, gives=Chain)


@extern
def joined(g: Rescale, f: Operator, middle: Type) -> Operator | None:
    """Returns g after f as one RESCALE to INT8 or INT16, None if it could differ by more than `BOUND`.

    f rounds by half a step at most, which g scales; other roundings add one step at most.
    f may saturate where g does not yet, by no more than the bound.
    A RESCALE to INT32 is left alone, since it belongs to an operand of an elementwise op.
    From INT32 to INT32 a guard forbids a RESCALE on U55 (`eqsat/vela/defects.py`).
    """
    if not (is_plain(f) and is_plain(g)) or INEXACT_ROUND in (f.attr("rounding_mode"), g.attr("rounding_mode")):
        return None
    if (
        g.attr("per_channel")
        or not f.attr("scale32")
        or any(not DType.of(d).is_activation for d in (middle.dtype, g.attr("dtype")))
    ):
        return None
    scale = float(real_scale(g)[0])
    low, high = DType.of(g.attr("dtype")).limits
    ends = [(v - g.attr("in_zp")[0]) * scale + g.attr("out_zp")[0] for v in DType.of(middle.dtype).limits]
    if max(math.floor(scale / 2) + 1, math.ceil(ends[0] - low), math.ceil(high - ends[1])) > BOUND:
        return None
    zero = (f.attr("out_zp")[0] - g.attr("in_zp")[0]) * scale + g.attr("out_zp")[0]
    scales = [found for s in real_scale(f) if (found := integer_scale(s * scale))]
    if len(scales) < len(f.attr("multiplier")) or zero != round(zero) or not low <= zero <= high:
        return None
    multiplier, shift = zip(*scales, strict=True)
    return f.with_attrs(multiplier=multiplier, shift=shift, out_zp=(round(zero),), dtype=g.attr("dtype"))


# ---- chains -------------------------------------------------------------------------------------


@extern
def widened(call: Rescale, x: Type) -> Chain | None:
    """Returns the chain that begins with a RESCALE from INT8 to INT32."""
    return Chain(()).then(call) if is_plain(call) and (x.dtype, call.attr("dtype")) == ("INT8", "INT32") else None


@extern
def rescaled(call: Rescale, c: Chain) -> Chain | None:
    """Returns a chain with a RESCALE added.

    None for one to INT8 behind a chain without constants, since a convolution would gain nothing.
    """
    useful = is_plain(call) and (call.attr("dtype") == "INT32" or call.attr("dtype") == "INT8" and c.constants)
    return c.then(call) if useful else None


@extern
def with_constant(call: Arithmetic, c: Chain, constant: Constant) -> Chain | None:
    """Returns a chain with an op added whose right operand is a constant per channel."""
    return c.then(call, constant) if varies_by_channel(constant) else None


@extern
def with_constant_left(call: Arithmetic, c: Chain, constant: Constant) -> Chain | None:
    """Returns a chain with an op added whose left operand is a constant per channel."""
    return c.then(call, constant, on_the_left=True) if varies_by_channel(constant) else None


@lru_cache(maxsize=1024)
def tolerant_line(c: Chain) -> Line | None:
    """Returns the Line nearest to a chain in real numbers.

    None if it differs by more than `BOUND` from the chain's integers, for any INT8 value in any channel.
    Values for which an inner step saturates do not count.
    Raises GraphError if an op of the chain cannot be evaluated.
    """
    exact, line = integers(c), Line.of(c)
    if exact is None or line is None:
        return None
    return line if np.abs(line.values().astype(int) - exact[0])[~exact[1]].max(initial=0) <= BOUND else None


@extern
def as_convolution(c: Chain, x: Type, t: Type) -> AsConvolution | None:
    """Returns a chain with several constants as a 1x1 depthwise convolution and its RESCALE, between views.

    It is within the bound wherever no inner step saturates.
    """
    return convolution_of(c, x, t, tolerant_line) if len(c.constants) > 1 else None


f, g = symbols("f g", Rescale)
channels, call = symbols("channels", ChannelRescale), symbols("call", Arithmetic)
x, y, z = symbols("x y z", Value)
rule = partial(rule, family="tolerant")

RULES = [
    rule("rescale-rescale", g(f(x)), joined(g, f, f(x))(x)),
    rule("rescale-rescale-channels", g(channels(x)), joined(g, channels, channels(x))(x)),
    rule("channels-chain", y, as_convolution(chain(x, y), x, y)(x)),
    rule("chain-start", chain(x, f(x)), widened(f, x)),
    rule("chain-rescaled", chain(x, f(y)), rescaled(f, chain(x, y))),
    rule("chain-right", chain(x, call(y, z)), with_constant(call, chain(x, y), known(z))),
    rule("chain-left", chain(x, call(z, y)), with_constant_left(call, chain(x, y), known(z))),
]
