"""Forms that need less memory and are no faster: they are offered only where the graphs that are found without them
need more than they may.

Vela has the weights of a convolution in SRAM before it begins, beside those of the convolution before it.
A convolution of half of the channels has half of the weights, and both halves write into one tensor.
A PAD copies what it appends from a constant of that size, which is in flash.
A depthwise convolution that pads has few weights instead.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Generic, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eqsat.egraph.attributes import Call, LeafValue
from eqsat.egraph.externs import extern
from eqsat.egraph.kinds import ChannelRescale, Concat, Constant, Conv2d, DepthwiseConv2d, Operator, Pad, Rescale, Value
from eqsat.egraph.rule import Rule, rule
from eqsat.egraph.terms import LHS, let, symbols, typed
from eqsat.tensor import makers
from eqsat.tensor.dtypes import DType
from eqsat.tensor.types import Type, attrs_of

#: Fewest channels of a half: the MAC arrays of all families compute 8 or 16 at once.
_FEWEST_CHANNELS = 8
#: Most rows or columns that a depthwise convolution appends.
_MOST_APPENDED = 16


class Halved(NamedTuple, Generic[Operator]):
    """The concat of two halves of a convolution's channels.

    type: of the concat.
    first, second: the RESCALE of each half; its weights and bias follow.
    """

    concat: Concat
    type: Type
    first: Operator
    first_weights: Constant
    first_bias: Constant
    second: Operator
    second_weights: Constant
    second_bias: Constant

    def graph(self: Any, conv: Any, x: Any) -> Any:
        """Builds this small graph on x, with a convolution."""
        first = self.first(conv(x, self.first_weights, self.first_bias))
        second = self.second(conv(x, self.second_weights, self.second_bias))
        return typed(self.concat([first, second]), self.type)


@extern
def as_convolution(p: Pad, x: Type) -> tuple[Rescale, DepthwiseConv2d, Constant, Constant] | None:
    """Returns a PAD of rows and columns as a depthwise convolution whose kernel has a single 1.

    The convolution's padding has the value of its zero point, which is that of the PAD.
    None if it appends more than `_MOST_APPENDED` rows or columns.
    """
    dtype, (value,) = DType.of(x.dtype), p.attr("value")
    if not dtype.is_activation or len(x.shape) != 4 or value and x.dtype != "INT8":
        # Other dtypes than INT8 have no zero point.
        return None
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
    """Returns the halves of a constant along its first axis; a constant of one element is both."""
    return [data, data] if len(data) == 1 < count else np.split(data, 2)


def _scales(f: Operator, count: int) -> list[Operator]:
    """Returns a RESCALE for each half of `count` channels."""
    halves = {k: _halves(np.array(f.attr(k)), count) for k in ("multiplier", "shift")}
    return [f.with_attrs(**{k: tuple(h[part].tolist()) for k, h in halves.items()}) for part in (0, 1)]


def rules() -> list[Rule]:
    """Returns the rules of the family.

    Halves that these rules have made for a graph are not halved again.
    """
    made: set[bytes] = set()

    @extern
    def halves(f: Operator, w: Constant, b: Constant, t: Type) -> Halved[Operator] | None:
        """Returns f (conv x w b) as two halves of its channels."""
        count = t.shape[3]
        if count % (2 * _FEWEST_CHANNELS) or w.data.tobytes() in made:
            return None
        weights, biases = (
            [LeafValue.constant(half, leaf.node.dtype) for half in _halves(leaf.data, count)] for leaf in (w, b)
        )
        made.update(half.data.tobytes() for half in weights)
        (g, h), (v, u), (c, d) = _scales(f, count), weights, biases
        return Halved(Call("concat", attrs_of({"axis": 3})), t, g, v, c, h, u, d)

    conv, p, x = symbols("conv", Conv2d), symbols("p", Pad), symbols("x", Value)
    w, b = symbols("w b", Constant)
    make = partial(rule, family="footprint", forget=made.clear)
    return [
        *(
            make(name, f(conv(x, w, b)), halves(f, w, b, LHS)(conv, x))
            for name, f in (
                ("halved-conv", symbols("f", Rescale)),
                ("halved-conv-channels", symbols("f", ChannelRescale)),
            )
        ),
        make("pad-depthwise", p(x), let(as_convolution(p, x), lambda f, g, v, c: f(g(x, v, c)))),
    ]


RULES = rules()
