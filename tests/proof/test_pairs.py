"""Functions of two small values, whatever they are: proved where they are equal for all pairs, and only there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eqsat.proof import PROVED, prove
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from tests.term import Term, graph

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
    """Random functions of two values, a constant changed: what is equal on all pairs is proved, and nothing else."""
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
