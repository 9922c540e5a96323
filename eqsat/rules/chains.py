"""Chains of operators with constants per channel, and the convolution that gives the same results for an INT8 value.

In each channel a chain is a function of one INT8 value.
A convolution with one weight and one bias per channel, followed by its RESCALE, is such a function, too.
Both are evaluated for all 256 values to decide whether they give the same integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eqsat.egraph.attributes import Call, LeafValue
from eqsat.egraph.kinds import ChannelRescale, DepthwiseConv2d
from eqsat.tensor import makers
from eqsat.tensor.dtypes import DType
from eqsat.tensor.movement import Move
from eqsat.tensor.ops import evaluate_op, infer
from eqsat.tensor.types import GraphError, Type

#: Every INT8 value, as a column [256, 1].
POINTS = np.arange(-128, 128)[:, None]
#: The largest INT8 weight, with which the bias, in the same unit, is finest.
_WEIGHT = 127
#: The fields of a `Line` with an element per channel.
_PER_CHANNEL = ("weight", "bias", "multiplier", "shift")
#: Bits of the magnitude of a bias, 2**28 at most; scales are large enough for that.
_BIAS_BITS = 28


class AsConvolution(NamedTuple):
    """A view of x as [1, height, width, channels], a convolution with its constants, its RESCALE, and the view back."""

    view: Move
    conv: DepthwiseConv2d
    weights: LeafValue
    bias: LeafValue
    rescale: ChannelRescale
    back: Move

    def graph(self: Any, x: Any) -> Any:
        """Builds this small graph on x."""
        return self.back(self.rescale(self.conv(self.view(x), self.weights, self.bias)))


# ---- scales -------------------------------------------------------------------------------------


def real_scale(call: Call) -> NDArray[Any]:
    """Returns the factors of a RESCALE, an array with one per channel or one for all."""
    scales: NDArray[Any] = np.array(call.attr("multiplier"), float) * 2.0 ** -np.array(call.attr("shift"), float)
    return scales


def integer_scale(scale: float) -> tuple[int, int] | None:
    """Returns (multiplier, shift) with multiplier * 2**-shift nearest to `scale`, which is above 0.

    The multiplier has 31 bits (TOSA 1.0, RESCALE).
    None if the shift is not from 2 to 62.
    """
    mantissa, exponent = math.frexp(scale)
    multiplier = round(mantissa * 2**31)
    if multiplier == 2**31:
        multiplier, exponent = 2**30, exponent + 1
    return (multiplier, 31 - exponent) if 2 <= 31 - exponent <= 62 else None


def is_plain(call: Call) -> bool:
    """Tells whether an operator is a RESCALE of signed values to signed values."""
    return call.op == "rescale" and not (call.attr("input_unsigned") or call.attr("output_unsigned"))


# ---- chains -------------------------------------------------------------------------------------


class Step(NamedTuple):
    """An operator of a chain.

    constant: its constant operand; a RESCALE has none.
    on_the_left: whether the constant is the left operand.
    """

    call: Call
    constant: LeafValue | None
    on_the_left: bool


@dataclass(frozen=True, slots=True)
class Chain:
    """Successive operators on an INT8 value."""

    steps: tuple[Step, ...]

    def then(self, call: Call, constant: LeafValue | None = None, on_the_left: bool = False) -> Chain:
        """Returns the chain with one more step."""
        return Chain((*self.steps, Step(call, constant, on_the_left)))

    @property
    def constants(self) -> list[LeafValue]:
        """The constant operands of its steps, in order."""
        return [s.constant for s in self.steps if s.constant is not None]

    @property
    def channels(self) -> int:
        """The largest number of channels of its constants, 1 if it has none."""
        return max((constant.node.shape[-1] for constant in self.constants), default=1)


def varies_by_channel(constant: LeafValue) -> bool:
    """Tells whether a constant varies along no axis but the last one."""
    return prod(constant.node.shape[:-1]) == 1


def _values(constant: LeafValue) -> NDArray[Any]:
    values: NDArray[Any] = constant.data.reshape(1, -1)
    return values


@lru_cache(maxsize=1024)
def integers(chain: Chain) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Returns the results of the chain for each INT8 value in each channel, and where an inner RESCALE saturates.

    Both are arrays [256, channels].
    Returns None if an inner RESCALE saturates whose zero point is a limit of its dtype, since that may be an
    activation.
    Raises GraphError if an operator cannot be evaluated.
    """
    x, dtype = np.repeat(POINTS, chain.channels, 1).astype(np.int8), "INT8"
    saturated = np.zeros(x.shape, bool)
    for n, (call, constant, on_the_left) in enumerate(chain.steps):
        operands = [(x, dtype)]
        if constant is not None:
            operands.insert(0 if on_the_left else 1, (_values(constant), constant.node.dtype))
        t = infer(call.op, call.attrs, [Type(values.shape, d) for values, d in operands])
        x, dtype = evaluate_op(call.op, call.attrs, [values for values, _ in operands], t), t.dtype
        if call.op == "rescale" and n < len(chain.steps) - 1:
            at_limit = np.isin(x, DType.of(dtype).limits)
            if at_limit.any() and call.attr("out_zp")[0] in DType.of(dtype).limits:
                return None
            saturated |= at_limit
    return x, saturated


def affine(chain: Chain) -> tuple[NDArray[Any], NDArray[Any]]:
    """Returns slope and offset per channel of the chain in real numbers, without rounding and saturation."""
    slope, offset = np.ones(chain.channels), np.zeros(chain.channels)
    for call, constant, on_the_left in chain.steps:
        if constant is None:
            scale = real_scale(call)
            slope, offset = slope * scale, (offset - call.attr("in_zp")[0]) * scale + call.attr("out_zp")[0]
            continue
        value = _values(constant)[0].astype(float)
        if call.op == "mul":
            value = value * 2.0 ** -call.attr("shift")[0]
            slope, offset = slope * value, offset * value
        elif call.op == "add":
            offset = offset + value
        else:
            slope, offset = (-slope, value - offset) if on_the_left else (slope, offset - value)
    return slope, offset


# ---- a chain as a convolution -------------------------------------------------------------------


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
        slope, offset = affine(chain)
        in_zp, out_zp = chain.steps[0].call.attr("in_zp")[0], chain.steps[-1].call.attr("out_zp")[0]
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

    def values(self) -> NDArray[Any]:
        """Returns its values for every INT8 value in every channel, [256, channels]."""
        sums = ((POINTS - self.in_zp) * self.weight + self.bias).astype(DType.of("INT32").storage)
        return evaluate_op("rescale", self.rescale().attrs, [sums], Type(sums.shape, "INT8"))

    def fitted(self, wanted: NDArray[Any], bias: int) -> Line:
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
    """Returns the Line that equals the chain for all 256 values of every channel, or None if none is found.

    Weights are tried from the largest down, each with the nearest bias and the two neighbours of that bias.
    Each of these pairs allows other scales.
    Each channel gets the first line that differs nowhere from the chain.
    Raises GraphError if an operator of the chain cannot be evaluated.
    """
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


def as_convolution(line: Line, x: Type, t: Type) -> AsConvolution:
    """Returns a line from x to t as a convolution."""
    shape = x.shape if len(x.shape) == 4 and x.shape[0] == 1 else (1, 1, prod(x.shape[:-1]), x.shape[-1])
    return AsConvolution(
        Move.reshape(x.shape, shape),
        Call("depthwise_conv2d", makers.conv("INT8", in_zp=line.in_zp)),
        LeafValue.constant(line.weight.reshape(1, 1, -1, 1), "INT8"),
        LeafValue.constant(line.bias, "INT32"),
        line.rescale(),
        Move.reshape(shape, t.shape),
    )


def spans_channels(chain: Chain, x: Type, t: Type) -> bool:
    """Tells whether the chain's constants vary along all channels of x, and x and t are INT8 of one shape."""
    return (
        (x.dtype, t.dtype) == ("INT8", "INT8")
        and x.shape == t.shape
        and bool(x.shape)
        and 1 < chain.channels == x.shape[-1]
    )


def convolution_of(chain: Chain, x: Type, t: Type, line: Callable[[Chain], Line | None]) -> AsConvolution | None:
    """Returns the chain from x to t as a convolution.

    line: returns the Line to use, or None.
    Returns None if there is no Line, or if an operator of the chain cannot be evaluated.
    """
    if not spans_channels(chain, x, t):
        return None
    try:
        found = line(chain)
    except GraphError:
        return None
    return None if found is None else as_convolution(found, x, t)
