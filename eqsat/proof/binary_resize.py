"""RESIZE of Ethos-U85 as sums of products."""

from __future__ import annotations

import numpy as np

from eqsat.device.ethos_u85.commands import Resize, ResizeAxis
from eqsat.device.ethos_u85.operations import ABOVE
from eqsat.device.ethos_u85.registers import ResizeMode
from eqsat.proof.functions import Ints
from eqsat.proof.linear import weighted
from eqsat.proof.steps import Undecidable
from eqsat.proof.values import UNLIMITED, Terms, Value


def resized(t: Terms, c: Resize, x: Value) -> Value:
    """Returns the accumulators of a resize, [1, height, width, depth], shifted up by `ABOVE` bits.

    Raises Undecidable.
    """
    if c.mode not in (ResizeMode.BILINEAR, ResizeMode.NEAREST):
        raise Undecidable(f"RESIZE by {c.mode.name}")
    shape, at, weights = (1, *c.output.shape), [], []
    x = t.stepped(x, [("affine", 1, -c.ifm.zero_point)], UNLIMITED)
    places = np.arange(x.elements).reshape(x.shape)
    for rows, by_row in _along(c.y, c.output.shape[0], x.shape[1], c.mode):
        for columns, by_column in _along(c.x, c.output.shape[1], x.shape[2], c.mode):
            at.append(places[:, rows][:, :, columns].reshape(-1))
            weights.append(np.broadcast_to((by_row[:, None] * by_column)[None, :, :, None], shape).reshape(-1))
    if c.mode == ResizeMode.NEAREST:
        v = x.moved(at[0], shape)
    else:
        v = weighted(t, x, np.array(at), np.array(weights), shape, UNLIMITED)
    return t.stepped(v, [("affine", 1 << ABOVE, 0)], UNLIMITED)


def _along(axis: ResizeAxis, size: int, have: int, mode: ResizeMode) -> list[tuple[Ints, Ints]]:
    """Positions of the input along an axis and their weights.

    They are those of `device.ethos_u85.operations`.
    """
    place = axis.offset + np.arange(size) * (axis.step * axis.scale + axis.rest)
    first, rest = np.divmod(place, axis.scale)
    near, far = (np.clip(k, 0, have - 1) for k in (first, first + 1))
    if mode == ResizeMode.NEAREST:
        return [(np.where(2 * rest >= axis.scale, far, near), np.ones(size, np.int64))]
    same = near == far
    return [(near, np.where(same, axis.scale, axis.scale - rest)), (far, np.where(same, 0, rest))]
