"""Settings of Vela are chosen as graphs are, where the caller compiles with them."""

from __future__ import annotations

import pytest

from eqsat.ground.worker import Pool
from eqsat.options.options import Options
from eqsat.search.figures import GraphFigures
from eqsat.search.optimizer import optimize_tosa
from eqsat.tosa import dumps
from eqsat.vela.compile import compile_tosa
from tests.graphs import U55, U85, widening

LEAST = Options(objective="sram", effort=1, binary_time_limit=60)
SHORT = Options(max_sram="-40%", max_flash="any", effort=1, binary_time_limit=60)


@pytest.mark.slow
def test_a_setting_is_chosen_where_it_is_better(pool: Pool) -> None:
    """Where memory is short: no graph in Vela's own settings fits, or it takes more cycles."""
    given = dumps(widening())
    plain = optimize_tosa(given, U85, stock=given, options=SHORT)
    tuned = optimize_tosa(given, U85, stock=given, options=SHORT, with_settings=True)
    assert plain.settings == () and len(tuned.settings) == 1
    assert tuned.fits and (not plain.fits or tuned.calibrated < plain.calibrated)
    assert tuned.verified and tuned.binary_verified and tuned.binary_proved
    assert f"settings of Vela: {tuned.settings[0]}" in str(tuned)
    tuned_target = U85.with_flags(tuned.settings)
    again = GraphFigures.of(compile_tosa(tuned.tosa, tuned_target, pool), tuned_target)
    assert (again.calibrated, again.sram) == (tuned.calibrated, tuned.footprint.sram)
    assert tuned.run is not None and tuned.record()["settings"] == tuned.settings


@pytest.mark.slow
def test_a_setting_that_takes_more_cycles_than_stock_is_not_chosen_for_sram() -> None:
    given = dumps(widening())
    found = optimize_tosa(given, U55, stock=given, options=LEAST, with_settings=True)
    dearer = [p for p in found.points if p.settings]
    assert found.settings == () and dearer
    assert all(p.figures.sram < found.footprint.sram and p.figures.cycles > found.stock_calibrated for p in dearer)
