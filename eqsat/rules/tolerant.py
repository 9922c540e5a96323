"""Tolerant (opt-in): fewer roundings, so not the same integers, but nearer to what the model computes in real numbers.

These rules are in no preset; `Options(numerics="tolerant")` adds them. Each states its bound in steps of its own result and
checks it where it applies: a rewrite that could differ by more is not made. Bounds of rewrites that follow each other add
up, so the optimizer also measures the whole graph (`eqsat/search/deviation.py`).

Several ops with constants per channel in a row (`Chain` of `eqsat/rules/channels.py`) round at each step; one convolution rounds
once. Its bound is computed in all 256 points of every channel, and holds wherever no step inside saturates: those limits come from
calibration, the model in real numbers has none. A step whose zero point lies at an end of its dtype may be an activation (a ReLU
folded into it): it must not saturate at all. The fact (chain x t) = c says t = c(x).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from eqsat.egraph.attributes import Call, LeafValue
from eqsat.egraph.engine import Extern, Rule
from eqsat.rules.channels import Chain, Line, convolution_of, fits, integer_scale, integers, is_plain, real_scale
from eqsat.tensor.dtypes import DType
from eqsat.tensor.ops.rescale import INEXACT_ROUND
from eqsat.tensor.types import Type

#: The most steps of its result by which one rewrite may differ from what it replaces.
BOUND = 3


def _rescale_rescale(g: Call, f: Call, middle: Type):
    """g after f as one RESCALE, if f saturates where g does, or within the bound of it. Not to INT32: such a RESCALE is for an
    operand of an elementwise op, and from INT32 to INT32 it gives zeros on U55 (see `eqsat/vela/guards.py`)."""
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
    scales = [integer_scale(s * scale) for s in real_scale(f)]
    if None in scales or zero != round(zero) or not low <= zero <= high:
        return None
    multiplier, shift = zip(*scales, strict=True)
    return (f.with_attrs(multiplier=multiplier, shift=shift, out_zp=(round(zero),), dtype=g.attr("dtype")),)


# ---- chains -------------------------------------------------------------------------------------


def _start(call: Call, x: Type):
    return (
        (Chain(((call, None, False),)),)
        if is_plain(call) and (x.dtype, call.attr("dtype")) == ("INT8", "INT32")
        else None
    )


def _rescaled(call: Call, chain: Chain):
    """Without a constant so far there is nothing to gain by going on to INT8."""
    useful = is_plain(call) and (call.attr("dtype") == "INT32" or call.attr("dtype") == "INT8" and chain.constants)
    return (Chain((*chain.steps, (call, None, False))),) if useful else None


def _constant(left: bool):
    def follow(call: Call, chain: Chain, k: LeafValue):
        return (Chain((*chain.steps, (call, k, left))),) if fits(call, k) else None

    return follow


@lru_cache(maxsize=1024)
def tolerant_line(chain: Chain) -> Line | None:
    """The Line nearest to the chain in real numbers; None if it differs from its integers by more than BOUND in any channel for any
    of the 256 values that saturates nowhere inside."""
    exact, line = integers(chain), Line.of(chain)
    if exact is None or line is None:
        return None
    return line if np.abs(line.values().astype(int) - exact[0])[~exact[1]].max(initial=0) <= BOUND else None


def _chain_convolution(chain: Chain, x: Type, t: Type):
    return convolution_of(chain, x, t, tolerant_line) if len(chain.constants) > 1 else None


EXTERNS = [
    Extern("rescale_rescale", 3, 1, _rescale_rescale),
    Extern("chain_start", 2, 1, _start),
    Extern("chain_rescaled", 2, 1, _rescaled),
    Extern("chain_constant_left", 3, 1, _constant(True)),
    Extern("chain_constant_right", 3, 1, _constant(False)),
    Extern("chain_convolution", 3, 6, _chain_convolution),
]

R = Rule.of("tolerant")
RULES = [
    *(
        R(
            f"rescale-rescale{suffix}",
            f"rescale g (rescale f x) = rescale (g f) x,{where} to INT8 or INT16: within {BOUND} steps",
            ("(= t (P1 g y))", f"(= y ({made} f x))", "(= s (type y))"),
            f"(union t ({made} h x))",
            ("h", "rescale_rescale", "g f s"),
        )
        for suffix, where, made in (("", "", "P1"), ("-channels", " f per channel,", "Ax"))
    ),
    R(
        "channels-chain",
        f"a chain of ADD, SUB, MUL with constants per channel = rescale (depthwise 1x1 x): within {BOUND} steps where no step "
        "inside saturates",
        ("(= c (chain x t))", "(= s (type x))", "(= u (type t))"),
        "(union t (Move q (Ax r (M3 d (Move p x) (Leaf w) (Leaf b)))))",
        ("p d w b r q", "chain_convolution", "c s u"),
    ),
    R(
        "chain-start",
        "an INT8 value widened",
        ("(= t (P1 f x))", "(= s (type x))"),
        "(set (chain x t) c)",
        ("c", "chain_start", "f s"),
        analysis=True,
    ),
    R(
        "chain-rescaled",
        "rescale c(x)",
        ("(= u (P1 f t))", "(= c (chain x t))"),
        "(set (chain x u) d)",
        ("d", "chain_rescaled", "f c"),
        analysis=True,
    ),
    R(
        "chain-right",
        "f c(x) k for a constant k",
        ("(= u (P2 f t y))", "(= c (chain x t))", "(= k (known y))"),
        "(set (chain x u) d)",
        ("d", "chain_constant_right", "f c k"),
        analysis=True,
    ),
    R(
        "chain-left",
        "f k c(x)",
        ("(= u (P2 f y t))", "(= c (chain x t))", "(= k (known y))"),
        "(set (chain x u) d)",
        ("d", "chain_constant_left", "f c k"),
        analysis=True,
    ),
]
