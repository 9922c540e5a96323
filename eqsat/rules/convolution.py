"""Convolutions: height and width exchanged, several in one, and the transposed one as plain ones.

A convolution knows H from W only by the order of its kernel's axes, so both may be exchanged.
"""

from __future__ import annotations

import numpy as np

from eqsat.egraph.attributes import Call, LeafValue
from eqsat.egraph.engine import Extern, Rule
from eqsat.rules.operators import POINTWISE_CONV
from eqsat.rules.weights import value_of
from eqsat.tensor.movement import Move
from eqsat.tensor.types import Shape, Type, attrs_of

#: Rows of the kernel of a transposed convolution that becomes as many convolutions.
_PHASES = 2

# ---- height and width ---------------------------------------------------------------------------

_PAIRS = ("stride", "dilation", "kernel")
_KERNEL_AXES = {"conv2d": (0, 2, 1, 3), "depthwise_conv2d": (1, 0, 2, 3), "transpose_conv2d": (0, 2, 1, 3)}


def _turned(shape: Shape) -> Move:
    return Move.transpose(shape, (0, 2, 1, 3))


def _turned_call(call: Call) -> Call:
    attrs = dict(call.attrs)
    swapped = {k: (attrs[k][1], attrs[k][0]) for k in _PAIRS if k in attrs}
    swapped |= {k: (*attrs[k][2:], *attrs[k][:2]) for k in ("pad", "out_pad") if k in attrs}
    return call.with_attrs(**swapped)


def _flat(x: Type, t: Type) -> bool:
    """Whether turning both is a view: one of H and W is 1, on both sides."""
    return _turned(x.shape).is_view and _turned(t.shape).is_view


def _one_tap(call: Call, weights: Shape) -> bool:
    return (weights[:2] if call.op == "depthwise_conv2d" else weights[1:3]) == (1, 1)


def _turn_conv(call: Call, x: Type, leaf: LeafValue, t: Type):
    """conv x w = turn (conv' (turn x) w'), offered where turning costs nothing and the kernel has several taps in a row."""
    w = value_of(leaf)
    if (
        call.op not in _KERNEL_AXES
        or w is None
        or not _flat(x, t)
        or x.shape[1] == x.shape[2]
        or _one_tap(call, w.shape)
    ):
        return None
    return (
        _turned(x.shape),
        _turned_call(call),
        LeafValue.constant(w.transpose(_KERNEL_AXES[call.op]), leaf.node.dtype),
        _turned(t.shape).inverse(),
    )


def _push_turn(m: Move, call: Call, x: Type, leaf: LeafValue):
    """Move m (conv x w) = conv' (turn x) w', m the exchange of H and W."""
    w = value_of(leaf)
    if call.op not in _KERNEL_AXES or w is None or len(m.in_shape) != 4 or m != _turned(m.in_shape) or m.is_view:
        return None
    return _turned_call(call), _turned(x.shape), LeafValue.constant(w.transpose(_KERNEL_AXES[call.op]), leaf.node.dtype)


def _pull_turn(call: Call, m: Move, leaf: LeafValue, t: Type):
    """conv (Move m x) w = turn (conv' x w')."""
    w = value_of(leaf)
    if call.op not in _KERNEL_AXES or w is None or len(m.in_shape) != 4 or m != _turned(m.in_shape) or m.is_view:
        return None
    return (
        _turned(_turned(t.shape).out_shape),
        _turned_call(call),
        LeafValue.constant(w.transpose(_KERNEL_AXES[call.op]), leaf.node.dtype),
    )


def _push_turn_pool(m: Move, call: Call, x: Type):
    if len(m.in_shape) != 4 or m != _turned(m.in_shape) or m.is_view:
        return None
    return _turned_call(call), _turned(x.shape)


def _pull_turn_pool(call: Call, m: Move, t: Type):
    if len(m.in_shape) != 4 or m != _turned(m.in_shape) or m.is_view:
        return None
    return _turned(_turned(t.shape).out_shape), _turned_call(call)


# ---- transposed convolution ---------------------------------------------------------------------


def _phases(call: Call, x: Type, wleaf: LeafValue, bleaf: LeafValue):
    """TRANSPOSE_CONV2D whose kernel is its stride: each output row of a pixel is a 1x1 convolution with the columns as channels,
    and rows laid beside each other along W are rows below each other. One convolution per output row, at most `_PHASES`."""
    w, b = value_of(wleaf), value_of(bleaf)
    if call.op != "transpose_conv2d" or w is None or b is None or any(call.attr("out_pad")) or x.dtype != "INT8":
        return None
    oc, kh, kw, ic = w.shape
    n, height, width, _ = x.shape
    if (kh, kw) != call.attr("stride") or kh != _PHASES:
        return None
    conv = Call("conv2d", attrs_of({**POINTWISE_CONV, "in_zp": call.attr("in_zp"), "w_zp": call.attr("w_zp")}))
    bias = LeafValue.constant(np.tile(np.broadcast_to(b, (oc,)), kw), bleaf.node.dtype)
    rows = [
        LeafValue.constant(w[:, k].transpose(1, 0, 2).reshape(kw * oc, 1, 1, ic), wleaf.node.dtype) for k in range(kh)
    ]
    joined = (n, height, kh * width, kw * oc)
    return (
        conv,
        bias,
        *rows,
        Call("concat", attrs_of({"axis": 2})),
        Type(joined, "INT32"),
        Move.reshape(joined, (n, kh * height, kw * width, oc)),
    )


# ---- one convolution for several ----------------------------------------------------------------


def _joint(call: Call, g: Call, v: LeafValue, w: LeafValue, b: LeafValue, d: LeafValue):
    """Weights and bias of two convolutions over one input, concatenated along the output channels."""
    arrays = [value_of(k) for k in (v, w, b, d)]
    if any(a is None for a in arrays) or g.attr("axis") != 3 or call.op != "conv2d":
        return None
    v1, w1, b1, d1 = arrays
    if v1.shape[1:] != w1.shape[1:] or v.node.dtype != w.node.dtype:
        return None
    biases = [np.broadcast_to(x, k.shape[:1]) for x, k in ((b1, v1), (d1, w1))]
    return LeafValue.constant(np.concatenate([v1, w1]), v.node.dtype), LeafValue.constant(
        np.concatenate(biases), b.node.dtype
    )


def _per_channel(call: Call, x: Type, name: str) -> tuple[int, ...]:
    return call.attr(name) if call.attr("per_channel") else call.attr(name) * x.shape[-1]


def _joint_rescale(g: Call, f: Call, h: Call, x: Type, y: Type):
    """concat of two RESCALEs = one RESCALE per channel of the concat."""
    if g.attr("axis") != len(x.shape) - 1 or (f.op, h.op) != ("rescale", "rescale"):
        return None
    if x.dtype != "INT32" or x.shape[:-1] != y.shape[:-1] or y.dtype != x.dtype:
        return None
    scales = {name: (*_per_channel(f, x, name), *_per_channel(h, y, name)) for name in ("multiplier", "shift")}
    if f.with_attrs(per_channel=True, **scales) != h.with_attrs(per_channel=True, **scales):
        return None
    return f.with_attrs(per_channel=True, **scales), Type((*x.shape[:-1], x.shape[-1] + y.shape[-1]), x.dtype)


EXTERNS = [
    Extern("turn_conv", 4, 4, _turn_conv),
    Extern("push_turn", 4, 3, _push_turn),
    Extern("pull_turn", 4, 3, _pull_turn),
    Extern("phases", 4, 7, _phases),
    Extern("joint_conv", 6, 2, _joint),
    Extern("joint_rescale", 5, 2, _joint_rescale),
    Extern("push_turn_pool", 3, 2, _push_turn_pool),
    Extern("pull_turn_pool", 3, 2, _pull_turn_pool),
]

R = Rule.of("convolution")
RULES = [
    R(
        "turn-conv",
        "conv x w = turn (conv (turn x) w'), turn the exchange of H and W, where it is a view",
        ("(= t (M3 f x (Leaf w) b))", "(= s (type x))", "(= u (type t))"),
        "(union t (Move q (M3 g (Move p x) (Leaf v) b)))",
        ("p g v q", "turn_conv", "f s w u"),
    ),
    R(
        "push-turn",
        "turn (conv x w) = conv (turn x) w'",
        ("(= t (Move m (M3 f x (Leaf w) b)))", "(= s (type x))"),
        "(union t (M3 g (Move p x) (Leaf v) b))",
        ("g p v", "push_turn", "m f s w"),
    ),
    R(
        "pull-turn",
        "conv (turn x) w = turn (conv x w')",
        ("(= t (M3 f (Move m x) (Leaf w) b))", "(= u (type t))"),
        "(union t (Move p (M3 g x (Leaf v) b)))",
        ("p g v", "pull_turn", "f m w u"),
    ),
    R(
        "push-turn-pool",
        "turn (pool x) = pool (turn x)",
        ("(= t (Move m (M1 f x)))", "(= s (type x))"),
        "(union t (M1 g (Move p x)))",
        ("g p", "push_turn_pool", "m f s"),
    ),
    R(
        "pull-turn-pool",
        "pool (turn x) = turn (pool x)",
        ("(= t (M1 f (Move m x)))", "(= u (type t))"),
        "(union t (Move p (M1 g x)))",
        ("p g", "pull_turn_pool", "f m u"),
    ),
    R(
        "transpose-conv-phases",
        "transpose_conv2d x, kernel 2x2 = stride, = view (concat [conv 1x1 x, conv 1x1 x]), one for each row of the kernel",
        ("(= t (M3 f x (Leaf w) (Leaf b)))", "(= s (type x))"),
        "(let c (Cat g (vec-of (M3 h x (Leaf v) (Leaf d)) (M3 h x (Leaf u) (Leaf d))))) (set (type c) r) (union t (Move m c))",
        ("h d v u g r m", "phases", "f s w b"),
    ),
    R(
        "concat-conv",
        "concat [.. conv x w, conv x v ..] = concat [.. conv x (w and v) ..], along output channels",
        (
            "(= t (Cat g xs))",
            "(element xs i (M3 f x (Leaf v) (Leaf b)))",
            "(= j (+ i 1))",
            "(element xs j (M3 f x (Leaf w) (Leaf d)))",
        ),
        "(union t (Cat g (vec-set (vec-remove xs j) i (M3 f x (Leaf u) (Leaf e)))))",
        ("u e", "joint_conv", "f g v w b d"),
    ),
    *(
        R(
            f"concat-rescale-{a}-{b}",
            "concat [.. rescale x, rescale y ..] along channels = concat [.. rescale' (concat [x, y]) ..], one scale per channel",
            (
                "(= t (Cat g xs))",
                f"(element xs i ({a} f x))",
                "(= j (+ i 1))",
                f"(element xs j ({b} h y))",
                "(= s (type x))",
                "(= u (type y))",
            ),
            "(let c (Cat g (vec-of x y))) (set (type c) q) (union t (Cat g (vec-set (vec-remove xs j) i (Ax r c))))",
            ("r q", "joint_rescale", "g f h s u"),
        )
        for a in ("Ax", "P1")
        for b in ("Ax", "P1")
    ),
]
