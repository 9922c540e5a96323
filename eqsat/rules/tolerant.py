"""Tolerant (opt-in): fewer roundings, so not the same integers, but nearer to what the model computes in real numbers.

These rules are in no preset; `Options(numerics="tolerant")` adds them. Each states its bound in steps of its own result
and checks it where it applies: a rewrite that could differ by more is not made. Bounds of rewrites that follow each
other add up, so the optimizer also measures the whole graph (`eqsat/verification/deviation.py`).

Several ops with constants per channel in a row (`Chain` of `eqsat/rules/chains.py`) round at each step; one convolution
rounds once. Its bound is computed in all 256 points of every channel, and holds wherever no step inside saturates:
those limits come from calibration, the model in real numbers has none. A step whose zero point lies at an end of its
dtype may be an activation (a ReLU folded into it): it must not saturate at all. The fact chain(x, y) = c says y = c(x).
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

#: The most steps of its result by which one rewrite may differ from what it replaces.
BOUND = 3
#: y = c(x) in every element, c given per channel, x INT8.
chain = fact("chain", Value, Value, gives=Chain)


@extern
def joined(g: Rescale, f: Operator, middle: Type) -> Operator | None:
    """g after f as one RESCALE to INT8 or INT16, if f saturates where g does, or within the bound of it. Not to INT32:
    such a RESCALE is for an operand of an elementwise op, and from INT32 to INT32 a guard forbids it on U55
    (`eqsat/vela/defects.py`)."""
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
    """An INT8 value widened: where a chain begins."""
    return Chain(()).then(call) if is_plain(call) and (x.dtype, call.attr("dtype")) == ("INT8", "INT32") else None


@extern
def rescaled(call: Rescale, c: Chain) -> Chain | None:
    """A chain and a RESCALE. Without a constant so far there is nothing to gain by going on to INT8."""
    useful = is_plain(call) and (call.attr("dtype") == "INT32" or call.attr("dtype") == "INT8" and c.constants)
    return c.then(call) if useful else None


@extern
def with_constant(call: Arithmetic, c: Chain, constant: Constant) -> Chain | None:
    """A chain and an op with a constant on the right."""
    return c.then(call, constant) if varies_by_channel(constant) else None


@extern
def with_constant_left(call: Arithmetic, c: Chain, constant: Constant) -> Chain | None:
    """A chain and an op with a constant on the left."""
    return c.then(call, constant, on_the_left=True) if varies_by_channel(constant) else None


@lru_cache(maxsize=1024)
def tolerant_line(c: Chain) -> Line | None:
    """The Line nearest to the chain in real numbers; None if it differs from its integers by more than BOUND in any
    channel for any of the 256 values that saturates nowhere inside."""
    exact, line = integers(c), Line.of(c)
    if exact is None or line is None:
        return None
    return line if np.abs(line.values().astype(int) - exact[0])[~exact[1]].max(initial=0) <= BOUND else None


@extern
def as_convolution(c: Chain, x: Type, t: Type) -> AsConvolution | None:
    """A chain with several constants as a depthwise convolution 1x1 and its RESCALE between views, within the bound
    where no step inside saturates."""
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
