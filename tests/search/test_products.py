"""Products of one matrix with many rows of a tensor, as the steps of a recurrence have them, are one product where that
takes fewer cycles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from eqsat.options.options import Options
from eqsat.search.optimizer import optimize_tosa
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps, loads
from tests.graphs import ON_THE_NEWEST_VELA, finish, rescale, transpose

STEPS = 8


def recurrence() -> TensorGraph:
    """Each step's row as ExecuTorch lays it out, with an output scale of its own."""
    g, random = TensorGraph(), np.random.default_rng(0)
    x, outputs = g.add_input("x", (1, STEPS, 40), "INT8"), []
    w = g.add_const(random.integers(-127, 128, (256, 1, 1, 40)), "INT8")
    b = g.add_const(random.integers(-9, 9, 256), "INT32")
    for t in range(STEPS):
        row = g.add("slice", (x,), start=(0, t, 0), size=(1, 1, 40))
        row = transpose(g, g.add("reshape", (row,), shape=(1, 40, 1, 1)), 0, 2, 3, 1)
        y = g.add_with("conv2d", (row, w, b), makers.conv("INT8"))
        outputs.append(rescale(g, y, "INT8", multiplier=((1 << 30) + t * 99_999_999,), shift=(40,)))
    return finish(g, *outputs)


@pytest.mark.slow
@ON_THE_NEWEST_VELA
def test_the_steps_of_a_recurrence_are_one_product(tmp_path: Path) -> None:
    options = Options(cache=tmp_path / "prices", effort=1)
    result = optimize_tosa(dumps(recurrence()), "ethos-u65-256", options=options)
    assert loads(result.tosa).op_counts()["conv2d"] == 1
    assert result.calibrated < result.explicit_calibrated
    assert result.proved and result.binary_verified
