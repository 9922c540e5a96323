"""How data movement crosses the operators that act along axes, in both directions.

An axis of size 1 has no place in a `Move`. Where an operator acts along one (a TILE that repeats, a stack of tensors),
the movement is first given a shape in which that axis exists: a view, which costs nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod

from eqsat.tensor.movement import Move
from eqsat.tensor.ops import OPS, infer
from eqsat.tensor.ops.op import AxisPlacement
from eqsat.tensor.types import Attrs, GraphError, Shape, Type, attrs_of

#: The most axes that a tensor has (TOSA 1.0, level 8K).
MAX_RANK = 6


def acts_along(op: str, attrs: Attrs, shape: Shape) -> tuple[int, ...]:
    """Axes of the operand, of this shape, that an axial operator acts along. Raises GraphError for others."""
    along = OPS[op].along
    if along is None:
        raise GraphError(f"{op} acts along no axes")
    return along.axes(dict(attrs), shape)


def carry(
    op: str, attrs: Attrs, operand: Type, m: Move, units: Mapping[int, int] | None = None
) -> tuple[Attrs, Move] | None:
    """(attrs', m') with Move m' (op attrs y) = op attrs' (Move m y) for y of type `operand`, or None.

    An axis that the operator acts along must stay in one piece and outermost within its new axis: then a slice or pad
    of it is a slice or pad of that one, scaled by what lies inside. `units`: for axes of size 1 the axis of size 1 of
    `m.out_shape` that each becomes.
    """
    along = OPS[op].along
    axes = acts_along(op, attrs, operand.shape)
    if along is None or m.in_shape != operand.shape:
        return None
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
    changed = along.across(dict(attrs), AxisPlacement(m.out_shape, to, inner))
    if changed is None:
        return None
    result = infer(op, attrs, [operand]).shape
    drops = len(result) < len(operand.shape)
    after = m.resize({d: 1 if drops else result[d] for d in axes}, units or {})
    if after is not None and drops:
        after = Move(_without(after.in_shape, axes), _without(after.out_shape, to.values()), after.axes)
    return None if after is None else (attrs_of({**dict(attrs), **changed}), after)


def _without(shape: Shape, axes: Collection[int]) -> Shape:
    return tuple(n for d, n in enumerate(shape) if d not in axes)


def push(m: Move, op: str, attrs: Attrs, operand: Type) -> tuple[Attrs, Move] | None:
    """(attrs', m') with Move m (op attrs x) = op attrs' (Move m' x) for x of type `operand`, or None."""
    axes = acts_along(op, attrs, operand.shape)
    if len(m.in_shape) < len(operand.shape):
        return None  # where an axis that the operator drops would go is open: pull leads to all there is to gain
    shrunk = [d for d in axes if m.in_shape[d] == 1 and operand.shape[d] != 1]
    free = [d for d, n in enumerate(m.out_shape) if n == 1]
    if len(shrunk) > len(free):
        return None
    before = m.resize({d: operand.shape[d] for d in axes}, dict(zip(shrunk, free)))
    carried = None if before is None else carry(op, attrs, operand, before)
    return None if before is None or carried is None or carried[1] != m else (carried[0], before)


def pull(op: str, attrs: Attrs, m: Move, operand: Type) -> tuple[Move, Attrs] | None:
    """(m', attrs') with op attrs (Move m x) = Move m' (op attrs' x) for Move m x of type `operand`, or None."""
    carried = carry(op, attrs, operand, m.inverse())
    return None if carried is None else (carried[1].inverse(), carried[0])


# ---- unit axes ----------------------------------------------------------------------------------


def pull_units(op: str, attrs: Attrs, m: Move, operand: Type) -> list[tuple[Move, Attrs, Move]]:
    """All (m', attrs', view) with op attrs (Move m x) = Move m' (op attrs' (Move view x)) for Move m x of type
    `operand`, where the operator acts along unit axes of it: they may stand beside the axis before them or the one
    after."""
    units = [d for d in acts_along(op, attrs, operand.shape) if operand.shape[d] == 1]
    out = []
    for back, to in _opened(m.inverse(), units):
        carried = carry(op, attrs, operand, back, to)
        if carried is not None:
            out.append((carried[1].inverse(), carried[0], Move.reshape(m.in_shape, back.out_shape)))
    return out


def push_units(m: Move, op: str, attrs: Attrs, operand: Type) -> tuple[Move, Attrs, Move] | None:
    """(view, attrs', m') with Move m (op attrs x) = Move view (op attrs' (Move m' x)) for x of type `operand`, where
    the operator makes unit axes of x longer; None where it does not, or cannot."""
    axes = acts_along(op, attrs, operand.shape)
    if len(m.in_shape) < len(operand.shape):
        return None
    parted = _parted(m, [d for d in axes if operand.shape[d] == 1 < m.in_shape[d]])
    if parted is None:
        return None
    whole, to = parted
    before = whole.resize({d: operand.shape[d] for d in axes})
    carried = None if before is None else carry(op, attrs, operand, before, to)
    if before is None or carried is None or carried[1] != whole:
        return None
    return Move.reshape(whole.out_shape, m.out_shape), carried[0], before


def _opened(m: Move, units: Sequence[int]) -> list[tuple[Move, dict[int, int]]]:
    """`m` with an axis of size 1 in its out_shape for each of the input's axes `units`, and which: with all inside what
    the axes before them become, and with all outside what the axes after them become."""
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
    """`shape` with an axis of size 1 at each of `strides`, and which: the innermost that is there, or a new one."""
    shape = _cut(shape, set(strides.values()))
    to: dict[int, int] = {}
    for d, stride in strides.items():
        there = [k for k, n in enumerate(shape) if n == 1 and prod(shape[k:]) == stride and k not in to.values()]
        place = there[-1] if there else next((k for k in range(len(shape)) if prod(shape[k:]) <= stride), len(shape))
        if not there:
            shape = (*shape[:place], 1, *shape[place:])
            to = {e: k + (k >= place) for e, k in to.items()}
        to[d] = place
    return shape, to


def _parted(m: Move, axes: Sequence[int]) -> tuple[Move, dict[int, int]] | None:
    """`m` with an axis of its out_shape for each of the input's `axes` alone; and which. None if there are none or one
    is split."""
    atoms = m.atoms()
    if atoms is None or not axes:
        return None
    whole = {d: [a for a in atoms if a.in_dim == d] for d in axes}
    if any(len(found) != 1 for found in whole.values()):
        return None
    shape = _cut(m.out_shape, {s for (a,) in whole.values() for s in (a.out_stride, a.out_stride * a.size)})
    if len(shape) > MAX_RANK:
        return None
    to = {
        d: next(k for k, n in enumerate(shape) if n > 1 and prod(shape[k + 1 :]) == a.out_stride)
        for d, (a,) in whole.items()
    }
    return Move(m.in_shape, shape, m.axes), to


def _cut(shape: Shape, strides: set[int]) -> Shape:
    """`shape` with its axes cut wherever one of `strides`, which are those of atoms, lies within."""
    out: list[int] = []
    for k, n in enumerate(shape):
        step = prod(shape[k + 1 :])
        for s in sorted((s for s in strides if step < s < step * n), reverse=True):
            out.append(step * n // s)
            n = s // step
        out.append(n)
    return tuple(out)


# ---- roles of axes --------------------------------------------------------------------------


def by_roles(op: str, m: Move, k: int, types: Sequence[Type]) -> tuple[Move, ...] | None:
    """For an operator whose axes have roles and a movement `m` of operand `k`, or of the result for -1: the movements
    of all operands and, last, of the result, with op (m_0 x_0) (m_1 x_1) .. = m_last (op x_0 x_1 ..).

    types: of the operands and the result. None where `m` does not keep every axis in its place, or touches one that
    the operator acts along.
    """
    roles = OPS[op].roles
    parts = m.within()
    if roles is None or parts is None:
        return None
    tensors = roles.replace("->", ",").split(",")
    of = dict(zip(tensors[k], parts, strict=True))
    if any(letter.isupper() and not part.is_identity for letter, part in of.items()):
        return None
    return tuple(
        Move.product([of.get(letter) or Move.reshape((n,), (n,)) for letter, n in zip(names, t.shape, strict=True)])
        for names, t in zip(tensors, types, strict=True)
    )


# ---- concat -------------------------------------------------------------------------------------


def concat_push_units(m: Move, axis: int, first: Type) -> tuple[int, Move, Move] | None:
    """(axis', m', view) with Move m (concat axis xs) = Move view (concat axis' of the xs moved by m' resized to each
    along `axis`), where the operands, the first of type `first`, are 1 long there; None where they are not, or it is
    split."""
    parted = _parted(m, [axis] if first.shape[axis] == 1 else [])
    return None if parted is None else (parted[1][axis], parted[0], Move.reshape(parted[0].out_shape, m.out_shape))


def concat_pull(axis: int, m: Move, result: Type) -> list[tuple[int, Move]]:
    """All (axis', w) with concat axis (.., Move m y, ..) = Move w' (concat axis' of the operands moved by w resized to
    each along `axis`), w' the inverse of w, which moves the whole result. Where Move m y is 1 long, that axis may stand
    beside the one before it or the one after."""
    back = m.inverse()
    options = _opened(back, [axis]) if m.out_shape[axis] == 1 else [(back, {})]
    out = []
    for moved, to in options:
        whole = moved.resize({axis: result.shape[axis]}, to)
        atom = whole.whole(axis) if whole and whole.in_shape == result.shape else None
        if whole is not None and atom is not None:
            out.append((atom.out_dim, whole))
    return out
