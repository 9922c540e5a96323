"""Rows in stripes are tried where memory is what is short."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from eqsat.ground.worker import Pool
from eqsat.options.options import Options
from eqsat.search.figures import GraphFigures
from eqsat.search.optimizer import Result, optimize_tosa
from eqsat.search.proposals.stripes import Plans
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.stripes import write_stripes
from eqsat.tosa import dumps
from eqsat.tosa.locations import Origin, text
from eqsat.vela.compile import compile_tosa
from tests.fake_oracle import by_vela
from tests.graphs import U55, U85, compile_graph, widening
from tests.term import graph, inputs, outputs


def forked(is_transposed: bool = False) -> TensorGraph:
    """A wide value that a convolution and its shortcut read, thin behind them; behind transposes of no use."""
    (x,) = inputs("x:INT8[1,32,32,8]")
    x = x.layer(48, seed=1)
    x = x.nchw().clamp(-128, 126).nhwc() if is_transposed else x
    return outputs(x.plus(x.layer(48, 3, seed=2)).layer(8, seed=3))


def along_time() -> TensorGraph:
    """One-dimensional, along W, where Vela has no cascades."""
    return graph("x:INT8[1,1,2048,8]", lambda x: x.layer(64, seed=1).layer(64, seed=2).layer(8, seed=3))


def twice() -> TensorGraph:
    """Two regions in which SRAM is in use alike, and windows between them that are too large for stripes of both."""
    (x,) = inputs("x:INT8[1,32,32,4]")
    thin = x.layer(32, seed=1).layer(4, seed=2).layer(4, 17, seed=3).layer(4, 17, seed=4)
    return outputs(thin.layer(32, seed=5).layer(4, seed=6))


def peak(given: bytes, target: Target) -> int:
    with Pool(1) as pool:
        return compile_tosa(given, target, pool).sram_peak


def striped_graphs(result: Result) -> int:
    """How many graphs with stripes were compiled."""
    return sum(e.extractor == "stripes" for e in result.extractions)


def named(given: TensorGraph) -> dict[int, str]:
    """Names of the convolutions of a graph."""
    return {n: f"conv_{n}" for n in given.live() if given.nodes[n].op == "conv2d"}


def searched(made: Callable[[], TensorGraph], target: Target) -> Result:
    """The answer within 0.6 of the SRAM of the graph itself."""
    g = made()
    given = dumps(g, {n: text([Origin(name, "body")]) for n, name in named(g).items()})
    options = Options(effort=1, max_sram=int(0.6 * peak(given, target)), max_flash="any", binary_time_limit=60)
    return optimize_tosa(given, target, stock=given, options=options)


#: Answers that tests share.
answer = cache(searched)


@pytest.mark.slow
@pytest.mark.parametrize(("made", "target"), [(widening, U55), (forked, U85), (along_time, U55), (twice, U55)])
def test_a_limit_is_met_by_stripes(made: Callable[[], TensorGraph], target: Target, pool: Pool) -> None:
    result = answer(made, target)
    assert result.footprint.sram <= 0.6 * peak(dumps(made()), target)
    assert result.verified and result.proved and result.binary_verified and result.binary_proved
    assert striped_graphs(result) and result.settings == ()
    again = compile_tosa(result.tosa, target, pool)
    assert (again.cycles, again.footprint.sram) == (result.cycles, result.footprint.sram)


@pytest.mark.slow
def test_less_sram_is_found_at_no_more_cycles_than_stock_takes() -> None:
    given = dumps(forked(is_transposed=True))
    result = optimize_tosa(given, U55, stock=given, options=Options(effort=1, objective="sram", max_flash="any"))
    assert striped_graphs(result) and result.calibrated <= result.stock_calibrated
    assert result.footprint.sram < 0.9 * peak(given, U55)


@pytest.mark.slow
def test_the_pareto_set_has_graphs_in_stripes() -> None:
    given = dumps(forked())
    options = Options(effort=1, objective="pareto", max_flash="any")
    result = optimize_tosa(given, U55, stock=given, options=options)
    points = [p.figures for p in result.points]
    assert len(points) > 2 and all(p.verified for p in result.points)
    assert min(p.sram for p in points) < 0.7 * max(p.sram for p in points)


@pytest.mark.slow
def test_stripes_say_which_operators_they_are_of() -> None:
    names = set(named(widening()).values())
    found = [o.node for origins in answer(widening, U55).origins.values() for o in origins]
    assert set(found) == names and len(found) > len(names)


@pytest.mark.parametrize("target", [U55, U85], ids=lambda t: t.accelerator)
def test_what_is_expected_is_about_what_vela_makes(target: Target, pool: Pool) -> None:
    given = widening()
    start = by_vela(given, target, pool)
    plans = sorted(Plans(start, None), key=lambda p: p.expected.sram)
    assert len(plans) > 2 and all(p.expected.sram < start.figures.sram for p in plans)
    for plan in (plans[0], plans[-1]):
        divided, _ = write_stripes(given, plan.region, plan.ends)
        sram = compile_graph(divided, target, pool).sram_peak
        assert abs(sram - plan.expected.sram) < 0.15 * sram


def test_a_view_is_divided_with_what_it_views_alone(pool: Pool) -> None:
    """A SLICE of a view is read in place, one before it is a copy."""
    (x,) = inputs("x:INT8[1,4,32,32]")
    x = x.reshape(1, 1, 4, 1024).transpose(0, 1, 3, 2).reshape(1, 32, 32, 4)
    start = by_vela(g := outputs(x.layer(32, seed=1).layer(4, seed=2)), U55, pool)
    found = [{g.nodes[n].op for n in p.region.inner} for p in Plans(start, None)]
    assert {(f >= {"transpose"}, f >= {"reshape"}) for f in found} == {(True, True), (False, False)}


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
