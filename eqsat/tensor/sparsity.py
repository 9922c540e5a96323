"""2:4 sparsity: at most two of every four consecutive input channels have weights other than zero.

An array of multipliers that skips the other two computes such a convolution in half the time.
Some weights are zero outside the blocks of several groups (`eqsat/rules/grouped.py`).
Others are zero outside those of several phases (`eqsat/tensor/blocking.py`).
They have that property if the channels of the blocks are interleaved.
"""

from __future__ import annotations

import numpy as np

from eqsat.tensor.types import Array

#: Channels of a group.
_TOGETHER = 4
#: Most channels of a group whose weight is not zero.
_MOST = 2


def two_of_four(weights: Array) -> bool:
    """Tells whether weights [..., IC] are 2:4 sparse for every output and tap."""
    if weights.shape[-1] % _TOGETHER or _too_many(weights):
        return False
    fours = (weights != 0).view(np.uint8).reshape(-1, _TOGETHER)
    return bool((sum(fours[:, i] for i in range(_TOGETHER)) <= _MOST).all())


def _too_many(weights: Array) -> bool:
    """Tells whether more than half of the weights are not zero; this takes a fraction of the time by fours."""
    return int(np.count_nonzero(weights)) * _TOGETHER > weights.size * _MOST


def interleaving(weights: Array) -> int | None:
    """Returns the smallest number of runs of channels whose interleaving makes weights 2:4 sparse.

    weights: [..., IC], of which the channels are cut into equal runs.
    Returns None if they are sparse already, or if no number of runs makes them so.
    """
    channels = weights.shape[-1]
    if channels % _TOGETHER or _too_many(weights) or two_of_four(weights):
        return None
    divisors = (n for n in range(2, channels // 2 + 1) if channels % n == 0)
    return next((n for n in divisors if two_of_four(interleaved(weights, n))), None)


def interleaved(weights: Array, runs: int) -> Array:
    """Returns weights [..., IC] with the channels of `runs` equal runs interleaved.

    The first of each run comes first, then the second of each, and so on.
    """
    *outer, channels = weights.shape
    turns = weights.reshape(*outer, runs, channels // runs).swapaxes(-1, -2)
    return np.ascontiguousarray(turns.reshape(weights.shape))
