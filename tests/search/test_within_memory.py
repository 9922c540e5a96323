"""Where the fastest graph does not fit, as many of its gains are kept as do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eqsat.options.options import Options
from eqsat.search.optimizer import optimize_tosa
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps
from tests.graphs import ON_THE_NEWEST_VELA, finish, rescale


def scaled() -> TensorGraph:
    """Products with constants per channel. Each is faster as a depthwise convolution, which takes more flash, and they
    are all alike."""
    g, rng = TensorGraph(), np.random.default_rng(0)
    x = g.add_input("x", (1, 16, 16, 32), "INT8")
    for i in range(8):
        points = g.add_const(rng.integers(-100, 100, (1, 1, 1, 32)), "INT32")
        x = rescale(g, g.add("mul", [rescale(g, x, "INT32"), points], shift=(0,)), "INT8", shift=(37 + i % 2,))
    return finish(g, x)


@pytest.mark.slow
@ON_THE_NEWEST_VELA
def test_of_equal_gains_as_many_are_taken_as_fit_into_flash(tmp_path: Path) -> None:
    given = dumps(scaled())
    options = Options(effort=1, cache=tmp_path / "p", max_sram="any", max_flash="any")
    free = optimize_tosa(given, "ethos-u55-128", stock=given, options=options)
    least, most = free.stock_footprint.payload, free.footprint.payload
    assert free.calibrated < free.stock_calibrated / 2 and most > 2 * least
    half = optimize_tosa(given, "ethos-u55-128", stock=given, options=replace(options, max_flash=(least + most) // 2))
    assert half.verified and half.footprint.payload <= (least + most) // 2
    assert half.calibrated < 0.75 * free.stock_calibrated
