"""Functions of two small values, whatever they are: proved where they are equal for all pairs, and only there."""

from __future__ import annotations

import numpy as np

from eqsat.proof import PROVED, prove
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from tests.graphs import clamp, rescale
from tests.proof.test_prove import Build, graph

ALL_PAIRS = [np.repeat(np.arange(-128, 128), 256).astype(np.int8), np.tile(np.arange(-128, 128), 256).astype(np.int8)]


def expression(g: TensorGraph, xs: list[int], rng: np.random.Generator, change: int) -> int:
    """A random function of two values, and of what is between; change: to one of its constants."""
    values = list(xs)
    for step in range(4):
        x, y = (values[k] for k in rng.integers(len(values), size=2))
        multiplier, shift = int(rng.integers(1 << 29, 1 << 30)), int(rng.integers(12, 20))
        low, kind = (
            int(rng.integers(-128, 0)),
            rng.choice(["add", "sub", "mul", "maximum", "minimum", "select", "clamp"]),
        )
        by = change if step == 2 else 0
        if kind == "clamp":
            y = clamp(g, x, low + by, 90)
        elif kind == "select":
            y = g.add("select", (g.add("greater", (x, y)), x, clamp(g, y, low + by, 127)))
        elif kind in ("maximum", "minimum"):
            y = g.add_with(str(kind), (x, clamp(g, y, low + by, 127)), makers.extremum())
        elif kind == "mul":
            both = (rescale(g, x, "INT32", in_zp=by), rescale(g, y, "INT32"))
            y = rescale(g, g.add_with("mul", both, makers.mul()), "INT8", shift=(37,))
        else:
            both = (
                rescale(g, x, "INT32", shift=(shift,)),
                rescale(g, y, "INT32", multiplier=(multiplier + (by << 9),), shift=(shift,)),
            )
            y = rescale(g, g.add(str(kind), both), "INT8", shift=(61 - shift,))
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

    def build(change: int) -> Build:
        return lambda g, xs: expression(g, xs, np.random.default_rng(seed), change)

    return [graph(build(change), *[((elements,), "INT8")] * 2) for change in (0, seed % 3 - 1)]
