"""2:4 sparsity: weights of which at most two of every four consecutive input channels are not zero.

An array of multipliers that skips the other two computes such a convolution in half the time.
Weights that are zero outside the blocks of several groups (`eqsat/rules/grouped.py`), or of several phases
(`eqsat/tensor/blocking.py`), have that property when the channels of the blocks take turns.
"""

from __future__ import annotations

import numpy as np

from eqsat.tensor.types import Array

#: Channels that are looked at together, and how many of them may have a weight.
_TOGETHER, _MOST = 4, 2


def two_of_four(weights: Array) -> bool:
    """Whether at most two of every four consecutive channels [..., IC] have a weight that is not zero, for every output
    and tap."""
    if weights.shape[-1] % _TOGETHER:
        return False
    return bool((np.count_nonzero(weights.reshape(-1, _TOGETHER), axis=1) <= _MOST).all())


def interleaving(weights: Array) -> int | None:
    """The fewest equal runs of channels that must take turns for weights [..., IC] to be 2:4 sparse.

    None where they are so as they are, or where no number of runs makes them so.
    """
    channels = weights.shape[-1]
    too_many = np.count_nonzero(weights) * _TOGETHER > weights.size * _MOST
    if channels % _TOGETHER or too_many or two_of_four(weights):
        return None
    divisors = (n for n in range(2, channels // 2 + 1) if channels % n == 0)
    return next((n for n in divisors if two_of_four(interleaved(weights, n))), None)


def interleaved(weights: Array, runs: int) -> Array:
    """Weights [..., IC] with the channels of `runs` equal runs in turn: the first of each run, the second of each, and
    so on."""
    *outer, channels = weights.shape
    turns = weights.reshape(*outer, runs, channels // runs).swapaxes(-1, -2)
    return np.ascontiguousarray(turns.reshape(weights.shape))


def pruned(weights: Array) -> Array:
    """Weights [..., IC] of which the two of least magnitude in every four consecutive channels are zero."""
    fours = weights.reshape(-1, _TOGETHER)
    least = np.argsort(np.abs(fours.astype(np.int32)), axis=1, kind="stable")[:, : _TOGETHER - _MOST]
    out = fours.copy()
    np.put_along_axis(out, least, 0, axis=1)
    return out.reshape(weights.shape)
