"""Constants per channel: ADD, SUB and MUL with them as depthwise convolutions, which the NPU does many times as fast.

A BatchNorm that could not be folded, a LayerScale or the scale and shift of a LayerNorm come as RESCALE, one such op, RESCALE. In
each channel that is a function of one INT8 value, so whether a convolution with one weight and one bias per channel gives the same
integers is decided by evaluating both in all 256 points. `Chain` holds several such steps, for the tolerant rules.
The fact (known t) = k says t is the constant k.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from eqsat.egraph.attributes import Call, LeafValue
from eqsat.egraph.engine import Extern, Rule
from eqsat.tensor.dtypes import DType
from eqsat.tensor.movement import Move
from eqsat.tensor.ops import evaluate_op, infer
from eqsat.tensor.ops.rescale import SINGLE_ROUND
from eqsat.tensor.types import GraphError, Type, attrs_of

POINTS = np.arange(-128, 128)[:, None]
#: The largest weight: with it the bias, in the same unit, is finest.
_WEIGHT = 127
#: A bias stays below 2**28: a scale is made as large as that takes.
_BIAS_BITS = 28


# ---- scales -------------------------------------------------------------------------------------


def real_scale(call: Call) -> np.ndarray:
    """What a RESCALE multiplies by, per channel if it has several scales."""
    return np.array(call.attr("multiplier"), float) * 2.0 ** -np.array(call.attr("shift"), float)


def integer_scale(scale: float) -> tuple[int, int] | None:
    """(multiplier, shift) with multiplier * 2**-shift nearest to `scale` > 0, the multiplier of 31 bits as in TOSA's RESCALE."""
    mantissa, exponent = math.frexp(scale)
    multiplier = round(mantissa * 2**31)
    if multiplier == 2**31:
        multiplier, exponent = 2**30, exponent + 1
    return (multiplier, 31 - exponent) if 2 <= 31 - exponent <= 62 else None


def is_plain(call: Call) -> bool:
    """A RESCALE of signed values."""
    return call.op == "rescale" and not (call.attr("input_unsigned") or call.attr("output_unsigned"))


# ---- chains -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Chain:
    """Steps from an INT8 value: (op, its constant, whether that is the left operand); RESCALEs have none."""

    steps: tuple[tuple[Call, LeafValue | None, bool], ...]

    @property
    def constants(self) -> list[LeafValue]:
        return [k for _, k, _ in self.steps if k is not None]

    @property
    def channels(self) -> int:
        return max((k.node.shape[-1] for k in self.constants), default=1)


def fits(call: Call, k: LeafValue) -> bool:
    """Whether `call` with the constant k can be a step: k varies along the last axis at most."""
    return call.op in ("add", "sub", "mul") and prod(k.node.shape[:-1]) == 1


def _values(k: LeafValue) -> np.ndarray:
    return k.node.attr("value").data.reshape(1, -1)


@lru_cache(maxsize=1024)
def integers(chain: Chain) -> tuple[np.ndarray, np.ndarray] | None:
    """(what the chain makes of each INT8 value in each channel, where a step inside saturates), both [256, channels]; None if a
    step saturates whose zero point lies at an end of its dtype: that may be an activation. Raises GraphError."""
    x, dtype = np.repeat(POINTS, chain.channels, 1).astype(np.int8), "INT8"
    saturated = np.zeros(x.shape, bool)
    for n, (call, k, left) in enumerate(chain.steps):
        xs = [x] if k is None else [_values(k), x] if left else [x, _values(k)]
        dtypes = [dtype] if k is None else [k.node.dtype, dtype] if left else [dtype, k.node.dtype]
        t = infer(call.op, call.attrs, [Type(v.shape, d) for v, d in zip(xs, dtypes, strict=True)])
        x, dtype = evaluate_op(call.op, call.attrs, xs, t), t.dtype
        if call.op == "rescale" and n < len(chain.steps) - 1:
            at_limit = np.isin(x, DType.of(dtype).limits)
            if at_limit.any() and call.attr("out_zp")[0] in DType.of(dtype).limits:
                return None
            saturated |= at_limit
    return x, saturated


def affine(chain: Chain) -> tuple[np.ndarray, np.ndarray]:
    """(slope, offset) per channel of the chain in real numbers, without rounding and saturation."""
    slope, offset = np.ones(chain.channels), np.zeros(chain.channels)
    for call, k, left in chain.steps:
        if k is None:
            scale = real_scale(call)
            slope, offset = slope * scale, (offset - call.attr("in_zp")[0]) * scale + call.attr("out_zp")[0]
            continue
        value = _values(k)[0].astype(float)
        if call.op == "mul":
            value = value * 2.0 ** -call.attr("shift")[0]
            slope, offset = slope * value, offset * value
        elif call.op == "add":
            offset = offset + value
        else:
            slope, offset = (-slope, value - offset) if left else (slope, offset - value)
    return slope, offset


# ---- a chain as a convolution -------------------------------------------------------------------


@dataclass(slots=True)
class Line:
    """round((weight * (x - in_zp) + bias) * multiplier * 2**-shift) + out_zp in each channel: a convolution 1x1 and its RESCALE."""

    in_zp: int
    out_zp: int
    weight: np.ndarray
    bias: np.ndarray
    multiplier: np.ndarray
    shift: np.ndarray

    @staticmethod
    def of(chain: Chain, weight: float = _WEIGHT) -> Line | None:
        """What comes nearest to the chain in real numbers with weights up to `weight`, or None if no scale does it."""
        slope, offset = affine(chain)
        in_zp, out_zp = chain.steps[0][0].attr("in_zp")[0], chain.steps[-1][0].attr("out_zp")[0]
        offset = offset + slope * in_zp - out_zp
        scale = np.maximum(np.maximum(np.abs(slope) / weight, np.abs(offset) * 2.0**-_BIAS_BITS), 2.0**-_BIAS_BITS)
        scales = [integer_scale(float(s)) for s in scale]
        if None in scales:
            return None
        multiplier, shift = (np.array(v) for v in zip(*scales, strict=True))
        return Line(
            in_zp,
            out_zp,
            np.rint(slope / scale).astype(np.int64),
            np.rint(offset / scale).astype(np.int64),
            multiplier,
            shift,
        )

    def rescale(self) -> Call:
        return Call(
            "rescale",
            attrs_of(
                {
                    "multiplier": tuple(self.multiplier.tolist()),
                    "shift": tuple(self.shift.tolist()),
                    "in_zp": (0,),
                    "out_zp": (self.out_zp,),
                    "dtype": "INT8",
                    "scale32": True,
                    "rounding_mode": SINGLE_ROUND,
                    "per_channel": True,
                    "input_unsigned": False,
                    "output_unsigned": False,
                }
            ),
        )

    def values(self) -> np.ndarray:
        """Of every INT8 value in every channel, [256, channels]."""
        sums = ((POINTS - self.in_zp) * self.weight + self.bias).astype(DType.of("INT32").storage)
        return evaluate_op("rescale", self.rescale().attrs, [sums], Type(sums.shape, "INT8"))

    def fitted(self, wanted: np.ndarray, bias: int) -> Line:
        """With `bias` added, and each scale in the middle of those that give the `wanted` values, where there are any."""
        line = Line(self.in_zp, self.out_zp, self.weight, self.bias + bias, self.multiplier.copy(), self.shift.copy())
        sums, y = (POINTS - self.in_zp) * line.weight + line.bias, wanted.astype(float) - self.out_zp
        least, most = np.where(wanted == -128, -np.inf, y - 0.5), np.where(wanted == 127, np.inf, y + 0.5)
        with np.errstate(divide="ignore", invalid="ignore"):
            low = np.where(sums == 0, 0, np.where(sums > 0, least, most) / sums).max(0)
            high = np.where(sums == 0, np.inf, np.where(sums > 0, most, least) / sums).min(0)
        for c in np.flatnonzero((low < high) & np.isfinite(high)):
            if found := integer_scale(float(low[c] + high[c]) / 2):
                line.multiplier[c], line.shift[c] = found
        return line

    def at(self, channels: np.ndarray) -> Line:
        """The line of some channels."""
        return Line(
            self.in_zp,
            self.out_zp,
            self.weight[channels],
            self.bias[channels],
            self.multiplier[channels],
            self.shift[channels],
        )

    def put(self, channels: np.ndarray, line: Line) -> None:
        """Takes another line's parameters in some channels."""
        for name in ("weight", "bias", "multiplier", "shift"):
            getattr(self, name)[channels] = getattr(line, name)

    def convolution(self) -> tuple[Call, LeafValue, LeafValue, Call]:
        """(DEPTHWISE_CONV2D, weights, bias, RESCALE)."""
        conv = Call(
            "depthwise_conv2d",
            attrs_of(
                {
                    "pad": (0, 0, 0, 0),
                    "stride": (1, 1),
                    "dilation": (1, 1),
                    "local_bound": False,
                    "acc_type": 5,
                    "in_zp": (self.in_zp,),
                    "w_zp": (0,),
                }
            ),
        )
        return (
            conv,
            LeafValue.constant(self.weight.reshape(1, 1, -1, 1), "INT8"),
            LeafValue.constant(self.bias, "INT32"),
            self.rescale(),
        )


@lru_cache(maxsize=1024)
def exact_line(chain: Chain) -> Line | None:
    """The Line that equals the chain in all 256 points of every channel. Weights are tried from the largest down, with the biases
    next to the nearest one: with each the scales that serve are others. Channel by channel the first that leaves no difference is taken."""
    known, best = integers(chain), Line.of(chain)
    if known is None or best is None:
        return None
    wrong = np.flatnonzero((best.values() != known[0]).any(0))
    for weight, bias in ((w, b) for w in range(_WEIGHT, 0, -1) for b in (0, 1, -1)):
        line = Line.of(chain, weight)
        if not len(wrong) or line is None:
            break
        wanted = known[0][:, wrong]
        tried = line.at(wrong).fitted(wanted, bias)
        right = (tried.values() == wanted).all(0)
        best.put(wrong[right], tried.at(np.flatnonzero(right)))
        wrong = wrong[~right]
    return None if len(wrong) else best


def as_convolution(line: Line, x: Type, t: Type) -> tuple[Move, Call, LeafValue, LeafValue, Call, Move]:
    """(view of x as [1, height, width, channels], convolution, weights, bias, RESCALE, view back)."""
    shape = x.shape if len(x.shape) == 4 and x.shape[0] == 1 else (1, 1, prod(x.shape[:-1]), x.shape[-1])
    return Move.reshape(x.shape, shape), *line.convolution(), Move.reshape(shape, t.shape)


def spans_channels(chain: Chain, x: Type, t: Type) -> bool:
    """Whether the chain's constants vary along all channels of x, and leads to INT8 of its shape."""
    return (
        (x.dtype, t.dtype) == ("INT8", "INT8")
        and x.shape == t.shape
        and bool(x.shape)
        and 1 < chain.channels == x.shape[-1]
    )


def convolution_of(chain: Chain, x: Type, t: Type, line: Callable[[Chain], Line | None]):
    """The chain from x to t as a convolution, by a `line` that may not exist."""
    if not spans_channels(chain, x, t):
        return None
    try:
        found = line(chain)
    except GraphError:
        return None
    return None if found is None else as_convolution(found, x, t)


def _one_op(left: bool):
    def convolution(widen: Call, call: Call, k: LeafValue, narrow: Call, x: Type, t: Type):
        if not (is_plain(widen) and is_plain(narrow) and fits(call, k)):
            return None
        return convolution_of(Chain(((widen, None, False), (call, k, left), (narrow, None, False))), x, t, exact_line)

    return convolution


# ---- constants ----------------------------------------------------------------------------------


def _known(leaf: LeafValue):
    return (leaf,) if leaf.is_const and leaf.node.dtype in ("INT8", "INT32") else None


def _known_result(call: Call, *ks: LeafValue):
    """A pointwise op of constants: mostly the RESCALE of an INT8 constant to the scale of its neighbour."""
    try:
        t = infer(call.op, call.attrs, [Type(k.node.shape, k.node.dtype) for k in ks])
        return (
            LeafValue.constant(evaluate_op(call.op, call.attrs, [k.node.attr("value").data for k in ks], t), t.dtype),
        )
    except GraphError:
        return None


EXTERNS = [
    Extern("known_leaf", 1, 1, _known),
    Extern("known_unary", 2, 1, _known_result),
    Extern("known_binary", 3, 1, _known_result),
    Extern("constant_right", 6, 6, _one_op(False)),
    Extern("constant_left", 6, 6, _one_op(True)),
]

F = "channels"
RULES = [
    *(
        Rule(
            f"channels-{side}",
            F,
            f"rescale ({op}) = rescale' (depthwise 1x1 x), k a constant per channel, where that is exact in all 256 points",
            (f"(= t (P1 g (P2 f {operands})))", "(= k (known y))", "(= s (type x))", "(= u (type t))"),
            ("(union t (Move q (Ax r (M3 d (Move p x) (Leaf w) (Leaf b)))))",),
            (("p d w b r q", f"constant_{side}", "e f k g s u"),),
        )
        for side, op, operands in (
            ("right", "ADD|SUB|MUL (rescale x) k", "(P1 e x) y"),
            ("left", "ADD|SUB|MUL k (rescale x)", "y (P1 e x)"),
        )
    ),
    Rule(
        "known-leaf",
        F,
        "a constant",
        ("(= t (Leaf k))",),
        ("(set (known t) v)",),
        (("v", "known_leaf", "k"),),
        analysis=True,
    ),
    Rule(
        "known-unary",
        F,
        "f of a constant",
        ("(= t (P1 f y))", "(= k (known y))"),
        ("(set (known t) v)",),
        (("v", "known_unary", "f k"),),
        analysis=True,
    ),
    Rule(
        "known-binary",
        F,
        "f of two constants",
        ("(= t (P2 f y z))", "(= k (known y))", "(= l (known z))"),
        ("(set (known t) v)",),
        (("v", "known_binary", "f k l"),),
        analysis=True,
    ),
]
