"""Steps are inverted exactly: the first value that reaches a result, against all values tried."""

from __future__ import annotations

import numpy as np
import pytest

from eqsat.proof.steps import Step, first_reaching, is_decreasing, run_all
from tests.sweeps import some

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
