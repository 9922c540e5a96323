"""Weight absorption: orders and slices of channels taken into the constants of convolutions and per-channel RESCALEs.

An order of channels is a Move that leaves everything but the last axis in place: a channel shuffle, or the NCHW order that
a flatten before a linear layer keeps.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from eqsat.egraph.attributes import Call, LeafValue
from eqsat.egraph.engine import Extern, Rule
from eqsat.tensor.dtypes import DType
from eqsat.tensor.movement import Move, split
from eqsat.tensor.types import Type

_MAX_CHANNELS = 2048


@lru_cache(maxsize=65536)
def channel_order(m: Move) -> tuple[int, ...] | None:
    """order[i]: which channel of x, viewed in m's output shape, is channel i of Move m x; None if more than channels move."""
    channels, outer = m.out_shape[-1], prod(m.out_shape[:-1])
    if m.is_view or channels > _MAX_CHANNELS:
        return None
    pieces: list[tuple[int, int]] = []
    for size, stride in m.axes:
        cut = split(size, stride, [channels])
        if cut is None:
            return None
        pieces += cut
    if outer > 1 and pieces[0] != (outer, channels):
        return None
    inner = pieces[1:] if outer > 1 else pieces
    if any(stride >= channels for _, stride in inner):
        return None
    index = np.zeros(1, np.int64)
    for size, stride in inner:
        index = (index[:, None] + np.arange(size) * stride).reshape(-1)
    return tuple(int(i) for i in index)


def value_of(leaf: LeafValue) -> np.ndarray | None:
    """The array of a constant that numpy can hold, or None."""
    return leaf.node.attr("value").data if leaf.is_const and not DType.of(leaf.node.dtype).carried else None


def _taken(leaf: LeafValue, index: np.ndarray, axis: int) -> LeafValue:
    """The constant with `index` taken along `axis`; a bias of one element serves all channels and stays."""
    data = value_of(leaf)
    return (
        leaf if data.ndim == 1 and data.size == 1 else LeafValue.constant(np.take(data, index, axis), leaf.node.dtype)
    )


def _conv_after_order(call: Call, m: Move, w: LeafValue):
    """conv (Move m x) w = conv (view x) w'."""
    order = channel_order(m)
    if order is None or call.op != "conv2d" or value_of(w) is None or len(order) != w.node.shape[3]:
        return None
    return Move.reshape(m.in_shape, m.out_shape), _taken(w, np.argsort(order), 3)


def _order_after_conv(m: Move, call: Call, w: LeafValue, b: LeafValue):
    """Move m (conv x w b) = view (conv x w' b')."""
    order = channel_order(m)
    if (
        order is None
        or call.op != "conv2d"
        or value_of(w) is None
        or value_of(b) is None
        or m.in_shape[-1] != m.out_shape[-1]
    ):
        return None
    return Move.reshape(m.in_shape, m.out_shape), _taken(w, np.array(order), 0), _taken(b, np.array(order), 0)


def _order_across_depthwise(m: Move, call: Call, w: LeafValue, b: LeafValue, operand: Type):
    """Move m (depthwise x w b) = depthwise (Move m' x) w' b', with the same order on the operand's shape."""
    order = channel_order(m)
    if (
        order is None
        or call.op != "depthwise_conv2d"
        or m.in_shape != m.out_shape
        or value_of(w) is None
        or value_of(b) is None
        or w.node.shape[3] != 1
    ):
        return None
    index = np.array(order)
    # the axes inside the channels are the same, whatever the height and width
    inner = [a for a in m.axes if a[1] < m.in_shape[-1] and a[0] * a[1] <= m.in_shape[-1]]
    moved = _on_last_axis(operand.shape, inner)
    return None if moved is None or channel_order(moved) != order else (moved, _taken(w, index, 2), _taken(b, index, 0))


def _on_last_axis(shape: tuple[int, ...], inner) -> Move | None:
    if prod(size for size, _ in inner) != shape[-1]:
        return None
    outer = prod(shape[:-1])
    return Move(shape, shape, ((outer, shape[-1]), *inner) if outer > 1 else tuple(inner))


def _depthwise_after_order(call: Call, m: Move, w: LeafValue, b: LeafValue, result: Type):
    """depthwise (Move m x) w b = Move m' (depthwise x w' b')."""
    order = channel_order(m)
    if order is None:
        return None
    back = _order_across_depthwise(m.inverse(), call, w, b, result)
    if back is None:
        return None
    return back[0].inverse(), back[1], back[2]


def _order_across_rescale(m: Move, call: Call):
    """Move m (rescale x) = rescale' (Move m x), its scales in the new order."""
    order = channel_order(m)
    if order is None or call.op != "rescale" or m.in_shape[-1] != m.out_shape[-1]:
        return None
    return (call.with_attrs(**{k: tuple(call.attr(k)[i] for i in order) for k in ("multiplier", "shift")}),)


def _rescale_after_order(call: Call, m: Move):
    """rescale (Move m x) = Move m (rescale' x)."""
    return _order_across_rescale(m.inverse(), call)


def _channel_range(call: Call, operand: Type) -> tuple[int, int] | None:
    """(start, size) of a slice along the last axis alone."""
    if call.op != "slice" or operand.shape[:-1] != call.attr("size")[:-1]:
        return None
    return call.attr("start")[-1], call.attr("size")[-1]


def _slice_of_conv(f: Call, call: Call, result: Type, w: LeafValue, b: LeafValue):
    """slice (conv x w b) = conv x w' b', its output channels sliced."""
    found = _channel_range(f, result)
    if found is None or call.op != "conv2d" or value_of(w) is None or value_of(b) is None:
        return None
    index = np.arange(found[0], sum(found))
    return _taken(w, index, 0), _taken(b, index, 0)


def _conv_of_slice(call: Call, f: Call, whole: Type, w: LeafValue):
    """conv (slice x) w = conv x w', with zero weights for the channels left out."""
    found = _channel_range(f, whole)
    if (
        found is None
        or call.op != "conv2d"
        or value_of(w) is None
        or whole.shape[-1] > _MAX_CHANNELS
        or call.attr("w_zp") != (0,)
    ):
        return None
    data = value_of(w)
    wide = np.zeros((*data.shape[:3], whole.shape[-1]), data.dtype)
    wide[..., found[0] : sum(found)] = data
    return (LeafValue.constant(wide, w.node.dtype),)


_CONV = ("(= c (M3 f x (Leaf w) (Leaf b)))",)

EXTERNS = [
    Extern("conv_after_order", 3, 2, _conv_after_order),
    Extern("order_after_conv", 4, 3, _order_after_conv),
    Extern("order_across_depthwise", 5, 3, _order_across_depthwise),
    Extern("depthwise_after_order", 5, 3, _depthwise_after_order),
    Extern("order_across_rescale", 2, 1, _order_across_rescale),
    Extern("rescale_after_order", 2, 1, _rescale_after_order),
    Extern("slice_of_conv", 5, 2, _slice_of_conv),
    Extern("conv_of_slice", 4, 1, _conv_of_slice),
]

R = Rule
F = "weights"
RULES = [
    R(
        "conv-order",
        F,
        "conv (Move m x) w = conv x w', m an order of channels",
        ("(= t (M3 f (Move m x) (Leaf w) b))",),
        ("(union t (M3 f (Move v x) (Leaf u) b))",),
        (("v u", "conv_after_order", "f m w"),),
    ),
    R(
        "order-conv",
        F,
        "Move m (conv x w b) = conv x w' b'",
        ("(= t (Move m c))", *_CONV),
        ("(union t (Move v (M3 f x (Leaf u) (Leaf d))))",),
        (("v u d", "order_after_conv", "m f w b"),),
    ),
    R(
        "order-depthwise",
        F,
        "Move m (depthwise x w b) = depthwise (Move m x) w' b'",
        ("(= t (Move m c))", *_CONV, "(= s (type x))"),
        ("(union t (M3 f (Move p x) (Leaf u) (Leaf d)))",),
        (("p u d", "order_across_depthwise", "m f w b s"),),
    ),
    R(
        "depthwise-order",
        F,
        "depthwise (Move m x) w b = Move m (depthwise x w' b')",
        ("(= t (M3 f (Move m x) (Leaf w) (Leaf b)))", "(= s (type t))"),
        ("(union t (Move p (M3 f x (Leaf u) (Leaf d))))",),
        (("p u d", "depthwise_after_order", "f m w b s"),),
    ),
    R(
        "order-rescale",
        F,
        "Move m (rescale x) = rescale' (Move m x), its scales per channel reordered",
        ("(= t (Move m (Ax f x)))",),
        ("(union t (Ax g (Move m x)))",),
        (("g", "order_across_rescale", "m f"),),
    ),
    R(
        "rescale-order",
        F,
        "rescale (Move m x) = Move m (rescale' x)",
        ("(= t (Ax f (Move m x)))",),
        ("(union t (Move m (Ax g x)))",),
        (("g", "rescale_after_order", "f m"),),
    ),
    R(
        "slice-conv",
        F,
        "slice (conv x w b) = conv x w' b', its output channels sliced",
        ("(= t (Ax g c))", *_CONV, "(= s (type c))"),
        ("(union t (M3 f x (Leaf u) (Leaf d)))",),
        (("u d", "slice_of_conv", "g f s w b"),),
    ),
    R(
        "conv-slice",
        F,
        "conv (slice x) w = conv x w', zero weights for the channels left out",
        ("(= t (M3 f (Ax g x) (Leaf w) b))", "(= s (type x))"),
        ("(union t (M3 f x (Leaf u) b))",),
        (("u", "conv_of_slice", "f g s w"),),
    ),
]
