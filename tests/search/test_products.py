"""Products of one matrix with many rows of a tensor, as the steps of a recurrence have them, are one product where that
takes fewer cycles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from eqsat.options.options import Options
from eqsat.search.optimizer import optimize_tosa
from eqsat.tensor import makers
from eqsat.tosa import dumps, loads
from tests.graphs import ON_THE_NEWEST_VELA
from tests.term import Term, graph

STEPS = 8


def recurrence(x: Term) -> tuple[Term, ...]:
    """Each step's row as ExecuTorch lays it out, with an output scale of its own."""
    random = np.random.default_rng(0)
    w, b = x.const(random.integers(-127, 128, (256, 1, 1, 40))), x.const(random.integers(-9, 9, 256), "INT32")

    def step(t: int) -> Term:
        row = x.part(t, 1, 1).reshape(1, 40, 1, 1).nhwc()
        return row.made("conv2d", makers.conv("INT8"), w, b).rescale("INT8", (1 << 30) + t * 99_999_999, 40)

    return tuple(map(step, range(STEPS)))


@pytest.mark.slow
@ON_THE_NEWEST_VELA
def test_the_steps_of_a_recurrence_are_one_product(tmp_path: Path) -> None:
    options = Options(cache=tmp_path / "prices", effort=1)
    given = graph(f"x:INT8[1,{STEPS},40]", recurrence)
    result = optimize_tosa(dumps(given), "ethos-u65-256", options=options)
    assert loads(result.tosa).op_counts()["conv2d"] == 1
    assert result.calibrated < result.explicit_calibrated
    assert result.proved and result.binary_verified
