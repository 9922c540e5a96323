"""Arithmetic of proofs: lanes are exact, and steps are inverted exactly."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from eqsat.proof.field import EXACT_WEIGHTS, LANES, Field
from eqsat.proof.steps import Step, first_reaching, is_decreasing, run_all
from tests.sweeps import some

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


DOMAIN = np.arange(-3000, 3001)


def some_step(rng: np.random.Generator) -> Step:
    kind = rng.choice(["affine", "scale", "double", "mean", "clip"])
    factor = int(rng.integers(1, 40)) * int(rng.choice([-1, 1]))
    if kind == "affine":
        return "affine", factor, int(rng.integers(-500, 500))
    if kind == "scale":
        shift = int(rng.integers(1, 8))
        return "scale", factor, int(rng.integers(0, 1 << shift)), shift
    if kind == "double":
        return "double", int(rng.integers(1 << 30, 1 << 31)), int(rng.integers(31, 35))
    if kind == "mean":
        return "mean", int(rng.integers(1, 20))
    low = int(rng.integers(-3000, 0))
    return "clip", low, low + int(rng.integers(1, 3000))


@pytest.mark.parametrize("seed", some(range(200), 40))
def test_the_first_value_that_reaches_a_result(seed: int) -> None:
    rng = np.random.default_rng(seed)
    steps = [some_step(rng) for _ in range(int(rng.integers(1, 5)))]
    turned = is_decreasing(steps)
    x = -DOMAIN[::-1] if turned else DOMAIN
    values = run_all(steps, -x if turned else x)
    assert (np.diff(values) >= 0).all()
    wanted = np.arange(values[0] + 1, values[-1] + 1)
    if len(wanted) > 2000:
        wanted = rng.choice(wanted, 2000)
    columns = [(kind, *(np.full(len(wanted), p) for p in parameters)) for kind, *parameters in steps]
    assert np.array_equal(first_reaching(columns, wanted), x[np.searchsorted(values, wanted)])
