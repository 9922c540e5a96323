"""The answer is the fastest graph that fits into the memory that it may need, and what the rest would have bought is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from eqsat import runs
from eqsat.search.decision import ONE_OF_SEVERAL, Container, Decision, Figures, MemoryLimits, front, more
from eqsat.search.optimizer import optimize_tosa
from eqsat.search.options import OptionError, Options
from eqsat.target import Target
from eqsat.tosa import dumps, loads
from eqsat.tosa.reference import compare
from eqsat.vela.compile import Footprint, compile_tosa
from eqsat.workers.worker import Worker
from tests.graphs import ON_THE_NEWEST_VELA, recomputed

U55 = Target.of("ethos-u55-128")


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return Options(preset="none", extractor="dag_greedy", time_limit=2, rounds=1, cache=tmp_path / "prices")


def footprint(sram: int, payload: int) -> Footprint:
    return Footprint(sram, 0, payload, payload, {})


@pytest.mark.slow
@ON_THE_NEWEST_VELA
def test_a_faster_graph_that_needs_more_sram_is_not_the_answer(
    options: Options, worker: Worker, tmp_path: Path
) -> None:
    given = dumps(recomputed())
    result = optimize_tosa(given, U55, stock=given, options=options)
    stock = compile_tosa(given, U55, worker)
    assert result.footprint.sram == stock.footprint.sram and result.warnings == []
    over = result.points[0]
    assert not over.fits and over.figures.cycles < result.cycles and over.figures.sram > stock.footprint.sram
    assert result.passed_over.startswith(f"{result.cycles - over.figures.cycles:,} cycles fewer for ")
    assert "KiB more SRAM" in result.passed_over

    runs.save(result, tmp_path / "run")
    saved = [
        compile_tosa((tmp_path / "run" / f"point-{i}.tosa").read_bytes(), U55, worker)
        for i in range(len(result.points))
    ]
    assert [Figures.of(e.cycles, e.footprint) for e in saved] == [p.figures for p in result.points]

    options = replace(options, max_flash="any")
    free = optimize_tosa(given, U55, stock=given, options=replace(options, max_sram="any"))
    assert (free.chosen, free.tosa, free.passed_over) == ("eqsat", over.tosa, "")
    assert compare(recomputed(), loads(free.tosa), worker, seed=5).equal
    exact = optimize_tosa(given, U55, stock=given, options=replace(options, max_sram=str(over.figures.sram)))
    assert exact.tosa == over.tosa
    short = optimize_tosa(given, U55, stock=given, options=replace(options, max_sram=over.figures.sram - 1))
    assert short.footprint.sram == stock.footprint.sram


@pytest.mark.slow
@ON_THE_NEWEST_VELA
def test_the_objective_decides_between_cycles_and_sram(options: Options) -> None:
    given = dumps(recomputed())
    options = replace(options, max_sram="any", max_flash="any")
    fast = optimize_tosa(given, U55, stock=given, options=options)
    small = optimize_tosa(given, U55, stock=given, options=replace(options, objective="sram"))
    assert fast.cycles < small.cycles <= small.stock_cycles and small.footprint.sram < fast.footprint.sram
    both = optimize_tosa(given, U55, stock=given, options=replace(options, objective="pareto"))
    assert both.tosa == fast.tosa and len(both.points) > 1 and all(p.verified for p in both.points)
    assert {p.figures.sram for p in both.points} >= {small.footprint.sram, fast.footprint.sram}


def test_less_sram_may_not_cost_more_cycles_than_stock_takes() -> None:
    decision = Decision("sram", MemoryLimits(100, 100), 50)
    ranked = sorted(
        [Figures(60, 1, 1), Figures(50, 20, 1), Figures(40, 30, 1), Figures(40, 10, 101)], key=decision.rank
    )
    assert ranked[:2] == [Figures(50, 20, 1), Figures(40, 30, 1)]
    assert sorted(ranked, key=Decision("cycles", MemoryLimits(100, 100)).rank)[0] == Figures(40, 30, 1)


def test_where_nothing_fits_the_closest_is_the_answer_with_a_warning(options: Options) -> None:
    given = dumps(recomputed())
    result = optimize_tosa(given, U55, options=replace(options, max_sram=1, max_flash="any"))
    assert result.footprint.sram == min(p.figures.sram for p in result.points) > 1
    assert any("no graph was found that fits into 1 bytes of SRAM" in w for w in result.warnings)


def test_limits_are_stocks_unless_they_are_given() -> None:
    given = {"explicit": footprint(900, 900), "stock": footprint(1000, 2000)}
    assert MemoryLimits.of(Options(), given, Container(3000)) == MemoryLimits(1000, 2050)
    assert MemoryLimits.of(Options(), given, Container(3000, 16)) == MemoryLimits(1000, 2034)
    assert MemoryLimits.of(Options(), given, ONE_OF_SEVERAL) == MemoryLimits(1000, 2000)
    assert MemoryLimits.of(Options(), {"explicit": footprint(900, 900)}) == MemoryLimits(900, 926)
    assert MemoryLimits.of(Options(), {}) == MemoryLimits.of(Options(max_sram="any", max_flash="any"), given)
    assert MemoryLimits.of(Options(max_sram="64", max_flash=5), given) == MemoryLimits(64, 5)


def test_by_how_much_a_graph_exceeds_its_limits() -> None:
    limits = MemoryLimits(100, 200)
    assert limits.fits(Figures(1, 100, 200)) and not limits.fits(Figures(1, 100, 201))
    assert limits.excess(Figures(1, 150, 300)) == 1.0
    assert MemoryLimits().fits(Figures(1, 10**9, 10**9)) and not MemoryLimits(0, 0).fits(Figures(1, 1, 0))


@pytest.mark.parametrize("wrong", ["64K", "-1", -1, "most", ""])
def test_a_limit_is_a_number_or_a_word(wrong: str | int) -> None:
    with pytest.raises(OptionError, match="max_sram is .*: give a number of bytes, stock or any"):
        Options(max_sram=wrong)


def test_what_more_memory_buys() -> None:
    old = Figures(20_000, 1024, 4096)
    assert more(Figures(7_700, 1024 + 63 * 1024, 4096), old) == "12,300 cycles fewer for 63.0 KiB more SRAM"
    assert more(Figures(19_000, 2048, 4608), old) == "1,000 cycles fewer for 1.0 KiB more SRAM and 0.5 KiB more flash"


def test_the_pareto_set_has_what_nothing_else_beats() -> None:
    figures = [Figures(5, 5, 5), Figures(3, 9, 5), Figures(5, 5, 5), Figures(4, 9, 5), Figures(9, 1, 9)]
    assert front(figures) == [1, 0, 4]
