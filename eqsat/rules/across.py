"""Rules that exchange data movement (transposes and reshapes) with operators of one operand and with CONCAT, in both
directions.

A "push" rule moves a movement from the result of an operator to its operands; a "pull" rule moves it from one operand
to the result.
A pull applies the inverse movement to all other operands, and each inverse cancels when it meets its counterpart.

An axis of size 1 has no place in a `Move`. If an operator acts along such an axis (a TILE that repeats, a stack of
tensors), the movement first gets a shape in which the axis exists, by a view, which costs nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from math import prod

import numpy as np

from eqsat.egraph.kinds import Axial, Call, ChannelRescale, Concat, Operator, Single, Value, Values
from eqsat.egraph.rule import rule
from eqsat.egraph.terms import LHS, each, extern, let, postpone, symbols
from eqsat.tensor.movement import Move, split
from eqsat.tensor.ops import OPS
from eqsat.tensor.ops.op import NOWHERE, Along, AxisPlacement
from eqsat.tensor.types import Shape, Type

#: Maximum number of axes of a tensor (TOSA 1.0, level 8K).
MAX_RANK = 6


def along_of(call: Call) -> Along:
    """Returns how an operator acts along axes; a pointwise one acts along none."""
    return OPS[call.op].along or NOWHERE


def axes_of(call: Call, operand: Type) -> tuple[int, ...]:
    """Returns the axes of an operand along which an operator acts."""
    return along_of(call).axes(dict(call.attrs), operand.shape)


def carry(
    call: Operator, operand: Type, result: Shape, m: Move, units: Mapping[int, int] | None = None
) -> tuple[Operator, Move] | None:
    """Returns (call', m') with m' (call y) = call' (m y), or None.

    An axis that the operator acts along must stay whole and be outermost within its new axis.
    Then a slice or pad of it is one of the new axis, scaled by the size of what lies inside.
    operand, result: the type of y, and the shape of call y; for a CONCAT, y is one of its operands.
    units: {axis of size 1 of the operand: the axis of size 1 of `m.out_shape` that it becomes}.
    """
    axes, names = axes_of(call, operand), along_of(call).following
    if m.in_shape != operand.shape:
        return None
    if axes and names:
        channels = _channels(m)
        return None if channels is None else (take_along(call, channels), m)
    to, inner = {}, {}
    for d in axes:
        if units is not None and d in units:
            to[d], inner[d] = units[d], 1
        else:
            atom = m.whole(d)
            if atom is None:
                return None
            to[d], inner[d] = atom.out_dim, m.out_shape[atom.out_dim] // operand.shape[d]
    if len(set(to.values())) != len(to):
        return None
    changed = along_of(call).across(dict(call.attrs), AxisPlacement(m.out_shape, to, inner))
    if changed is None:
        return None
    drops = len(result) < len(operand.shape)
    after = m.resize({d: 1 if drops else result[d] for d in axes}, units or {})
    if after is not None and drops:
        after = Move(_without(after.in_shape, axes), _without(after.out_shape, to.values()), after.axes)
    return None if after is None else (call.with_attrs(**changed), after)


def _channels(m: Move) -> tuple[int, ...] | None:
    """Returns the index along m's last input axis for each index along its last output axis, or None if other axes
    decide too.

    Therefore m may join channels with elements outside of them, or reorder them.
    """
    back = m.inverse()
    atoms, last, out = back.atoms(), len(back.in_shape) - 1, len(back.out_shape) - 1
    if atoms is None or last < 0 or any(a.in_dim != last for a in atoms if a.out_dim == out):
        return None
    index = np.zeros(back.in_shape[-1], np.int64)
    for a in (a for a in atoms if a.out_dim == out):
        index += np.arange(len(index)) // a.in_stride % a.size * a.out_stride
    return tuple(index.tolist())


def take_along(call: Operator, index: Sequence[int]) -> Operator:
    """Returns an operator whose attributes that follow an axis have only the elements at `index`."""
    return call.with_attrs(**{name: tuple(call.attr(name)[k] for k in index) for name in along_of(call).following})


@extern
def reorder(m: Move, call: ChannelRescale) -> ChannelRescale | None:
    """Returns call' such that m (call x) = call' (m x), where m reorders the channels."""
    channels = _channels(m)
    return None if channels is None else take_along(call, channels)


def _without(shape: Shape, axes: Collection[int]) -> Shape:
    return tuple(n for d, n in enumerate(shape) if d not in axes)


@extern
def push(m: Move, call: Operator, operand: Type) -> tuple[Operator, Move] | None:
    """Returns call' and m' such that m (call x) = call' (m' x).

    call' acts on the axis where m puts the axis of call.
    For a CONCAT, x is its result, and `adjust` gives the movement of each operand.
    """
    axes = axes_of(call, operand)
    # The operator drops axes, whose places in m' are open; `pull` finds all that there is to gain.
    if len(m.in_shape) < len(operand.shape):
        return None
    # Attributes that follow an axis are repeated towards the operands only, by `pull`.
    if axes and along_of(call).following and m.in_shape[-1:] != m.out_shape[-1:]:
        return None
    shrunk = [d for d in axes if m.in_shape[d] == 1 and operand.shape[d] != 1]
    free = [d for d, n in enumerate(m.out_shape) if n == 1]
    if len(shrunk) > len(free):
        return None
    before = m.resize({d: operand.shape[d] for d in axes}, dict(zip(shrunk, free)))
    carried = None if before is None else carry(call, operand, m.in_shape, before)
    return None if before is None or carried is None or carried[1] != m else (carried[0], before)


@extern
def pull(call: Operator, m: Move, moved: Type, result: Type) -> tuple[Move, Operator] | None:
    """Returns m' and call' such that call (m x) = m' (call' x).

    For a CONCAT, m x is one of its operands, and all get the inverse of m', adjusted to them.
    """
    carried = carry(call, moved, result.shape, m.inverse())
    return None if carried is None else (carried[1].inverse(), carried[0])


# ---- unit axes ----------------------------------------------------------------------------------


@extern
def units_pulled(call: Operator, m: Move, moved: Type, result: Type) -> list[tuple[Move, Operator]]:
    """Returns m' and call' such that call (m x) = m' (call' (m'' m x)), where call acts along axes of size 1.

    m'' is the inverse of m', adjusted to m x.
    m' puts each of these axes beside the axis before it or the axis after it, which gives several results.
    """
    units = [d for d in axes_of(call, moved) if moved.shape[d] == 1 and len(result.shape) == len(moved.shape)]
    carried = (carry(call, moved, result.shape, back, to) for back, to in _open_axes(m.inverse(), units))
    return [(found[1].inverse(), found[0]) for found in carried if found is not None]


@extern
def units_pushed(m: Move, call: Operator, operand: Type) -> tuple[Move, Operator, Move] | None:
    """Returns a view, call' and m' such that m (call x) = view (call' (m'' x)), where call lengthens axes of size 1.

    call' acts on separate axes, and m'' is m' adjusted to x.
    """
    if len(m.in_shape) < len(operand.shape):
        return None
    axes = axes_of(call, operand)
    parted = _split_axes(m, [d for d in axes if operand.shape[d] == 1 < m.in_shape[d]])
    if parted is None:
        return None
    whole, to = parted
    before = whole.resize({d: operand.shape[d] for d in axes})
    carried = None if before is None else carry(call, operand, m.in_shape, before, to)
    if carried is None or carried[1] != whole:
        return None
    return Move.reshape(whole.out_shape, m.out_shape), carried[0], whole


def _open_axes(m: Move, units: Sequence[int]) -> list[tuple[Move, dict[int, int]]]:
    """Returns `m` with an axis of size 1 in its out_shape for some axes of its input.

    units: these axes of the input.
    There are up to two such movements, each with {axis of the input: axis of the out_shape}: the new axes stand right
    inside what the axes before them become, or right outside what the axes after them become.
    """
    atoms = m.atoms()
    if atoms is None or not units:
        return []
    elements = prod(m.out_shape)
    inside = {
        d: min(((a.in_stride, a.out_stride) for a in atoms if a.in_dim < d), default=(0, elements))[1] for d in units
    }
    outside = {
        d: max(((a.in_stride, a.out_stride * a.size) for a in atoms if a.in_dim > d), default=(0, 1))[1] for d in units
    }
    found = (_with_units(m.out_shape, strides) for strides in (inside, outside)[: 1 + (inside != outside)])
    return [(Move(m.in_shape, shape, m.axes), to) for shape, to in found if len(shape) <= MAX_RANK]


def _with_units(shape: Shape, strides: Mapping[int, int]) -> tuple[Shape, dict[int, int]]:
    """Returns `shape` with an axis of size 1 at some strides, and {axis of the input: that axis}.

    strides: {axis of the input: stride in elements}.
    The axis is the innermost one of size 1 that is there and free, or a new one.
    """
    shape = _cut_axes(shape, set(strides.values()))
    to: dict[int, int] = {}
    for d, stride in strides.items():
        there = [k for k, n in enumerate(shape) if n == 1 and prod(shape[k:]) == stride and k not in to.values()]
        place = there[-1] if there else next((k for k in range(len(shape)) if prod(shape[k:]) <= stride), len(shape))
        if not there:
            shape = (*shape[:place], 1, *shape[place:])
            to = {e: k + (k >= place) for e, k in to.items()}
        to[d] = place
    return shape, to


def _split_axes(m: Move, axes: Sequence[int]) -> tuple[Move, dict[int, int]] | None:
    """Returns `m` with one axis of its out_shape for each of some axes of its input, and {input axis: that axis}.

    Returns None if there are no such axes, if one is split, or if the rank is above `MAX_RANK`.
    """
    atoms = m.atoms()
    if atoms is None or not axes:
        return None
    whole = {d: [a for a in atoms if a.in_dim == d] for d in axes}
    if any(len(found) != 1 for found in whole.values()):
        return None
    shape = _cut_axes(m.out_shape, {s for (a,) in whole.values() for s in (a.out_stride, a.out_stride * a.size)})
    if len(shape) > MAX_RANK:
        return None
    to = {
        d: next(k for k, n in enumerate(shape) if n > 1 and prod(shape[k + 1 :]) == a.out_stride)
        for d, (a,) in whole.items()
    }
    return Move(m.in_shape, shape, m.axes), to


def _cut_axes(shape: Shape, strides: set[int]) -> Shape:
    """Returns `shape` with its axes cut wherever one of the strides, those of atoms in elements, lies within."""
    out: list[int] = []
    for k, n in enumerate(shape):
        pieces = split(n, prod(shape[k + 1 :]), tuple(strides))
        assert pieces is not None, "strides of atoms divide axes"
        out += [size for size, _ in pieces]
    return tuple(out)


#: A movement of the result of an operator adjusted to one of its operands, by the rule "resized".
resized = postpone("resized", Move, Call)


@extern
def adjust(m: Move, call: Call, operand: Type) -> Move | None:
    """Returns the movement that has the effect of `m` on an operand of other sizes along the axes of the operator."""
    found = m.resize({d: operand.shape[d] for d in axes_of(call, operand)})
    return None if found is None or found.in_shape != operand.shape else found


@extern
def inverse(m: Move) -> Move:
    """Returns the movement that undoes `m`."""
    return m.inverse()


m, call, concat = symbols("m", Move), symbols("call", Call), symbols("concat", Concat)
f, a = symbols("f", Single), symbols("a", Axial)
x, y, xs = symbols("x", Value), symbols("y", Value), symbols("xs", Values)
rule = partial(rule, family="across")

RULES = [
    rule("push-unary", m(f(x)), let(push(m, f, x), lambda h, n: h(n(x)))),
    rule("pull-unary", f(m(x)), let(pull(f, m, m(x), LHS), lambda n, h: n(h(x)))),
    rule("push-units", m(a(x)), let(units_pushed(m, a, x), lambda v, h, n: v(h(resized(n, a)(x))))),
    rule("pull-units", a(m(x)), let(units_pulled(a, m, m(x), LHS), lambda n, h: n(h(resized(inverse(n), a)(m(x)))))),
    rule(
        "push-concat",
        m(concat(xs)),
        let(push(m, concat, concat(xs)), lambda c, n: c(each(resized(n, concat), xs))),
    ),
    *(
        rule(
            f"pull-concat{of_units}",
            concat(xs[..., m(y), ...]),
            let(pull(concat, m, m(y), LHS), lambda n, c: n(c(each(resized(inverse(n), concat), xs)))),
        )
        for of_units, pull in (("", pull), ("-units", units_pulled))
    ),
    rule(
        "push-concat-units",
        m(concat(xs[x, ...])),
        let(units_pushed(m, concat, x), lambda v, c, n: v(c(each(resized(n, concat), xs)))),
    ),
    rule("resized", resized(m, call)(x), adjust(m, call, x)(x)),
]
