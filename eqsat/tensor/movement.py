"""Data movement in a normal form: any chain of transposes and reshapes as one order of axes.

A `Move` says from which flat input position each element of a row-major output comes.
In its `axes`, axes of size 1 are dropped, and neighbours are merged if one stride continues the other.
That form is unique, so equal movements are equal objects.

>>> m = Move.transpose((1, 4, 4, 8), (0, 3, 1, 2))
>>> m.axes
((8, 1), (16, 8))
>>> m.then(m.inverse()).is_identity
True

A channel shuffle, a PixelShuffle or a chain of reshapes and transposes is a single Move.
Two reshapes without a common refinement (2x3 and 3x2) do not compose through a transpose: `then` is None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from eqsat.tensor.types import Array, Shape

#: (size, stride), in elements.
StridedAxis = tuple[int, int]


def _strides(shape: Sequence[int]) -> list[int]:
    out, step = [], 1
    for d in reversed(shape):
        out.append(step)
        step *= d
    return out[::-1]


def _canonical(axes: Sequence[StridedAxis]) -> tuple[StridedAxis, ...]:
    out: list[StridedAxis] = []
    for size, stride in axes:
        if size == 1:
            continue
        if out and out[-1][1] == size * stride:
            out[-1] = (out[-1][0] * size, stride)
        else:
            out.append((size, stride))
    return tuple(out)


def split(size: int, stride: int, boundaries: Sequence[int]) -> list[StridedAxis] | None:
    """Cuts an axis where it crosses a boundary, or returns None if it cannot be cut there.

    boundaries: strides of the space that the axis walks through.
    """
    pieces = []
    for b in sorted(boundaries, reverse=True):
        if stride < b < stride * size:
            if b % stride or (stride * size) % b:
                return None
            pieces.append((stride * size // b, b))
            size = b // stride
    pieces.append((size, stride))
    return pieces


@dataclass(frozen=True, slots=True)
class AtomicAxis:
    """One atomic axis of a Move, a factor of axis in_dim of the input and of out_dim of the output."""

    size: int
    in_dim: int
    out_dim: int
    in_stride: int
    out_stride: int


@dataclass(frozen=True, slots=True)
class Move:
    """A data movement from `in_shape` to `out_shape`.

    axes: (size, input stride in elements) from the outermost output axis to the innermost.
    """

    in_shape: Shape
    out_shape: Shape
    axes: tuple[StridedAxis, ...]

    @staticmethod
    def transpose(shape: Sequence[int], perm: Sequence[int]) -> Move:
        """Returns the movement of TOSA's TRANSPOSE: output axis i is input axis perm[i]."""
        s = _strides(shape)
        return Move(tuple(shape), tuple(shape[p] for p in perm), _canonical([(shape[p], s[p]) for p in perm]))

    @staticmethod
    def reshape(shape: Sequence[int], new_shape: Sequence[int]) -> Move:
        """Returns the movement of TOSA's RESHAPE. Raises ValueError if the numbers of elements differ."""
        if prod(shape) != prod(new_shape):
            raise ValueError(f"cannot reshape {tuple(shape)} to {tuple(new_shape)}")
        return Move(tuple(shape), tuple(new_shape), _canonical([(prod(shape), 1)]))

    @staticmethod
    def reorder(axes: Sequence[StridedAxis]) -> Move:
        """Returns a reordering of one axis, given (size, stride) of its factors from the outermost to the innermost."""
        size = prod(n for n, _ in axes)
        return Move((size,), (size,), _canonical(axes))

    @staticmethod
    def product(parts: Sequence[Move]) -> Move:
        """Returns movements of single axes, combined on the tensor that has all of these axes."""
        shape = tuple(prod(part.in_shape) for part in parts)
        strides = _strides(shape)
        axes = [(size, stride * strides[d]) for d, part in enumerate(parts) for size, stride in part.axes]
        return Move(shape, shape, _canonical(axes))

    def within(self, shape: Shape) -> list[Move] | None:
        """Returns the movements of single axes of `shape` whose product this is, but for views before and after.

        Returns None if it exchanges elements between these axes.
        """
        atoms = Move(shape, shape, self.axes).atoms()
        if atoms is None or any(a.in_dim != a.out_dim for a in atoms):
            return None
        strides = _strides(shape)
        return [
            Move((n,), (n,), _canonical([(a.size, a.in_stride // strides[d]) for a in atoms if a.in_dim == d]))
            for d, n in enumerate(shape)
        ]

    @property
    def is_view(self) -> bool:
        """Whether no element moves: a reshape."""
        return len(self.axes) <= 1

    @property
    def is_identity(self) -> bool:
        return self.is_view and self.in_shape == self.out_shape

    def inverse(self) -> Move:
        """Returns the movement from `out_shape` back to `in_shape`."""
        out = _strides([n for n, _ in self.axes])
        order = sorted(range(len(self.axes)), key=lambda i: -self.axes[i][1])
        return Move(self.out_shape, self.in_shape, _canonical([(self.axes[i][0], out[i]) for i in order]))

    def then(self, after: Move) -> Move | None:
        """Returns this movement followed by `after`, None if no single reordering of axes expresses it.

        Raises ValueError if the shapes between them differ.
        """
        if self.out_shape != after.in_shape:
            raise ValueError(f"cannot compose: {self.out_shape} is not {after.in_shape}")
        mid = _strides([n for n, _ in self.axes])
        axes: list[StridedAxis] = []
        for size, stride in after.axes:
            pieces = split(size, stride, mid)
            if pieces is None:
                return None
            for n, s in pieces:
                # The piece lies within the stretch of axis j in the space between the movements.
                j = next(i for i, m in enumerate(mid) if m <= s)
                if s % mid[j]:
                    return None
                axes.append((n, self.axes[j][1] * (s // mid[j])))
        return Move(self.in_shape, after.out_shape, _canonical(axes))

    @lru_cache(maxsize=65536)  # noqa: B019 - equal movements are asked again
    def atoms(self) -> tuple[AtomicAxis, ...] | None:
        """Returns the atomic axes in output order, cut at the axes of both shapes, None if these have no refinement."""
        ins, outs = _strides(self.in_shape), _strides(self.out_shape)
        out: list[AtomicAxis] = []
        position = prod(self.out_shape)
        for size, stride in self.axes:
            for n, s in split(size, stride, ins) or [(0, 0)]:
                if n == 0:
                    return None
                position //= n
                pieces = split(n, position, outs)
                if pieces is None:
                    return None
                for pn, ps in pieces:
                    if pn > 1:
                        step = s * (ps // position)
                        out.append(
                            AtomicAxis(pn, _dim(self.in_shape, ins, step), _dim(self.out_shape, outs, ps), step, ps)
                        )
        return tuple(out)

    def indices(self) -> Array:
        """Returns the flat input position of every output element, in out_shape."""
        index = np.zeros((1,), np.int64)
        for n, s in self.axes:
            index = (index[:, None] + np.arange(n) * s).reshape(-1)
        return index.reshape(self.out_shape)

    def apply(self, x: Array) -> Array:
        """Returns a tensor of `in_shape`, moved."""
        return np.asarray(x.reshape(self.out_shape) if self.is_view else x.reshape(-1)[self.indices()])

    # -- carrying a movement to other operands ----------------------------------------------------

    def restrict(self, operand: Shape) -> Move | None:
        """Returns this movement for an operand that broadcasts to `in_shape`.

        Returns None if an output axis would mix broadcast and real axes, so that the operand must be materialised.
        """
        if operand == self.in_shape:
            return self
        atoms = self.atoms()
        if atoms is None or len(operand) != len(self.in_shape):
            return None
        shape = list(self.out_shape)
        strides, kept = _strides(operand), []
        inner = _strides(self.in_shape)
        for dim in range(len(shape)):
            mine = [a for a in atoms if a.out_dim == dim]
            broadcasts = {operand[a.in_dim] == 1 for a in mine}
            if len(broadcasts) == 2:
                return None
            if broadcasts == {True}:
                shape[dim] = 1
            kept += [
                (a.size, a.in_stride // inner[a.in_dim] * strides[a.in_dim]) for a in mine if broadcasts == {False}
            ]
        return Move(tuple(operand), tuple(shape), _canonical(kept))

    def whole(self, in_dim: int) -> AtomicAxis | None:
        """Returns the atom that is all of `in_dim` and outermost within its output axis, or None."""
        atoms = self.atoms() or ()
        found = [a for a in atoms if a.in_dim == in_dim]
        if len(found) != 1 or found[0].size != self.in_shape[in_dim]:
            return None
        atom = found[0]
        outer = [a for a in atoms if a.out_dim == atom.out_dim and a.out_stride > atom.out_stride]
        return None if outer else atom

    def resize(self, sizes: Mapping[int, int], units: Mapping[int, int] | None = None) -> Move | None:
        """Returns this reordering for an input with other sizes of some axes.

        sizes: new size by input axis; each of these axes must be unsplit.
        units: output axis of size 1 by input axis of size 1.
        An input axis of size 1 grows only there, since it has no place in the order.
        """
        sizes = {d: n for d, n in sizes.items() if self.in_shape[d] != n}
        if not sizes:
            return self
        atoms, units = self.atoms(), units or {}
        if atoms is None or any(self.in_shape[d] == 1 and self.out_shape[units.get(d, -1)] != 1 for d in sizes):
            return None
        in_shape = tuple(sizes.get(d, n) for d, n in enumerate(self.in_shape))
        out_shape = [1] * len(self.out_shape)
        old, new = _strides(self.in_shape), _strides(in_shape)
        axes = []
        for a in atoms:
            if a.in_dim in sizes and a.size != self.in_shape[a.in_dim]:
                return None
            size = sizes.get(a.in_dim, a.size)
            axes.append((a.out_dim, (size, a.in_stride // old[a.in_dim] * new[a.in_dim])))
            out_shape[a.out_dim] *= size
        for d in sizes:
            if self.in_shape[d] == 1:
                axes.append((units[d], (sizes[d], new[d])))
                out_shape[units[d]] = sizes[d]
        # The sort is stable, so atoms of one axis keep their order.
        axes.sort(key=lambda axis: axis[0])
        return Move(in_shape, tuple(out_shape), _canonical([axis for _, axis in axes]))

    # -- as one transpose -------------------------------------------------------------------------

    def squeeze(self) -> tuple[Shape, tuple[int, ...]]:
        """Returns (shape, perm) of the smallest equal transpose, between reshapes to `shape` and to `out_shape`."""
        order = sorted(range(len(self.axes)), key=lambda i: -self.axes[i][1])
        return tuple(self.axes[i][0] for i in order), tuple(order.index(i) for i in range(len(self.axes)))

    def direct(self) -> tuple[int, ...] | None:
        """Returns the perm of one transpose from in_shape to out_shape without reshapes, or None."""
        if len(self.in_shape) != len(self.out_shape):
            return None
        atoms = self.atoms()
        if atoms is None:
            return None
        source: dict[int, int] = {}
        for a in atoms:
            if a.size != self.in_shape[a.in_dim] or a.out_dim in source:
                return None
            source[a.out_dim] = a.in_dim
        units = iter([d for d, n in enumerate(self.in_shape) if n == 1])
        return tuple(source[d] if d in source else next(units) for d in range(len(self.out_shape)))


def _dim(shape: Shape, strides: Sequence[int], position: int) -> int:
    """Returns the axis, longer than 1, whose stretch of the flat space contains `position`."""
    return next(d for d, (n, s) in enumerate(zip(shape, strides, strict=True)) if n > 1 and s <= position < s * n)
