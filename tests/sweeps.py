"""Sweeps of many cases and drawn examples: the suite takes a part of them, and all with `pytest --exhaustive`."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

#: Whether all are taken, which `tests/conftest.py` sets before a test is imported.
exhaustive = False


def examples(number: int) -> int:
    """Returns how many of so many drawn examples are taken, a quarter and at least four."""
    return number if exhaustive else min(number, max(4, number // 4))


def some(cases: Iterable[Any], taken: int) -> list[Any]:
    """Returns parameters of a test: the cases, of which those behind the first ones are exhaustive."""
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=[pytest.mark.exhaustive] * (k >= taken))
        for k, case in enumerate(cases)
    ]


def parts(cases: Mapping[str, Sequence[Any]], most: int) -> list[Any]:
    """Returns parameters of a test: the cases of each name in parts of at most so many, in an order drawn by the name.

    All but the first part of a name are exhaustive.
    """
    out = []
    for name, own in cases.items():
        drawn = random.Random(name).sample(own, len(own))
        number = -(-len(own) // most)
        for k in range(number):
            out.append(pytest.param(drawn[k::number], id=f"{name}-{k}", marks=[pytest.mark.exhaustive] * (k > 0)))
    return out
