"""ARGMAX along another axis, and movement across GATHER and SCATTER: each rule fires on what it is for, is exact, and
leaves near misses alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

from eqsat.options.options import Options
from eqsat.rules import positions
from eqsat.search.optimizer import optimize_tosa
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps, loads
from tests.graphs import conv, finish
from tests.rules.cases import Cases
from tests.rules.checks import fires

CASES = Cases()
N, K, W, C = 4, 6, 4, 4


def shuffled(g: TensorGraph, x: int, axis: int) -> int:
    """x with one of its axes, of even size, shuffled: 0, n/2, 1, n/2 + 1, ..."""
    shape = g.nodes[x].shape
    split = (*shape[:axis], 2, shape[axis] // 2, *shape[axis + 1 :])
    perm = [*range(axis), axis + 1, axis, *range(axis + 2, len(split))]
    y = g.add("transpose", (g.add("reshape", (x,), shape=split),), perms=tuple(perm))
    return g.add("reshape", (y,), shape=shape)


#: Which operand of which operator is shuffled along which axis, -1 for the result; the rule that fires, if one does.
SHUFFLES = [
    ("gather", -1, 1, "push-gather"),
    ("gather", -1, 2, "push-gather"),
    ("gather", 0, 0, "pull-gather-values"),
    ("gather", 0, 2, "pull-gather-values"),
    ("gather", 1, 1, "pull-gather-indices"),
    ("scatter", -1, 2, "push-scatter"),
    ("scatter", 0, 2, "pull-scatter-into"),
    ("scatter", 1, 0, "pull-scatter-indices"),
    ("scatter", 2, 0, "pull-scatter-written"),
    ("scatter", 2, 1, "pull-scatter-written"),
    ("gather", 0, 1, None),  # the positions that are looked up would be others
    ("scatter", -1, 1, None),  # what is written would go elsewhere
]


@pytest.mark.parametrize(("op", "operand", "axis", "rule"), SHUFFLES)
def test_shuffles_cross_gather_and_scatter(op: str, operand: int, axis: int, rule: str | None) -> None:
    g = TensorGraph()
    rng = np.random.default_rng(axis)
    rows = np.stack([rng.permutation(K)[:W] for _ in range(N)])  # every position once
    xs = [g.add_input("x", (N, K, C), "INT8"), g.add_const(rows, "INT32")]
    xs += [g.add_input("z", (N, W, C), "INT8")] * (op == "scatter")
    if operand >= 0:
        xs[operand] = shuffled(g, xs[operand], axis)
    y = g.add(op, xs)
    finish(g, shuffled(g, y, axis) if operand < 0 else y)
    if rule:
        assert fires(g, rule, "move-move")
    else:
        assert not any(fires(g, r.name, "move-move") for r in positions.RULES)


@CASES.fires_on("argmax-outward")
def _(draw):  # ties are common among few values: the first of them counts
    g = TensorGraph()
    shape = draw(st.lists(st.integers(2, 4), min_size=2, max_size=4).map(tuple))
    x = g.add(
        "minimum", (g.add_input("x", shape, "INT32"), g.add_const(np.full((1,) * len(shape), 1), "INT32")), nan_mode=1
    )
    return g, g.add("argmax", (x,), axis=len(shape) - 1, nan_mode=1)


@CASES.spares("argmax-outward")
def _(draw):  # it is outside already, or alone
    g = TensorGraph()
    shape, axis = draw(st.sampled_from([((2, 3, 4), 1), ((5,), 0), ((3, 1), 1)]))
    return g, g.add("argmax", (g.add_input("x", shape, "INT8"),), axis=axis, nan_mode=1)


test_fires_and_is_exact, test_spares_near_misses = CASES.tests(fires_on=6, spares=3)


@pytest.mark.slow
def test_argmax_over_channels_gets_a_transpose_in_front(tmp_path) -> None:
    """Segmentation: a convolution, then the largest channel of each pixel."""
    g = TensorGraph()
    x = conv(g, g.add_input("x", (1, 16, 20, 8), "INT8"), 21, 3)
    finish(g, g.add("argmax", (x,), axis=3, nan_mode=1))
    result = optimize_tosa(dumps(g), Target.of("ethos-u85-256"), options=Options(effort=1, cache=tmp_path / "prices"))
    assert result.verified and result.calibrated < 0.5 * result.explicit_calibrated
    assert loads(result.tosa).op_counts()["transpose"] == 1
