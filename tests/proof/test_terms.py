"""Random functions: terms are what the op table says; what is equal for all pairs of values is proved, and no other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from eqsat.checking.random_graphs import random_graph
from eqsat.proof import PROVED, prove
from eqsat.proof.counterexample import evaluate_outputs
from eqsat.proof.field import EXACT_WEIGHTS, LANES, Field
from eqsat.proof.steps import Step, first_reaching, is_decreasing, run_all
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.samples import domains, samples
from tests.proof.concrete import Opaque, outputs_at
from tests.sweeps import some
from tests.term import Term, graph

#: Of the samples that are drawn: low, high, edges, uniform, impulses, some of each.
_TAKEN = (0, 1, 2, 3, 5, 9)


def agree(graph: TensorGraph) -> int:
    """On how many samples the terms were compared; all of them agree."""
    compared = 0
    drawn = samples(domains(graph), max(_TAKEN) + 1)
    for inputs in (drawn[k] for k in _TAKEN):
        expected = evaluate_outputs(graph, inputs)
        try:
            found = outputs_at(graph, inputs) if expected is not None else []
        except Opaque:
            continue
        for x, y in zip(found, expected or []):
            assert np.array_equal(x, y.astype(np.int64))
            compared += 1
    return compared


@pytest.mark.parametrize("first", some(range(0, 224, 6), 4))
def test_terms_are_what_the_op_table_says(first: int) -> None:
    assert sum(agree(random_graph(seed)) for seed in range(first, first + 6)) > 12


ALL_PAIRS = [np.repeat(np.arange(-128, 128), 256).astype(np.int8), np.tile(np.arange(-128, 128), 256).astype(np.int8)]


def expression(xs: Sequence[Term], rng: np.random.Generator, change: int) -> Term:
    """A random function of two values, and of what is between; change: to one of its constants."""
    values = list(xs)
    for step in range(4):
        x, y = (values[k] for k in rng.integers(len(values), size=2))
        multiplier, shift = int(rng.integers(1 << 29, 1 << 30)), int(rng.integers(12, 20))
        low = int(rng.integers(-128, 0))
        kind = rng.choice(["add", "sub", "mul", "maximum", "minimum", "select", "clamp"])
        by = change if step == 2 else 0
        if kind == "clamp":
            y = x.clamp(low + by, 90)
        elif kind == "select":
            y = (x > y)("select", x, y.clamp(low + by, 127))
        elif kind in ("maximum", "minimum"):
            y = x.made(str(kind), makers.extremum(), y.clamp(low + by, 127))
        elif kind == "mul":
            y = (x.rescale("INT32", in_zp=by) * y.rescale("INT32")).rescale("INT8", 1 << 30, 37)
        else:
            other = y.rescale("INT32", multiplier + (by << 9), shift)
            y = x.rescale("INT32", 1 << 30, shift)(str(kind), other).rescale("INT8", 1 << 30, 61 - shift)
        values.append(y)
    return values[-1]


def test_what_is_proved_is_equal_for_all_pairs() -> None:
    counts = {True: 0, False: 0}
    for seed in range(60):
        proved = prove(*changed(seed, 2), seed=seed, search=False).verdict == PROVED
        counts[proved] += 1
        x, y = (g.evaluate(ALL_PAIRS)[0] for g in changed(seed, len(ALL_PAIRS[0])))
        assert proved == np.array_equal(x, y), seed
    assert counts[True] > 20 and counts[False] > 5


def changed(seed: int, elements: int) -> list[TensorGraph]:
    """A random function of two inputs, and the same with a constant by one more, one less, or not changed."""

    def build(change: int) -> TensorGraph:
        made = lambda *xs: expression(xs, np.random.default_rng(seed), change)  # noqa: E731
        return graph(f"x:INT8[{elements}] y:INT8[{elements}]", made)

    return [build(0), build(seed % 3 - 1)]


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
