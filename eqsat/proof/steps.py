"""Monotone steps of one integer, of which RESCALE, CLAMP and arithmetic with constants consist.

A step is a name and its parameters:
  affine  a, b     a * x + b
  scale   m, r, s  (m * x + r) >> s, rounding down
  double  m, s     TOSA's double rounding, (m * x + 2^(s - 1) + k) >> s
                   where k is 2^30 for x >= 0, else -2^30
  mean    c        x / c, a half rounded away from zero
  clip    l, h     the nearest of l to h
Parameters are integers, or arrays of them that broadcast to x.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Step = tuple[Any, ...]
#: Bound on absolute results, which are computed in int64.
LARGEST = 1 << 62
#: Bound on what is shifted right or divided in a step.
_SHIFTED = 1 << 63
#: Upper bound of the rounding error of a float64 sum of numbers up to `_SHIFTED`.
_ROUNDED = 1 << 12


class Undecidable(Exception):
    """A value that the prover has no normal form for; the message says which."""

    reason = "there is no form for it"


class OutOfTime(Undecidable):
    """An operator that the prover did not reach in time; the message says which."""

    reason = "the time for a proof ended there"


def run(step: Step, x: Any) -> Any:
    """Returns the step's result for an integer, or for an int64 array."""
    kind, *p = step
    if kind == "affine":
        return p[0] * x + p[1]
    if kind == "scale":
        return (p[0] * x + p[1]) >> p[2]
    if kind == "double":
        away = np.where(x >= 0, 1 << 30, -(1 << 30)) if isinstance(x, np.ndarray) else (1 if x >= 0 else -1) << 30
        return (p[0] * x + (_one(x) << (p[1] - 1)) + away) >> p[1]
    if kind == "mean":
        return np.sign(x) * ((2 * abs(x) + p[0]) // (2 * p[0]))
    return np.clip(x, p[0], p[1]) if isinstance(x, np.ndarray) else min(max(x, p[0]), p[1])


def run_all(steps: Sequence[Step], x: Any) -> Any:
    for step in steps:
        x = run(step, x)
    return x


def is_decreasing(steps: Sequence[Step]) -> bool:
    """Whether the steps together are a decreasing function."""
    return bool(sum(step[0] != "clip" and step[1] < 0 for step in steps) % 2)


def first_reaching(steps: Sequence[Step], wanted: Any) -> Any:
    """Returns the least x (or -x for decreasing steps) for which steps, with arrays as parameters, reach `wanted`.

    `wanted` lies between results that the steps reach, so int64 suffices, as it does for the steps themselves.
    """
    y, turned = wanted, np.zeros(np.shape(wanted), bool)
    for step in reversed(steps):
        # v >= y, or turned -v >= y: v < 1 - y
        least = _least(step, np.where(turned, 1 - y, y))
        y = np.where(turned, 1 - least, least)
        if step[0] != "clip":
            turned = turned ^ (step[1] < 0)
    return y


def _least(step: Step, y: Any) -> Any:
    """Returns the least x (or -x for a decreasing step) for which the step gives y or more."""
    kind, *p = step
    if kind == "clip":
        return y
    m = np.abs(p[0])
    if kind == "affine":
        return -((p[1] - y) // m)
    if kind == "scale":
        return -((p[1] - (y << p[2])) // m)
    if kind == "mean":  # 2 x + m >= 2 m y, or else 2 |x| + m < 2 m (1 - y)
        return np.where(y > 0, -((m - 2 * m * y) // 2), -((m - 2 * m * y - 1) // 2))
    assert (p[0] >= 0).all(), "TOSA's multipliers are not negative"
    rest = (y << p[1]) - (_one(y) << (p[1] - 1))
    below = -((-(1 << 30) - rest) // m)
    return np.where(below < 0, below, np.maximum(0, -(((1 << 30) - rest) // m)))


def is_safe(step: Step, low: Any, high: Any) -> bool:
    """Whether int64 can hold the step's intermediate results for x from low to high.

    Parameters and limits may be arrays of several steps, all of which must be safe then.
    Steps at the very limit count as unsafe, since float64 rounds.
    """
    kind, *p = step
    if kind == "clip":
        return True
    most = np.maximum(np.abs(low), np.abs(high)).astype(np.float64)
    if kind == "mean":
        room = 2 * most + p[0]
    else:
        room = most * np.abs(p[0]) + (np.exp2(p[1] - 1) + (1 << 30) if kind == "double" else np.abs(p[1]))
    is_shifted = kind == "double" or kind == "scale" and np.asarray(p[2]) > 0
    return bool((room < np.where(is_shifted, float(_SHIFTED), float(LARGEST)) - _ROUNDED).all())


def normalize_scale(m: int, r: int, s: int) -> tuple[Step | None, int, int]:
    """Returns the normal form of a scale: (scale, factor, summand of an affine step after it).

    The scale has odd m and 0 <= r < 2^s; it is None if it would have no effect.
    """
    if m == 0:
        return None, 0, r >> s
    twos = min((m & -m).bit_length() - 1, s)
    m, r, s = m >> twos, r >> twos, s - twos
    if s == 0:
        return None, m, r
    return ("scale", m, r & ((1 << s) - 1), s), 1, r >> s


def _one(x: Any) -> Any:
    return np.int64(1) if isinstance(x, np.ndarray) else 1
