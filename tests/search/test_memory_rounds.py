"""Where the fastest graph does not fit, as many of its gains are kept as do."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eqsat.options import decision
from eqsat.options.options import Options
from eqsat.search.optimizer import optimize_tosa
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps
from tests.graphs import ON_THE_NEWEST_VELA, conv, finish, rescale


def scaled(layers: int = 8, channels: int = 32, beside: int = 0) -> TensorGraph:
    """Products with constants per channel. Each is faster as a depthwise convolution, which takes more flash, and they
    are all alike.

    beside: channels of a convolution that is another output.
    """
    g, rng = TensorGraph(), np.random.default_rng(0)
    x = g.add_input("x", (1, 16, 16, channels), "INT8")
    for i in range(layers):
        points = g.add_const(rng.integers(-100, 100, (1, 1, 1, channels)), "INT32")
        x = rescale(g, g.add("mul", [rescale(g, x, "INT32"), points], shift=(0,)), "INT8", shift=(37 + i % 2,))
    return finish(g, x, *([conv(g, g.add_input("y", (1, 16, 16, beside), "INT8"), beside)] if beside else []))


@pytest.mark.slow
@ON_THE_NEWEST_VELA
def test_of_equal_gains_as_many_are_taken_as_fit_into_flash(tmp_path: Path) -> None:
    given = dumps(scaled())
    options = Options(extractor="dag_greedy", time_limit=5, cache=tmp_path / "p", max_sram="any", max_flash="any")
    free = optimize_tosa(given, "ethos-u55-128", stock=given, options=options)
    least, most = free.stock_footprint.payload, free.footprint.payload
    assert free.cycles < free.stock_cycles / 10 and most > 2 * least
    half = optimize_tosa(given, "ethos-u55-128", stock=given, options=replace(options, max_flash=(least + most) // 2))
    assert half.verified and half.footprint.payload <= (least + most) // 2
    assert half.cycles < 0.75 * free.stock_cycles


@pytest.mark.slow
@ON_THE_NEWEST_VELA
def test_rounds_end_soon_where_none_comes_nearer(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing of this graph fits into so little SRAM; the effort allows 14 rounds."""
    given = dumps(scaled(4))
    options = Options(extractor="dag_greedy", time_limit=5, cache=tmp_path / "p", max_sram=4096, max_flash="any")
    with caplog.at_level(logging.INFO, "eqsat"):
        found = optimize_tosa(given, "ethos-u55-128", stock=given, options=options)
    ends = [m for m in caplog.messages if m.startswith("rounds for memory")]
    assert found.footprint.sram > 4096
    assert ends and all("ended: 4 in a row found nothing better" in m for m in ends)


@pytest.mark.slow
@ON_THE_NEWEST_VELA
@pytest.mark.parametrize(
    ("buys", "objective", "looked_for"), [(0.02, "cycles", True), (0.5, "cycles", False), (0.5, "pareto", True)]
)
def test_flash_that_has_to_be_earned_is_looked_for_where_it_may_pay(
    buys: float,
    objective: str,
    looked_for: bool,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each product that is faster takes 0.2% of the flash and saves 3% of the cycles."""
    monkeypatch.setattr(decision, "_PERCENT_BUYS", buys)
    given = dumps(scaled(24, 128, beside=512))
    options = Options(extractor="dag_greedy", time_limit=5, cache=tmp_path / "p", max_sram="any", objective=objective)
    with caplog.at_level(logging.INFO, "eqsat"):
        found = optimize_tosa(given, "ethos-u55-128", stock=given, options=options)
    left_out = [m for m in caplog.messages if "more flash would not pay" in m]
    assert found.limits.flash is not None and found.footprint.payload > found.stock_footprint.payload
    assert bool(left_out) == (not looked_for)
    assert (found.footprint.payload <= found.limits.flash) == (buys == 0.5)
