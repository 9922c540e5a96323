"""Sums and products of lanes are those of whole numbers, also beyond what float64 holds at once."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from eqsat.proof.field import EXACT_WEIGHTS, LANES, Field

FIELD = Field(1)
#: Farthest from 0 modulo each prime, and odd.
FAR = np.array([[p // 2 - p // 2 % 2 - 1] for p in FIELD.primes], np.int64)


def times(weight: int, x: NDArray[np.float64]) -> NDArray[np.float64]:
    return x * weight


def test_a_sum_of_many_maps_is_reduced_before_it_is_inexact() -> None:
    weights = [EXACT_WEIGHTS - 1, EXACT_WEIGHTS - 3] * 20
    found = FIELD.total(FAR, [(partial(times, w), w) for w in weights])
    assert found[:, 0].tolist() == [int(x) * sum(weights) % p for x, p in zip(FAR[:, 0], FIELD.primes, strict=True)]


def test_products_of_matrices_of_many_terms_are_exact() -> None:
    terms, rng = 40_000, np.random.default_rng(0)
    a = FAR.reshape(LANES, 1, 1, 1) - rng.integers(0, 99, terms)
    b = np.full((LANES, 1, terms, 1), (1 << 30) - 1)
    found = FIELD.matmul(a, b)
    for lane, p in enumerate(FIELD.primes):
        assert found[lane].item() == sum(int(x) * ((1 << 30) - 1) for x in a[lane, 0, 0]) % p
