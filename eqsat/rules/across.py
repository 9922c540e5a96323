"""Data movement across other operators, in both directions, on forks and joins alike.

"push" moves a movement from an op's result to its operands, "pull" from one operand to the result; all operands that
have no matching movement get the inverse, which vanishes where it meets its counterpart.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from eqsat.egraph.attributes import Call
from eqsat.egraph.externs import extern
from eqsat.egraph.kinds import Axial, Binary, ChannelRescale, Concat, Ternary, Unary, Value, Values
from eqsat.egraph.rule import rule
from eqsat.egraph.terms import LHS, each, let, postponed, symbols, typed
from eqsat.tensor.movement import Move
from eqsat.tensor.types import Type


@extern
def seen_by(m: Move, operand: Type) -> Move | None:
    """The part of `m` that an operand, possibly broadcast to m's input shape, sees."""
    return m.restrict(operand.shape)


@extern
def back(m: Move, result: Type, operand: Type) -> Move | None:
    """m's inverse as `operand` sees it, when `m` covers the whole result."""
    return m.inverse().restrict(operand.shape) if m.out_shape == result.shape else None


# ---- ops that act along axes --------------------------------------------------------------------


def carry(call: Call, operand: Type, m: Move) -> tuple[Call, Move] | None:
    """(call', m') with Move m' (call y) = call' (Move m y) for y of type `operand`, or None.

    An axis that `call` acts along must stay in one piece and outermost within its new dim: then a slice or pad of
    it is a slice or pad of that dim, scaled by what lies inside.
    """
    shape = operand.shape
    axes = _acted(call, shape)
    placed = {d: m.whole(d) for d in axes}
    if any(a is None for a in placed.values()):
        return None
    inner = {d: m.out_shape[a.out_dim] // shape[d] for d, a in placed.items()}
    to = {d: a.out_dim for d, a in placed.items()}
    if len(set(to.values())) != len(to):
        return None
    if call.op == "slice":
        start, size = [0] * len(m.out_shape), list(m.out_shape)
        for d in axes:
            start[to[d]] = call.attr("start")[d] * inner[d]
            size[to[d]] = call.attr("size")[d] * inner[d]
        after = m.resize({d: call.attr("size")[d] for d in axes})
        return _pair(call.with_attrs(start=tuple(start), size=tuple(size)), after)
    if call.op == "pad":
        pads = [0] * (2 * len(m.out_shape))
        sizes = {}
        for d in axes:
            low, high = call.attr("pads")[2 * d : 2 * d + 2]
            pads[2 * to[d] : 2 * to[d] + 2] = [low * inner[d], high * inner[d]]
            sizes[d] = shape[d] + low + high
        return _pair(call.with_attrs(pads=tuple(pads)), m.resize(sizes))
    if call.op == "tile":
        multiples = [1] * len(m.out_shape)
        for d in axes:
            multiples[to[d]] = call.attr("multiples")[d]
        return _pair(
            call.with_attrs(multiples=tuple(multiples)),
            m.resize({d: shape[d] * call.attr("multiples")[d] for d in axes}),
        )
    if any(n != 1 for n in inner.values()):
        return None  # the axis must have its dim to itself
    (d,) = axes
    if call.op == "rescale":
        return (call, m) if to[d] == len(m.out_shape) - 1 else None
    if call.op == "reverse":
        return call.with_attrs(axis=to[d]), m
    return _pair(call.with_attrs(axis=to[d]), m.resize({d: 1}))


def _pair(call: Call, m: Move | None) -> tuple[Call, Move] | None:
    return None if m is None else (call, m)


def _acted(call: Call, shape: tuple[int, ...]) -> list[int]:
    """Dims of the operand that `call` acts along."""
    if call.op == "slice":
        return [d for d, n in enumerate(shape) if call.attr("size")[d] != n]
    if call.op == "pad":
        return [d for d in range(len(shape)) if any(call.attr("pads")[2 * d : 2 * d + 2])]
    if call.op == "tile":
        return [d for d in range(len(shape)) if call.attr("multiples")[d] != 1]
    if call.op == "rescale":
        return [len(shape) - 1]
    return [call.attr("axis")]


@extern
def pushed(m: Move, call: Axial, operand: Type) -> tuple[Axial, Move] | None:
    """m (call x) = call' (m' x): call' acts on the axis where m puts it."""
    axes = _acted(call, operand.shape)
    shrunk = [d for d in axes if m.in_shape[d] == 1 and operand.shape[d] != 1]
    before: Move | None = m
    for d in shrunk:
        before = before and before.grow(d, operand.shape[d])
    if before is not None:
        before = before.resize({d: operand.shape[d] for d in axes if d not in shrunk})
    if before is None or before.in_shape != operand.shape:
        return None
    carried = carry(call, operand, before)
    return (carried[0], before) if carried and carried[1] == m else None


@extern
def pulled(call: Axial, m: Move, moved: Type) -> tuple[Move, Axial] | None:
    """call (m x) = m' (call' x), the same from the operand to the result."""
    carried = carry(call, moved, m.inverse())
    return None if carried is None else (carried[1].inverse(), carried[0])


@extern
def regrouped(call: ChannelRescale, m: Move, x: Type) -> ChannelRescale | None:
    """call (m x) = m (call' x), where m is a view that makes channels of a part of x's last axis."""
    if not m.is_view or m.in_shape[-1] == m.out_shape[-1] or m.in_shape != x.shape:
        return None
    channels = _channel_of(m)
    if channels is None:
        return None
    return call.with_attrs(**{k: tuple(call.attr(k)[c] for c in channels) for k in ("multiplier", "shift")})


def _channel_of(m: Move) -> tuple[int, ...] | None:
    """For each index along m's last input axis, the last output axis's index that it goes to; None if others decide on that too."""
    atoms = m.atoms()
    last, channels = len(m.in_shape) - 1, m.out_shape[-1]
    if atoms is None or any(a.in_dim != last for a in atoms if a.out_dim == len(m.out_shape) - 1):
        return None
    index = np.zeros(m.in_shape[-1], np.int64)
    for a in atoms:
        if a.out_dim == len(m.out_shape) - 1:
            index += np.arange(m.in_shape[-1]) // a.in_stride % a.size * (a.out_stride % channels)
    return tuple(index.tolist())


# ---- concat -------------------------------------------------------------------------------------

#: A movement adjusted to the size of its operand along one axis.
resized = postponed("Resized", Move, int)


@extern
def adjusted(m: Move, axis: int, operand: Type) -> Move | None:
    """The movement that does the same to an operand of another size along the axis."""
    found = m.resize({axis: operand.shape[axis]})
    return None if found is None or found.in_shape != operand.shape else found


@extern
def concat_pushed(m: Move, concat: Concat) -> tuple[Concat, int] | None:
    """m (concat xs) = concat' (xs moved along its old axis): concat' and that axis."""
    atom = m.whole(concat.attr("axis"))
    return None if atom is None else (concat.with_attrs(axis=atom.out_dim), concat.attr("axis"))


@extern
def concat_pulled(concat: Concat, m: Move, result: Type) -> tuple[Move, Concat, Type, Move, int] | None:
    """One operand is m y: the movement of the result, concat' with its type, the movement of the other operands along the axis."""
    axis = concat.attr("axis")
    inverse = m.inverse()
    if inverse.whole(axis) is None:
        return None
    back = inverse.resize({axis: result.shape[axis]})
    if back is None or back.in_shape != result.shape:
        return None
    to = back.whole(axis)
    assert to is not None
    return back.inverse(), concat.with_attrs(axis=to.out_dim), Type(back.out_shape, result.dtype), back, axis


@extern
def beside_channels(call: ChannelRescale, concat: Concat, result: Type) -> bool:
    """Whether a concat is along another axis than the last."""
    return bool(concat.attr("axis") != len(result.shape) - 1)


m = symbols("m", Move)
f, g, h, a = symbols("f", Unary), symbols("g", Binary), symbols("h", Ternary), symbols("a", Axial)
rescale, concat = symbols("rescale", ChannelRescale), symbols("concat", Concat)
x, y, z = symbols("x y z", Value)
xs, axis = symbols("xs", Values), symbols("axis", int)
rule = partial(rule, family="across")

RULES = [
    rule("push-unary", m(f(x)), f(m(x))),
    rule("pull-unary", f(m(x)), m(f(x))),
    rule("push-binary", m(g(x, y)), g(seen_by(m, x)(x), seen_by(m, y)(y))),
    rule("pull-binary-left", g(m(x), y), m(g(x, back(m, LHS, y)(y)))),
    rule("pull-binary-right", g(x, m(y)), m(g(back(m, LHS, x)(x), y))),
    rule("push-select", m(h(x, y, z)), h(seen_by(m, x)(x), seen_by(m, y)(y), seen_by(m, z)(z))),
    rule("pull-select-0", h(m(x), y, z), m(h(x, back(m, LHS, y)(y), back(m, LHS, z)(z)))),
    rule("pull-select-1", h(x, m(y), z), m(h(back(m, LHS, x)(x), y, back(m, LHS, z)(z)))),
    rule("pull-select-2", h(x, y, m(z)), m(h(back(m, LHS, x)(x), back(m, LHS, y)(y), z))),
    rule("push-axial", m(a(x)), let(pushed(m, a, x), lambda b, n: b(n(x)))),
    rule("pull-axial", a(m(x)), let(pulled(a, m, m(x)), lambda n, b: n(b(x)))),
    rule("push-concat", m(concat(xs)), let(concat_pushed(m, concat), lambda c, axis: c(each(resized(m, axis), xs)))),
    rule(
        "pull-concat",
        concat(xs[..., m(y), ...]),
        let(concat_pulled(concat, m, LHS), lambda n, c, t, b, axis: n(typed(c(each(resized(b, axis), xs)), t))),
    ),
    rule(
        "push-concat-rescale",
        rescale(concat(xs)),
        concat(each(rescale, xs)),
        where=beside_channels(rescale, concat, concat(xs)),
    ),
    rule("rescale-view", rescale(m(x)), m(regrouped(rescale, m, x)(x))),
    rule("resized", resized(m, axis)(x), adjusted(m, axis, x)(x)),
]
