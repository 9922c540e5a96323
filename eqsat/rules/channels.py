"""Rules that turn ADD, SUB and MUL with a constant per channel into depthwise convolutions, which the NPU runs many
times as fast.

Such operators come from a BatchNorm that could not be folded, from a LayerScale, or from the scale and shift of a
LayerNorm.
Each of them is a RESCALE, one ADD, SUB or MUL, and another RESCALE.
In each channel these three are a function of one INT8 value.
A convolution with one weight and one bias per channel, followed by its RESCALE, is such a function, too.
Both are evaluated for all 256 values to decide whether they give the same integers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eqsat.egraph.kinds import Call, ChannelRescale, Constant, DepthwiseConv2d, LeafValue, SignedRescale, Value
from eqsat.egraph.rule import rule
from eqsat.egraph.terms import LHS, extern, let, symbols
from eqsat.rules.quantized import Arithmetic, evaluate_table, integer_scale, known, real_scale
from eqsat.tensor import makers
from eqsat.tensor.movement import Move
from eqsat.tensor.ops import OPS, evaluate_op
from eqsat.tensor.types import DType, GraphError, Type

#: Every INT8 value, as a column [256, 1].
POINTS = np.arange(-128, 128)[:, None]
#: The largest INT8 weight, with which the bias, in the same unit, is finest.
_WEIGHT = 127
#: The fields of a `Line` with an element per channel.
_PER_CHANNEL = ("weight", "bias", "multiplier", "shift")
#: Bits of the magnitude of a bias, 2**28 at most; scales are large enough for that.
_BIAS_BITS = 28


class Chain(NamedTuple):
    """narrow (call (widen x) constant), where x is INT8; on_the_left: narrow (call constant (widen x))."""

    widen: Call
    call: Call
    constant: LeafValue
    narrow: Call
    on_the_left: bool = False

    def values(self) -> NDArray[Any]:
        """Returns the results for each INT8 value in each channel, [256, channels].

        Raises GraphError if an operator cannot be evaluated.
        """
        x = evaluate_table(self.widen, (POINTS.astype(np.int8), "INT8"))
        operands = x, (self.constant.data.reshape(1, -1), self.constant.node.dtype)
        return evaluate_table(self.narrow, evaluate_table(self.call, *operands[:: -1 if self.on_the_left else 1]))[0]

    def affine(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Returns slope and offset per channel in real numbers, without rounding and saturation."""
        value = self.constant.data.reshape(-1).astype(float)
        slope = np.broadcast_to(real_scale(self.widen), value.shape)
        offset = self.widen.attr("out_zp")[0] - self.widen.attr("in_zp")[0] * slope
        if self.call.op == "mul":
            value = value * 2.0 ** -self.call.attr("shift")[0]
            slope, offset = slope * value, offset * value
        elif self.call.op == "add":
            offset = offset + value
        else:
            slope, offset = (-slope, value - offset) if self.on_the_left else (slope, offset - value)
        scale = real_scale(self.narrow)
        return slope * scale, (offset - self.narrow.attr("in_zp")[0]) * scale + self.narrow.attr("out_zp")[0]


@dataclass(slots=True)
class Line:
    """The function round((weight * (x - in_zp) + bias) * multiplier * 2**-shift) + out_zp in each channel.

    A 1x1 convolution and its RESCALE compute it.
    Arrays have an element per channel.
    """

    in_zp: int
    out_zp: int
    weight: NDArray[Any]
    bias: NDArray[Any]
    multiplier: NDArray[Any]
    shift: NDArray[Any]

    @staticmethod
    def of(chain: Chain, weight: float = _WEIGHT) -> Line | None:
        """Returns the line nearest to the chain in real numbers, with weights up to `weight`.

        None if a channel needs a scale that RESCALE does not have.
        """
        slope, offset = chain.affine()
        in_zp, out_zp = chain.widen.attr("in_zp")[0], chain.narrow.attr("out_zp")[0]
        offset = offset + slope * in_zp - out_zp
        scale = np.maximum(np.maximum(np.abs(slope) / weight, np.abs(offset) * 2.0**-_BIAS_BITS), 2.0**-_BIAS_BITS)
        scales = [found for s in scale if (found := integer_scale(float(s)))]
        if len(scales) < len(scale):
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
        """Returns the RESCALE to INT8, with a scale per channel."""
        return Call(
            "rescale", makers.rescale("INT8", self.multiplier.tolist(), self.shift.tolist(), out_zp=self.out_zp)
        )

    def sums(self) -> NDArray[Any]:
        """Returns the sums of the convolution for every INT8 value in every channel, [256, channels]."""
        return np.asarray(((POINTS - self.in_zp) * self.weight + self.bias).astype(DType.of("INT32").storage))

    def values(self) -> NDArray[Any]:
        """Returns its values for every INT8 value in every channel, [256, channels]."""
        sums = self.sums()
        return evaluate_op("rescale", self.rescale().attrs, [sums], Type(sums.shape, "INT8"))

    def is_defined(self) -> bool:
        """Whether TOSA defines its RESCALE of all of its sums."""
        sums = self.sums()
        allowed = OPS["rescale"].allowed
        found = allowed(dict(self.rescale().attrs), [Type(sums.shape, "INT32")]) if allowed else {}
        return not any(a.why_not(sums) for a in found.values())

    def fit(self, wanted: NDArray[Any], bias: int) -> Line:
        """Returns the line with `bias` added, and with scales for the values `wanted` [256, channels].

        Each scale is in the middle of the interval that gives them.
        A channel without such an interval keeps its scale.
        """
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

    def at(self, channels: NDArray[Any]) -> Line:
        """Returns the line of some channels."""
        return replace(self, **{name: getattr(self, name)[channels] for name in _PER_CHANNEL})

    def put(self, channels: NDArray[Any], line: Line) -> None:
        """Sets the parameters of some channels to those of another line."""
        for name in _PER_CHANNEL:
            getattr(self, name)[channels] = getattr(line, name)


@lru_cache(maxsize=1024)
def exact_line(chain: Chain) -> Line | None:
    """Returns the Line that is defined and equals the chain for all 256 values of every channel, or None.

    Weights are tried from the largest down, each with the nearest bias and the two neighbours of that bias.
    Each of these pairs allows other scales.
    Each channel gets the first line that differs nowhere from the chain.
    Raises GraphError if an operator of the chain cannot be evaluated.
    """
    best = Line.of(chain)
    if best is None:
        return None
    values = chain.values()
    wrong = np.flatnonzero((best.values() != values).any(0))
    for weight, bias in ((w, b) for w in range(_WEIGHT, 0, -1) for b in (0, 1, -1)):
        line = Line.of(chain, weight)
        if not len(wrong) or line is None:
            break
        wanted = values[:, wrong]
        tried = line.at(wrong).fit(wanted, bias)
        right = (tried.values() == wanted).all(0)
        best.put(wrong[right], tried.at(np.flatnonzero(right)))
        wrong = wrong[~right]
    return best if not len(wrong) and best.is_defined() else None


@extern
def as_convolution(
    place: int, widen: SignedRescale, call: Arithmetic, constant: Constant, narrow: SignedRescale, x: Type
) -> tuple[Move, DepthwiseConv2d, LeafValue, LeafValue, ChannelRescale, Move] | None:
    """Returns a chain on x as a 1x1 depthwise convolution and its RESCALE, between views.

    place: the number of the operand that is constant.
    Returns None if it finds no convolution that is exact for all 256 values.
    """
    try:
        line = exact_line(Chain(widen, call, constant, narrow, place == 0))
    except GraphError:
        return None
    if line is None:
        return None
    shape = x.shape if len(x.shape) == 4 and x.shape[0] == 1 else (1, 1, prod(x.shape[:-1]), x.shape[-1])
    return (
        Move.reshape(x.shape, shape),
        Call("depthwise_conv2d", makers.conv("INT8", in_zp=line.in_zp)),
        LeafValue.constant(line.weight.reshape(1, 1, -1, 1), "INT8"),
        LeafValue.constant(line.bias, "INT32"),
        line.rescale(),
        Move.reshape(shape, x.shape),
    )


@extern
def spans_channels(constant: Constant, x: Type, t: Type) -> bool:
    """Tells whether a constant has one element for each of several channels of x, and x and t are INT8 of one shape."""
    return x == t and x.dtype == "INT8" and 1 < constant.data.size == constant.node.shape[-1] == x.shape[-1]


call = symbols("call", Arithmetic)
widen, narrow = symbols("widen narrow", SignedRescale)
x, y = symbols("x y", Value)
rule = partial(rule, family="channels")

RULES = [
    rule(
        f"channels-{side}",
        narrow(call(*operands)),
        let(
            as_convolution(place, widen, call, known(y), narrow, x),
            lambda view, conv, weights, bias, rescale, back: back(rescale(conv(view(x), weights, bias))),
        ),
        where=spans_channels(known(y), x, LHS),
    )
    for side, place, operands in (("right", 1, (widen(x), y)), ("left", 0, (y, widen(x))))
]
