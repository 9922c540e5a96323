"""Weight absorption: orders and slices of channels taken into the constants of convolutions and per-channel RESCALEs.

An order of channels is a Move that leaves all axes but the last in place.
Examples are a channel shuffle, and the NCHW order that a flatten before a linear layer keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eqsat.egraph.attributes import Call, LeafValue
from eqsat.egraph.externs import extern
from eqsat.egraph.kinds import ChannelRescale, Constant, Conv2d, Convolution, DepthwiseConv2d, Slice, Value, such
from eqsat.egraph.rule import rule
from eqsat.egraph.terms import LHS, let, symbols
from eqsat.tensor.movement import Move
from eqsat.tensor.types import Shape, Type

#: Most channels of an order, and of a tensor whose slice becomes zero weights.
_MAX_CHANNELS = 2048


@lru_cache(maxsize=65536)
def channel_order(m: Move) -> tuple[int, ...] | None:
    """Returns the order of channels: channel i of m x is channel order[i] of x viewed in m's output shape.

    None if m is a view, moves more than channels, or has more than `_MAX_CHANNELS` channels.
    """
    if m.is_view or m.out_shape[-1] > _MAX_CHANNELS:
        return None
    parts = Move(m.out_shape, m.out_shape, m.axes).within()
    if parts is None or not all(part.is_identity for part in parts[:-1]):
        return None
    return tuple(parts[-1].apply(np.arange(m.out_shape[-1])).tolist())


#: A movement that reorders channels and moves nothing else.
ChannelOrder = Annotated[Move, such("order", Move, lambda m: channel_order(m) is not None)]


def channels_of(order: ChannelOrder) -> tuple[int, ...]:
    """Returns `channel_order` of a movement that is known to be an order of channels."""
    channels = channel_order(order)
    assert channels is not None
    return channels


class MovedConvolution(NamedTuple):
    """A convolution with its weights and bias between two movements."""

    write: Move
    conv: Convolution
    weights: LeafValue
    bias: LeafValue
    read: Move

    def graph(self: Any, x: Any) -> Any:
        """Builds this small graph on x."""
        return self.write(self.conv(self.read(x), self.weights, self.bias))


def kernel_of(call: Call, weights: Shape) -> tuple[int, int]:
    """Returns height and width of a convolution's kernel, for the shape of its weights."""
    height, width = weights[:2] if call.op == "depthwise_conv2d" else weights[1:3]
    return height, width


def taken(leaf: Constant, index: Sequence[int] | NDArray[Any], axis: int) -> LeafValue:
    """Returns the elements of a constant at `index` along `axis`.

    A bias of one element serves all channels and is returned as it is.
    """
    if leaf.data.ndim == 1 and leaf.data.size == 1:
        return leaf
    return LeafValue.constant(np.take(leaf.data, index, axis), leaf.node.dtype)


def scales_taken(call: ChannelRescale, channels: Sequence[int]) -> ChannelRescale:
    """Returns a RESCALE per channel with the scales of `channels`."""
    return call.with_attrs(**{k: tuple(call.attr(k)[c] for c in channels) for k in ("multiplier", "shift")})


# ---- orders of channels -------------------------------------------------------------------------


@extern
def without_order(order: ChannelOrder, weights: Constant) -> tuple[Move, Constant] | None:
    """Returns view and weights' such that conv (order x) weights = conv (view x) weights'."""
    channels = channels_of(order)
    if len(channels) != weights.node.shape[3]:
        return None
    return Move.reshape(order.in_shape, order.out_shape), taken(weights, np.argsort(channels), 3)


@extern
def ordered(order: ChannelOrder, weights: Constant, bias: Constant) -> tuple[Move, Constant, Constant] | None:
    """Returns view, weights' and bias' such that order (conv x weights bias) = view (conv x weights' bias')."""
    channels = channels_of(order)
    if order.in_shape[-1] != order.out_shape[-1]:
        return None
    return Move.reshape(order.in_shape, order.out_shape), taken(weights, channels, 0), taken(bias, channels, 0)


@extern
def ordered_depthwise(
    order: ChannelOrder, weights: Constant, bias: Constant, operand: Type
) -> tuple[Move, Constant, Constant] | None:
    """Returns order', weights', bias' such that order (depthwise x weights bias) = depthwise (order' x) weights' bias'.

    order' is the same order on the shape of x.
    None for a convolution with several output channels per input channel.
    """
    channels = channel_order(order)
    if channels is None or order.in_shape != order.out_shape or weights.node.shape[3] != 1:
        return None
    inside = Move(order.in_shape, order.in_shape, order.axes).within()
    if inside is None or operand.shape[-1] != len(channels):
        return None
    moved = Move.product([*(Move.reshape((n,), (n,)) for n in operand.shape[:-1]), inside[-1]])
    return moved, taken(weights, channels, 2), taken(bias, channels, 0)


@extern
def unordered_depthwise(
    order: ChannelOrder, weights: Constant, bias: Constant, result: Type
) -> tuple[Move, Constant, Constant] | None:
    """Returns order', weights', bias' such that depthwise (order x) weights bias = order' (depthwise x weights' bias').

    order' is the same order on the shape of the result.
    """
    found = ordered_depthwise.fn(order.inverse(), weights, bias, result)
    return None if found is None else (found[0].inverse(), found[1], found[2])


def _run(m: Move) -> int:
    """Returns the number of elements that m moves together."""
    size, stride = m.axes[-1]
    return size if stride == 1 else 1


def _order_before(m: Move) -> tuple[tuple[int, ...], Move] | None:
    """Returns (channels, rest) such that m x = rest x', where channel i of x' is channel channels[i] of x.

    x' has the factors of its channels in the order in which m's output has them, which leaves longer runs to move.
    None unless the order moves something, and the rest moves longer runs by fewer axes than m.
    """
    atoms, last = m.atoms(), len(m.in_shape) - 1
    if m.is_view or atoms is None or m.in_shape[last] > _MAX_CHANNELS:
        return None
    parts = [Move.reshape((n,), (n,)) for n in m.in_shape]
    parts[last] = Move.ordered([(a.size, a.in_stride) for a in atoms if a.in_dim == last])
    rest = Move.product(parts).inverse().then(m)
    if parts[last].is_view or rest is None or rest.is_view or _run(rest) <= _run(m) or len(rest.axes) >= len(m.axes):
        return None
    return tuple(parts[last].apply(np.arange(m.in_shape[last])).tolist()), rest


@extern
def ordered_before(
    m: Move, scale: ChannelRescale, weights: Constant, bias: Constant
) -> tuple[Move, ChannelRescale, Constant, Constant] | None:
    """Returns m', scale', weights', bias' such that m (scale (conv x weights bias)) equals m' (scale' (conv' x)).

    conv' has weights' and bias'.
    The convolution gives its channels in the order in which m's output has them, so that m' moves longer runs.
    """
    found = _order_before(m)
    if found is None:
        return None
    channels, rest = found
    return rest, scales_taken(scale, channels), taken(weights, channels, 0), taken(bias, channels, 0)


@extern
def ordered_after(m: Move, weights: Constant) -> tuple[Move, Constant] | None:
    """Returns m' and weights' such that conv (m x) weights = conv (m' x) weights', where m' moves longer runs."""
    found = _order_before(m.inverse())
    if found is None or len(found[0]) != weights.node.shape[3]:
        return None
    return found[1].inverse(), taken(weights, found[0], 3)


# ---- slices of channels -------------------------------------------------------------------------


def _channel_range(call: Slice, operand: Type) -> tuple[int, int] | None:
    """Returns start and end of a slice along the last axis, None if it cuts other axes too."""
    if operand.shape[:-1] != call.attr("size")[:-1]:
        return None
    start = call.attr("start")[-1]
    return start, start + call.attr("size")[-1]


@extern
def output_channels(call: Slice, result: Type, weights: Constant, bias: Constant) -> tuple[Constant, Constant] | None:
    """Returns weights' and bias' such that call (conv x weights bias) = conv x weights' bias'.

    The slice `call` takes some output channels, of all images, rows and columns.
    """
    found = _channel_range(call, result)
    return None if found is None else (taken(weights, range(*found), 0), taken(bias, range(*found), 0))


@extern
def zeros_around(conv: Conv2d, call: Slice, whole: Type, weights: Constant) -> Constant | None:
    """Returns weights' such that conv (call x) weights = conv x weights'.

    The slice `call` takes some input channels; weights' are zero for the others.
    """
    found = _channel_range(call, whole)
    if found is None or whole.shape[-1] > _MAX_CHANNELS or conv.attr("w_zp") != (0,):
        return None
    wide = np.zeros((*weights.data.shape[:3], whole.shape[-1]), weights.data.dtype)
    wide[..., slice(*found)] = weights.data
    return LeafValue.constant(wide, weights.node.dtype)


m, order = symbols("m", Move), symbols("order", ChannelOrder)
conv, depthwise = symbols("conv", Conv2d), symbols("depthwise", DepthwiseConv2d)
s, scale = symbols("s", Slice), symbols("scale", ChannelRescale)
x, bias = symbols("x bias", Value)
weights, biases = symbols("weights biases", Constant)
rule = partial(rule, family="weights")

RULES = [
    rule(
        "move-conv",
        m(scale(conv(x, weights, biases))),
        let(ordered_before(m, scale, weights, biases), lambda n, call, w, b: n(call(conv(x, w, b)))),
    ),
    rule("conv-move", conv(m(x), weights, bias), let(ordered_after(m, weights), lambda n, w: conv(n(x), w, bias))),
    rule(
        "conv-order",
        conv(order(x), weights, bias),
        let(without_order(order, weights), lambda view, w: conv(view(x), w, bias)),
    ),
    rule(
        "order-conv",
        order(conv(x, weights, biases)),
        let(ordered(order, weights, biases), lambda view, w, b: view(conv(x, w, b))),
    ),
    rule(
        "order-depthwise",
        order(depthwise(x, weights, biases)),
        let(ordered_depthwise(order, weights, biases, x), lambda n, w, b: depthwise(n(x), w, b)),
    ),
    rule(
        "depthwise-order",
        depthwise(order(x), weights, biases),
        let(unordered_depthwise(order, weights, biases, LHS), lambda n, w, b: n(depthwise(x, w, b))),
    ),
    rule(
        "slice-conv",
        s(conv(x, weights, biases)),
        let(output_channels(s, conv(x, weights, biases), weights, biases), lambda w, b: conv(x, w, b)),
    ),
    rule("conv-slice", conv(s(x), weights, bias), conv(x, zeros_around(conv, s, x, weights), bias)),
]
