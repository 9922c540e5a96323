"""Forms that need less memory and are no faster: they are offered only where the graphs that are found without them
need more than they may.

Vela has the weights of a convolution in SRAM before it begins, beside those of the one before it. Half of its channels
has half of the weights, and both halves write into one tensor. A PAD copies what it appends from a constant of that
size, which is in flash; a depthwise convolution 1x1 that pads has few weights.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqsat.egraph.attributes import Call, LeafValue
from eqsat.egraph.externs import extern
from eqsat.egraph.kinds import ChannelRescale, Concat, Constant, Conv2d, DepthwiseConv2d, Pad, Rescale, Value
from eqsat.egraph.rule import Rule, rule
from eqsat.egraph.terms import LHS, let, symbols, typed
from eqsat.tensor import makers
from eqsat.tensor.dtypes import DType
from eqsat.tensor.types import Type, attrs_of

#: Fewest channels of a half: the arrays of all families make 8 or 16 at once.
_FEWEST_CHANNELS = 8
#: The concat of two halves with its type, and of each half the RESCALE, weights and bias.
_Halved = tuple[Call, Type, Call, LeafValue, LeafValue, Call, LeafValue, LeafValue]
#: Most rows or columns that a depthwise convolution appends.
_MOST_APPENDED = 16


@extern
def as_convolution(p: Pad, x: Type) -> tuple[Rescale, DepthwiseConv2d, Constant, Constant] | None:
    """A PAD of rows and columns as a depthwise convolution whose kernel has a single 1: its padding is worth its zero
    point, as what is appended is."""
    dtype, (value,) = DType.of(x.dtype), p.attr("value")
    if not dtype.is_activation or len(x.shape) != 4 or value and x.dtype != "INT8":
        return None  # other dtypes have no zero points
    (images, top, left, channels), (_, bottom, right, _) = p.attr("pads")[::2], p.attr("pads")[1::2]
    added = (top + bottom, left + right)
    if images or channels or any(p.attr("pads")[k] for k in (1, 7)) or not 0 < max(added) <= _MOST_APPENDED:
        return None
    depth = x.shape[3]
    kernel = np.zeros((added[0] + 1, added[1] + 1, depth, 1), np.int8)
    kernel[bottom, right] = 1
    return (
        Call("rescale", makers.by_one(x.dtype, value)),
        Call("depthwise_conv2d", makers.conv(x.dtype, pad=(added[0],) * 2 + (added[1],) * 2, in_zp=value)),
        LeafValue.constant(kernel, "INT8"),
        LeafValue.constant(np.zeros(depth), dtype.accumulator),
    )


def _halves(data: NDArray[Any], count: int) -> list[NDArray[Any]]:
    """Of a constant along its first axis; one for all channels is that of both halves."""
    return [data, data] if len(data) == 1 < count else np.split(data, 2)


def _scales(f: Call, count: int) -> list[Call]:
    """A RESCALE for each half of `count` channels."""
    halves = {k: _halves(np.array(f.attr(k)), count) for k in ("multiplier", "shift")}
    return [f.with_attrs(**{k: tuple(h[part].tolist()) for k, h in halves.items()}) for part in (0, 1)]


def rules() -> list[Rule]:
    """The family. Halves that it has made of a graph are not halved again."""
    made: set[bytes] = set()

    def halved(f: Call, w: LeafValue, b: LeafValue, t: Type) -> _Halved | None:
        count = t.shape[3]
        if count % (2 * _FEWEST_CHANNELS) or w.data.tobytes() in made:
            return None
        weights, biases = (
            [LeafValue.constant(half, leaf.node.dtype) for half in _halves(leaf.data, count)] for leaf in (w, b)
        )
        made.update(half.data.tobytes() for half in weights)
        (g, h), (v, u), (c, d) = _scales(f, count), weights, biases
        return Call("concat", attrs_of({"axis": 3})), t, g, v, c, h, u, d

    @extern
    def halves(
        f: Rescale, w: Constant, b: Constant, t: Type
    ) -> tuple[Concat, Type, Rescale, Constant, Constant, Rescale, Constant, Constant] | None:
        """f (conv x w b) as two halves of its channels, with one scale."""
        return halved(f, w, b, t)

    @extern
    def halves_by_channel(
        f: ChannelRescale, w: Constant, b: Constant, t: Type
    ) -> tuple[Concat, Type, ChannelRescale, Constant, Constant, ChannelRescale, Constant, Constant] | None:
        """The same with a scale per channel."""
        return halved(f, w, b, t)

    conv, p, x = symbols("conv", Conv2d), symbols("p", Pad), symbols("x", Value)
    w, b = symbols("w b", Constant)
    make = partial(rule, family="footprint", forget=made.clear)
    return [
        *(
            make(
                name,
                f(conv(x, w, b)),
                let(
                    found(f, w, b, LHS),
                    lambda concat, t, g, v, c, h, u, d: typed(concat([g(conv(x, v, c)), h(conv(x, u, d))]), t),
                ),
            )
            for name, f, found in (
                ("halved-conv", symbols("f", Rescale), halves),
                ("halved-conv-channels", symbols("f", ChannelRescale), halves_by_channel),
            )
        ),
        make("pad-depthwise", p(x), let(as_convolution(p, x), lambda f, g, v, c: f(g(x, v, c)))),
    ]


RULES = rules()
