"""GATHER and SCATTER, which pick positions, and RESIZE, whose positions lie on a grid between the elements.

Vela estimates GATHER and RESIZE at 0 cycles, so no rule may make one: it would replace all data movement.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eqsat.tensor.ops.op import Along, Attributes, AxisPlacement, alike, define, wide
from eqsat.tensor.types import Allowed, Array, DType, GraphError, Shape, Type

#: Values of ResizeMode in the TOSA schema.
NEAREST, BILINEAR = 1, 2


def _fits(indices: Type, *others: Type) -> None:
    if indices.dtype != "INT32":
        raise GraphError(f"indices are {indices.dtype}, not INT32")
    alike(others)


def _positions(values: Shape, distinct: bool = False) -> Allowed:
    """Returns the positions that TOSA allows in values [N, K, C]; where elements are written, none occurs twice."""
    return Allowed(0, values[1] - 1, distinct=distinct)


def _at(values: Array, indices: Array, distinct: bool = False) -> tuple[Array, Array]:
    """Returns numpy's indices for the positions of each batch; raises GraphError if some are not allowed."""
    if why_not := _positions(values.shape, distinct).why_not(indices):
        raise GraphError(f"positions {why_not}")
    return np.arange(len(values))[:, None], wide(indices)


def _gather(attrs: Attributes, xs: Sequence[Type]) -> Type:
    (n, _, c), (m, w) = xs[0].shape, xs[1].shape
    _fits(xs[1], xs[0])
    if n != m:
        raise GraphError(f"{n} batches of values and {m} of indices")
    return Type((n, w, c), xs[0].dtype)


def _scatter(attrs: Attributes, xs: Sequence[Type]) -> Type:
    (n, _, c), (m, w) = xs[0].shape, xs[1].shape
    _fits(xs[1], xs[0], xs[2])
    if n != m or xs[2].shape != (n, w, c):
        raise GraphError(f"values {xs[0].shape}, indices {xs[1].shape} and {xs[2].shape} to write do not fit")
    return xs[0]


def _evaluate_scatter(attrs: Attributes, xs: Sequence[Array], t: Type) -> Array:
    values, indices, written = xs
    out = values.copy()
    out[_at(values, indices, distinct=True)] = written
    return out


define(
    "indexed",
    "gather",
    2,
    _gather,
    lambda attrs, xs, t: xs[0][_at(xs[0], xs[1])],
    copies=True,
    roles="nKc,nw->nwc",
    allowed=lambda attrs, xs: {1: _positions(xs[0].shape)},
)
define(
    "indexed",
    "scatter",
    3,
    _scatter,
    _evaluate_scatter,
    copies=True,
    roles="nKc,nw,nwc->nKc",
    allowed=lambda attrs, xs: {1: _positions(xs[0].shape, distinct=True)},
)


# ---- resize -------------------------------------------------------------------------------------


def _resize_axis(size: int, scale: Sequence[int], offset: int, border: int) -> int:
    numerator, denominator = scale
    if min(numerator, denominator) < 1:
        raise GraphError(f"the scale {numerator}/{denominator} is not above 0")
    steps = (size - 1) * numerator - offset + border
    if steps < 0 or steps % denominator:
        raise GraphError(
            f"{size} elements at the scale {numerator}/{denominator}, offset {offset}, border {border} give no whole number"
        )
    return steps // denominator + 1


def _resize(attrs: Attributes, xs: Sequence[Type]) -> Type:
    n, h, w, c = xs[0].shape
    scale, offset, border = attrs["scale"], attrs["offset"], attrs["border"]
    height = _resize_axis(h, scale[:2], offset[0], border[0])
    width = _resize_axis(w, scale[2:], offset[1], border[1])
    dtype = xs[0].dtype if attrs["mode"] == NEAREST else DType.of(xs[0].dtype).accumulator
    return Type((n, height, width, c), dtype)


def grid(size: int, most: int, scale: Sequence[int], offset: int) -> tuple[Array, Array, Array]:
    """Returns for each element of the result along one axis: the positions before and after it, and its distance.

    size, most: elements of the result and of the input along the axis.
    The distance is from the position before it, in parts of the scale's numerator.
    """
    place = np.arange(size) * scale[1] + offset
    before = place // scale[0]
    return np.clip(before, 0, most - 1), np.clip(before + 1, 0, most - 1), place - before * scale[0]


def _interpolate(attrs: Attributes, xs: Sequence[Array], t: Type) -> Array:
    """Returns the nearest element, or for BILINEAR a sum of four products, scaled up by both numerators (TOSA 1.0)."""
    x, scale, offset = xs[0], attrs["scale"], attrs["offset"]
    y0, y1, dy = grid(t.shape[1], x.shape[1], scale[:2], offset[0])
    x0, x1, dx = grid(t.shape[2], x.shape[2], scale[2:], offset[1])
    if attrs["mode"] == NEAREST:
        rows, columns = np.where(2 * dy >= scale[0], y1, y0), np.where(2 * dx >= scale[2], x1, x0)
        return x[:, rows][:, :, columns]
    values = x if x.dtype.kind == "f" else wide(x)
    (uy, ux), (vy, vx) = (scale[0] - dy, scale[2] - dx), (dy, dx)
    total: Array = sum(
        values[:, rows][:, :, columns] * (along_y[:, None, None] * along_x[:, None])
        for rows, along_y in ((y0, uy), (y1, vy))
        for columns, along_x in ((x0, ux), (x1, vx))
    )
    return total


def _resize_across(attrs: Attributes, p: AxisPlacement) -> Attributes | None:
    """Returns no changes if H and W stay where they are, else None; N and C may exchange elements."""
    return {} if p.alone and len(p.out_shape) == 4 and all(d == to for d, to in p.to.items()) else None


define(
    "axial",
    "resize",
    1,
    _resize,
    _interpolate,
    shown=("scale",),
    folded=(("scale", "SHAPE"), ("offset", "SHAPE"), ("border", "SHAPE")),
    along=Along(lambda attrs, shape: (1, 2), _resize_across),
)
