"""The bytes of SRAM that are in use at each step of Vela's allocation.

An operator in place has the bytes of its operand, and an operand of a CONCAT in place those of the result.
So these are fewer than the sizes of all tensors that are live.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eqsat.tensor.types import Array
from eqsat.vela.table import InSram


def get_occupied(tensors: Sequence[InSram]) -> list[Array]:
    """Returns the bytes that each tensor occupies at each of its steps, from the first to the last.

    Bytes of several tensors at once are counted for the one that is needed from the latest step on, of equal ones
    for the last.

    >>> [n.tolist() for n in get_occupied([InSram("x", 0, 2, 0, 8), InSram("in place", 2, 3, 0, 8)])]
    [[8, 8, 0], [8, 8]]
    """
    bounds = np.unique([(t.address, t.end) for t in tensors])
    spans = [np.searchsorted(bounds, (t.address, t.end)) for t in tensors]
    holder = np.full((1 + max((t.last for t in tensors), default=0), len(bounds)), -1, np.int32)
    for k in sorted(range(len(tensors)), key=lambda k: tensors[k].first):
        holder[tensors[k].first : tensors[k].last + 1, slice(*spans[k])] = k
    held = (holder[t.first : t.last + 1, slice(*span)] == k for k, (t, span) in enumerate(zip(tensors, spans)))
    return [own @ np.diff(bounds[a : b + 1]) for own, (a, b) in zip(held, spans)]


def in_use(tensors: Sequence[InSram], shares: Sequence[Array]) -> Array:
    """Returns the bytes in use at each step, from those that each tensor occupies (`get_occupied`).

    >>> tensors = [InSram("x", 0, 2, 0, 8), InSram("in place", 2, 3, 0, 8), InSram("y", 3, 3, 8, 12)]
    >>> in_use(tensors, get_occupied(tensors)).tolist()
    [8, 8, 8, 12]
    """
    out = np.zeros(1 + max((t.last for t in tensors), default=0), np.int64)
    for t, own in zip(tensors, shares):
        out[t.first : t.last + 1] += own
    return out
