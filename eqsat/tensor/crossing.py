"""Exchanges data movement with the operators that act along axes, in both directions.

An axis of size 1 has no place in a `Move`.
If an operator acts along one (a TILE that repeats, a stack of tensors), the movement first gets
a shape in which that axis exists.
That is a view, which costs nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod

from eqsat.tensor.movement import Move
from eqsat.tensor.ops import OPS, infer
from eqsat.tensor.ops.op import AxisPlacement
from eqsat.tensor.types import Attrs, GraphError, Shape, Type, attrs_of

#: Most axes of a tensor (TOSA 1.0, level 8K).
MAX_RANK = 6


def acts_along(op: str, attrs: Attrs, shape: Shape) -> tuple[int, ...]:
    """Returns the axes of an operand of this shape along which an axial operator acts.

    Raises GraphError for other operators.
    """
    along = OPS[op].along
    if along is None:
        raise GraphError(f"{op} acts along no axes")
    return along.axes(dict(attrs), shape)


def carry(
    op: str, attrs: Attrs, operand: Type, m: Move, units: Mapping[int, int] | None = None
) -> tuple[Attrs, Move] | None:
    """Returns (attrs', m') with Move m' (op attrs y) = op attrs' (Move m y), or None.

    An axis that the operator acts along must stay whole and be outermost within its new axis.
    Then a slice or pad of it is one of the new axis, scaled by the size of what lies inside.
    operand: the type of y.
    units: {axis of size 1 of the operand: the axis of size 1 of `m.out_shape` that it becomes}.
    Raises GraphError for an operator that is not axial.
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
    """Returns (attrs', m') with Move m (op attrs x) = op attrs' (Move m' x), or None.

    operand: the type of x.
    Raises GraphError for an operator that is not axial.
    """
    axes = acts_along(op, attrs, operand.shape)
    # The operator drops axes, whose places in m' are open; `pull` finds all that there is to gain.
    if len(m.in_shape) < len(operand.shape):
        return None
    shrunk = [d for d in axes if m.in_shape[d] == 1 and operand.shape[d] != 1]
    free = [d for d, n in enumerate(m.out_shape) if n == 1]
    if len(shrunk) > len(free):
        return None
    before = m.resize({d: operand.shape[d] for d in axes}, dict(zip(shrunk, free)))
    carried = None if before is None else carry(op, attrs, operand, before)
    return None if before is None or carried is None or carried[1] != m else (carried[0], before)


def pull(op: str, attrs: Attrs, m: Move, operand: Type) -> tuple[Move, Attrs] | None:
    """Returns (m', attrs') with op attrs (Move m x) = Move m' (op attrs' x), or None.

    operand: the type of Move m x.
    Raises GraphError for an operator that is not axial.
    """
    carried = carry(op, attrs, operand, m.inverse())
    return None if carried is None else (carried[1].inverse(), carried[0])


# ---- unit axes ----------------------------------------------------------------------------------


def pull_units(op: str, attrs: Attrs, m: Move, operand: Type) -> list[tuple[Move, Attrs, Move]]:
    """Returns all (m', attrs', view) with op attrs (Move m x) = Move m' (op attrs' (Move view x)).

    operand: the type of Move m x.
    The operator acts along axes of size 1 of it; without such axes there are no answers.
    They may stand next to what the axes before them become, or next to what those after them become.
    Raises GraphError for an operator that is not axial.
    """
    units = [d for d in acts_along(op, attrs, operand.shape) if operand.shape[d] == 1]
    out = []
    for back, to in _opened(m.inverse(), units):
        carried = carry(op, attrs, operand, back, to)
        if carried is not None:
            out.append((carried[1].inverse(), carried[0], Move.reshape(m.in_shape, back.out_shape)))
    return out


def push_units(m: Move, op: str, attrs: Attrs, operand: Type) -> tuple[Move, Attrs, Move] | None:
    """Returns (view, attrs', m') with Move m (op attrs x) = Move view (op attrs' (Move m' x)).

    operand: the type of x.
    Returns None if the operator makes no axis of size 1 of x longer, or if there is no such form.
    Raises GraphError for an operator that is not axial.
    """
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
    """Returns `m` with an axis of size 1 in its out_shape for some axes of its input.

    units: these axes of the input.
    There are up to two such movements, each with {axis of the input: axis of the out_shape}.
    In one the new axes stand right inside what the axes before them become.
    In the other they stand right outside what the axes after them become.
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
    """Returns `m` with one axis of its out_shape for each of some axes of its input.

    The second result is {axis of the input: axis of the out_shape}.
    Returns None if there are no such axes, if one is split, or if the rank is above `MAX_RANK`.
    """
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
    """Returns `shape` with its axes cut wherever one of the strides lies within.

    strides: those of atoms, in elements.
    """
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
    """Returns the movements m_0, m_1, ... of all operands and then that of the result.

    They fulfil op (m_0 x_0) (m_1 x_1) ... = m_last (op x_0 x_1 ...).
    m: the movement of operand k, or of the result if k is -1.
    types: of the operands and the result.
    Returns None if the axes of the operator have no roles.
    Returns None if `m` exchanges elements between axes or moves an axis that the operator acts along.
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
    """Returns (axis', m', view) for a movement of a CONCAT whose operands have size 1 along its axis.

    They fulfil Move m (concat axis xs) = Move view (concat axis' of the operands, moved by m').
    For each operand m' is resized to its size along `axis`.
    first: the type of the first operand.
    Returns None if its size is not 1, or if there is no such form.
    """
    parted = _parted(m, [axis] if first.shape[axis] == 1 else [])
    return None if parted is None else (parted[1][axis], parted[0], Move.reshape(parted[0].out_shape, m.out_shape))


def concat_pull(axis: int, m: Move, result: Type) -> list[tuple[int, Move]]:
    """Returns all (axis', w) with concat axis (.., Move m y, ..) = Move w' (concat axis' ys).

    w moves the whole result, and w' is its inverse.
    The ys are the operands moved by w, which is resized to the size of each along `axis`.
    result: the type of the CONCAT.
    If Move m y has size 1 along `axis`, that axis may stand next to the one before it or after it.
    """
    back = m.inverse()
    options = _opened(back, [axis]) if m.out_shape[axis] == 1 else [(back, {})]
    out = []
    for moved, to in options:
        whole = moved.resize({axis: result.shape[axis]}, to)
        atom = whole.whole(axis) if whole and whole.in_shape == result.shape else None
        if whole is not None and atom is not None:
            out.append((atom.out_dim, whole))
    return out
