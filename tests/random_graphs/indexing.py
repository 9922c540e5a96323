"""Blocks of GATHER, SCATTER and RESIZE."""

from __future__ import annotations

from math import prod

import numpy as np

from eqsat.tensor.ops.indexing import BILINEAR, NEAREST
from tests.random_graphs.builder import Builder, block


@block(0.2)
def picked(b: Builder, x: int) -> list[int]:
    """Adds a GATHER of some rows, and often a SCATTER of other values into the same rows."""
    b.want_activation(x)
    shape = b.shape(x)
    b.want(len(shape) > 2)
    n, k, c = shape[0], prod(shape[1:-1]), shape[-1]
    rows = np.stack([b.rng.permutation(k)[: max(1, k // 2)] for _ in range(n)])
    values, indices = b.reshape(x, n, k, c), b.g.add_const(rows, "INT32")
    picked = b.add("gather", values, indices)
    if b.chance(0.5):
        return [b.reshape(b.add("scatter", values, indices, b.unary(picked)), *shape)]
    return [picked]


@block(0.2)
def larger(b: Builder, x: int) -> list[int]:
    """Adds a RESIZE by 2, nearest or bilinear."""
    b.want(len(b.shape(x)) == 4 and 4 * b.size(x) <= b.largest and b.dtype(x) == "INT8")
    nearest = b.chance(0.5)
    scale, offset, border = ((2, 1, 2, 1), (0, 0), (1, 1)) if nearest else ((4, 2, 4, 2), (-1, -1), (1, 1))
    y = b.add("resize", x, scale=scale, offset=offset, border=border, mode=NEAREST if nearest else BILINEAR)
    return [y if nearest else b.narrow(y, 4, "INT8")]
