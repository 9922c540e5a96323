"""The answer is the fastest graph that fits into the memory it may need; what more would have bought is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cost_models.calibration import get_spread
from eqsat import runs
from eqsat.bench.cells import Configuration
from eqsat.ground.files import InputError
from eqsat.ground.worker import Worker
from eqsat.options.decision import ALONE, Container, Decision, Earned, Figures, MemoryLimits, front, more, shortfall
from eqsat.options.options import EFFORTS, OptionError, Options
from eqsat.search.figures import count_cycles
from eqsat.search.optimizer import optimize_tosa
from eqsat.target import Target
from eqsat.tosa import dumps, loads
from eqsat.tosa.reference import compare
from eqsat.vela.compile import compile_tosa
from tests.graphs import ON_THE_NEWEST_VELA, U55, U85, channel_shuffle, recomputed, residual, transposed_relus

BRIEF = Options(preset="none", effort=1, rounds=1)


def test_more_memory_is_looked_for_after_the_default_limits() -> None:
    default = MemoryLimits(100, 50)
    for limits, aims in (
        (default, [default]),
        (MemoryLimits(80, 50), [MemoryLimits(80, 50)]),
        (MemoryLimits(), [default, MemoryLimits()]),
        (MemoryLimits(80, 70), [MemoryLimits(80, 50), MemoryLimits(80, 70)]),
    ):
        assert Decision(limits=limits, default=default).aims == [Decision(limits=aim, default=default) for aim in aims]


@pytest.mark.slow
@ON_THE_NEWEST_VELA
def test_a_faster_graph_that_needs_more_sram_is_not_the_answer(worker: Worker, tmp_path: Path) -> None:
    given = dumps(recomputed())
    result = optimize_tosa(given, U55, stock=given, options=BRIEF)
    stock = compile_tosa(given, U55, worker)
    assert result.footprint.sram <= stock.footprint.sram and result.warnings == []
    over = result.points[0]
    assert not over.fits and over.figures.cycles < result.calibrated and over.figures.sram > stock.footprint.sram
    assert result.passed_over.startswith(f"{result.calibrated - over.figures.cycles:,} cycles fewer for ")
    assert "KiB more SRAM" in result.passed_over

    runs.save(result, tmp_path / "run")
    saved = [
        compile_tosa((tmp_path / "run" / f"point-{i}.tosa").read_bytes(), U55, worker)
        for i in range(len(result.points))
    ]
    figures = [Figures.of(count_cycles(e, U55), e.footprint, e.cycles) for e in saved]
    assert figures == [p.figures for p in result.points]

    options = replace(BRIEF, max_flash="any")
    free = optimize_tosa(given, U55, stock=given, options=replace(options, max_sram="any"))
    assert (free.chosen, free.tosa, free.passed_over) == ("eqsat", over.tosa, "")
    assert compare(recomputed(), loads(free.tosa), worker, seed=5).equal
    exact = optimize_tosa(given, U55, stock=given, options=replace(options, max_sram=str(over.figures.sram)))
    assert exact.tosa == over.tosa
    short = optimize_tosa(given, U55, stock=given, options=replace(options, max_sram=over.figures.sram - 1))
    assert short.footprint.sram < over.figures.sram and over.figures.cycles < short.calibrated <= short.stock_calibrated


@pytest.mark.slow
@ON_THE_NEWEST_VELA
def test_the_objective_decides_between_cycles_and_sram() -> None:
    given = dumps(recomputed())
    options = replace(BRIEF, max_sram="any", max_flash="any")
    fast = optimize_tosa(given, U55, stock=given, options=options)
    small = optimize_tosa(given, U55, stock=given, options=replace(options, objective="sram"))
    assert fast.calibrated < small.calibrated <= small.stock_calibrated and small.footprint.sram < fast.footprint.sram
    both = optimize_tosa(given, U55, stock=given, options=replace(options, objective="pareto"))
    assert both.tosa == fast.tosa and len(both.points) > 1 and all(p.verified for p in both.points)
    assert {p.figures.sram for p in both.points} >= {small.footprint.sram, fast.footprint.sram}


def test_less_sram_may_not_cost_more_cycles_than_stock_takes() -> None:
    decision = Decision("sram", MemoryLimits(100, 100), 50)
    figures = [Figures(60, 1, 1), Figures(50, 20, 1), Figures(40, 30, 1), Figures(40, 10, 101)]
    assert sorted(figures, key=decision.rank)[:2] == [Figures(50, 20, 1), Figures(40, 30, 1)]
    assert sorted(figures, key=Decision("cycles", MemoryLimits(100, 100)).rank)[0] == Figures(40, 30, 1)


@pytest.mark.parametrize("objective", ["cycles", "sram"])
def test_an_answer_is_not_dearer_by_velas_total_beyond_what_is_allowed(objective: str) -> None:
    """Of two that fit, the one whose total by Vela is above the limit is behind, however cheap; memory comes first."""
    stock = Figures(60, 20, 1, vela_total=90)
    dearer, better, too_large = Figures(40, 10, 1, 91), Figures(50, 15, 1, 90), Figures(30, 20_001, 1, 50)
    decision = Decision.of(Options(objective=objective), stock._replace(sram=20_000, flash=100))
    assert sorted([too_large, dearer, stock, better], key=decision.rank) == [better, stock, dearer, too_large]
    wider = Decision.of(Options(objective=objective), stock._replace(sram=20_000, flash=100), allowance=0.02)
    assert sorted([too_large, dearer, stock, better], key=wider.rank)[0] == dearer


def test_velas_total_never_says_that_more_is_lost_than_calibrated_cycles_say_is_gained() -> None:
    """A gain of one cycle does not stand against a tenth more by Vela's total; less SRAM is no gain of cycles."""
    stock = Figures(1000, 20, 1, vela_total=1000)
    one_less, tenth_less = Figures(999, 20, 1, 1100), Figures(900, 20, 1, 1100)
    decision = Decision.of(Options(), stock, allowance=0.2)
    assert sorted([one_less, tenth_less, stock], key=decision.rank) == [tenth_less, stock, one_less]
    less_sram = Decision.of(Options(objective="sram"), stock, allowance=0.2)
    assert less_sram.rank(one_less._replace(sram=10)) < less_sram.rank(stock)


@pytest.mark.slow
def test_where_nothing_fits_the_answer_is_within_stocks_memory_and_no_dearer() -> None:
    given = dumps(recomputed())
    found = optimize_tosa(given, U55, options=replace(BRIEF, max_sram=1, max_flash="any", objective="sram"))
    stock, ours = found.figures["explicit"], found.figures["eqsat"]
    limits = MemoryLimits.of(Options(objective="sram"), Figures.of(0, stock.footprint, 0)).widest
    assert limits.fits(Figures.of(ours.calibrated, ours.footprint, ours.cycles))
    assert ours.calibrated <= stock.calibrated and ours.cycles <= stock.cycles * (1 + get_spread(U55))
    assert not found.fits and found.shortfall in found.warnings and found.verified
    assert found.nearest.sram == min(p.figures.sram for p in found.points)
    assert found.record()["nearest"] == found.nearest._asdict()
    met = optimize_tosa(given, U55, options=replace(BRIEF, max_sram=found.nearest.sram, max_flash="any"))
    assert met.fits and met.nearest is None and met.shortfall == ""


def test_what_does_not_fit_is_told_with_the_nearest_graph() -> None:
    own, nearest = Figures(1000, 70_800, 131_216), Figures(1904, 36_096, 131_216)
    sram = "does not fit: 70,800 of 32,768 bytes of SRAM"
    assert shortfall(MemoryLimits(32 << 10), own, nearest) == (
        f"{sram}; the nearest graph needs 36,096 at 1.90 times the cycles"
    )
    assert shortfall(MemoryLimits(32 << 10, 131_215), own, nearest) == (
        f"{sram} and 131,216 of 131,215 bytes of flash; "
        "the nearest graph needs 36,096 of SRAM and 131,216 of flash at 1.90 times the cycles"
    )
    larger = nearest._replace(flash=131_217)
    assert shortfall(MemoryLimits(32 << 10, 131_216), own, larger) == (
        f"{sram}; the nearest graph needs 36,096 of SRAM and 131,217 of flash at 1.90 times the cycles"
    )
    assert shortfall(MemoryLimits(32 << 10), own, own) == f"{sram}; no graph that comes nearer was found"


LARGE, SMALL, TINY = Figures(0, 100_000, 1_000_000), Figures(0, 100_000, 2000), Figures(0, 1024, 2000)


def test_limits_are_stocks_unless_they_are_given() -> None:
    earned = Earned(1_050_150, 10_030)
    assert MemoryLimits.of(Options(), LARGE, Container(3000)) == MemoryLimits(100_000, 1_010_030, earned)
    assert MemoryLimits.of(Options(), LARGE, Container(3000, 16)).flash == 1_010_014
    assert MemoryLimits.of(Options(max_flash="1%"), LARGE, Container(3000)) == MemoryLimits(100_000, 1_010_030)
    assert MemoryLimits.of(Options(), Figures(0, 90_000, 900)) == MemoryLimits(90_000, 900 + 4096)
    assert MemoryLimits.of(Options(), None) == MemoryLimits.of(Options(max_sram="any", max_flash="any"), LARGE)
    assert MemoryLimits.of(Options(max_sram="64", max_flash=5), LARGE) == MemoryLimits(64, 5)


def test_flash_beyond_the_limit_is_earned_by_cycles() -> None:
    """Each percent of the .pte beyond the first buys at least 2% of the cycles, against any other graph; up to 5%."""
    stock = Figures(1000, 10, 1_000_000)
    decision = Decision.of(Options(), stock._replace(sram=20_000), Container(0))
    inside, dear = Figures(900, 10, 1_010_000), Figures(880, 10, 1_020_000)
    earned, beyond = Figures(850, 10, 1_030_000), Figures(100, 10, 1_050_001)
    assert sorted([beyond, dear, earned, stock, inside], key=decision.rank) == [earned, dear, inside, stock, beyond]
    assert min([inside, Figures(890, 10, 1_020_000)], key=decision.rank) == inside
    assert not decision.limits.fits(earned) and decision.limits.widest.fits(earned)
    sizes = Decision.of(Options(objective="sram"), stock._replace(sram=20_000), Container(0))
    assert sizes.limits.widest == sizes.limits == MemoryLimits(20_000, 1_010_000)
    assert MemoryLimits.of(Options(objective="pareto"), Figures(0, 20_000, 10**6)).earned is not None


def test_more_flash_than_is_earned_is_looked_for_last() -> None:
    default = MemoryLimits(10, 100, Earned(105, 1.0))
    aims = Decision(limits=default, default=default).wider_aims
    assert [aim.limits for aim in aims] == [default, MemoryLimits(10, 105)]
    given = MemoryLimits(10, 102)
    within = MemoryLimits(10, 100, Earned(102, 1.0))
    assert [aim.limits for aim in Decision(limits=given, default=default).wider_aims] == [within, given]


#: Of what: stock's figures, what is around them, and {limit: bytes}.
SRAM = {
    "a network": (SMALL, {}, {"stock": 100_000, "any": None, "+16K": 100_000 + 16384, "5%": 105_000}),
    "an NPU with SRAM of its own": (
        SMALL,
        {"dedicated": 409_600},
        {"stock": 409_600, "any": None, "+1K": 101_024, "-50%": 50_000, "2K": 2048},
    ),
    "an NPU with little of its own": (SMALL, {"dedicated": 10}, {"stock": 100_000}),
    "a network of next to nothing": (TINY, {}, {"stock": 16 << 10, "0%": 1024, "+1K": 2048}),
    "a delegate beside a larger one": (
        SMALL,
        {"container": Container.of(2, arena=409_600)},
        {"stock": 409_600, "any": None, "+16K": 409_600 + 16384, "-50%": 204_800, "1500": 1500},
    ),
    "a delegate beside a smaller one": (SMALL, {"container": Container.of(2, arena=10)}, {"stock": 100_000}),
}
#: The same of {limit: bytes beyond stock's payload}: the .pte may grow by 1%, or by 4 KiB for all its delegates.
FLASH = {
    "a small .pte": (SMALL, ALONE, {"stock": 4096, "0%": 0, "+0": 0, "-99.9%": -2000}),
    "a small .pte of three delegates": (SMALL, Container.of(3), {"stock": 4096 // 3 - 127}),
    "a small .pte of a hundred": (SMALL, Container.of(100), {"stock": 0}),
    "a small .pte of nobody knows how many": (SMALL, Container.of(None), {"stock": 0}),
    "a large .pte": (
        LARGE,
        ALONE,
        {"+4K": 4096, "+4096": 4096, "5%": 50_089, "+5%": 50_089, "-5%": -50_090, "any": None},
    ),
    "a large .pte of two delegates": (LARGE, Container.of(2), {"+8K": 4096 - 127}),
    "a large .pte of three": (LARGE, Container.of(3), {"stock": 10_000 - 127}),
}


@pytest.mark.parametrize(("stock", "around", "wanted"), SRAM.values(), ids=SRAM)
def test_limits_of_sram(stock: Figures, around: dict[str, Any], wanted: dict[str, int | None]) -> None:
    assert {limit: MemoryLimits.of(Options(max_sram=limit), stock, **around).sram for limit in wanted} == wanted


@pytest.mark.parametrize(("stock", "container", "wanted"), FLASH.values(), ids=FLASH)
def test_limits_of_flash(stock: Figures, container: Container, wanted: dict[str, int | None]) -> None:
    found = {limit: MemoryLimits.of(Options(max_flash=limit), stock, container).flash for limit in wanted}
    assert found == {limit: None if more is None else stock.flash + more for limit, more in wanted.items()}


def test_the_default_limits_beside_a_users_own() -> None:
    assert Decision.of(Options(max_sram="2K"), SMALL, dedicated=409_600).default.sram == 409_600
    assert MemoryLimits.of(Options(max_flash="-5%"), LARGE).earned is None
    assert Container.of(1, arena=409_600) == ALONE


def test_the_limit_is_the_dedicated_sram_of_the_memory_mode() -> None:
    """U65's 384 KiB by ExecuTorch's default; in Shared_Sram others use it, too."""
    given = dumps(residual())
    shared = Target.of("ethos-u65-256", memory_mode="Shared_Sram")
    for target, granted in ((Target.of("ethos-u65-256"), 384 << 10), (shared, 0)):
        result = optimize_tosa(given, target, stock=given, options=BRIEF)
        assert result.limits.sram == max(result.stock_footprint.sram, granted, 16 << 10) and not result.warnings


@pytest.mark.parametrize(
    ("text", "size"),
    [("64K", 1 << 16), ("64kib", 1 << 16), ("64KB", 1 << 16), ("1.5M", 3 << 19), ("2MiB", 2 << 20), (" 7 ", 7)],
)
def test_limits_in_units(text: str, size: int) -> None:
    assert MemoryLimits.of(Options(max_sram=text, max_flash=text), SMALL) == MemoryLimits(size, size)


def test_by_how_much_a_graph_exceeds_its_limits() -> None:
    limits = MemoryLimits(100, 200)
    assert limits.fits(Figures(1, 100, 200)) and not limits.fits(Figures(1, 100, 201))
    assert limits.excess(Figures(1, 150, 300)) == 1.0
    assert MemoryLimits().fits(Figures(1, 10**9, 10**9)) and not MemoryLimits(0, 0).fits(Figures(1, 1, 0))


def test_a_graph_may_beat_another_unless_its_cycles_are_too_many() -> None:
    best = Figures(100, 50, 50)
    decision = Decision(limits=MemoryLimits(60, 60))
    assert decision.may_beat(Figures(99, 1000, 1000), best) and decision.may_beat(Figures(100, 1000, 50), best)
    assert not decision.may_beat(Figures(101, 10, 10), best)
    too_large = Figures(100, 61, 50)
    assert decision.may_beat(Figures(10**6, 1000, 50), too_large), "it may fit, and the best one does not"
    less_sram = Decision("sram", MemoryLimits(60, 60), cycles=200)
    assert less_sram.may_beat(Figures(200, 1000, 50), best) and not less_sram.may_beat(Figures(201, 10, 50), best)


@pytest.mark.parametrize(
    "wrong", ["64Q", "1.5", "-1", -1, True, "most", "", "K", "+", "%", "+any", "-4K", "--5%", "-100%", "1e3", "٣"]
)
def test_a_limit_is_a_number_or_a_word(wrong: str | int) -> None:
    with pytest.raises(
        InputError,
        match="^max_sram is .*: give a number of bytes .65536, 64K, 1M.*more or less than stock.*stock or any",
    ):
        Options(max_sram=wrong)


def test_what_more_memory_buys() -> None:
    old = Figures(20_000, 1024, 4096)
    assert more(Figures(7_700, 1024 + 63 * 1024, 4096), old) == "12,300 cycles fewer for 63.0 KiB more SRAM"
    assert more(Figures(19_000, 2048, 4608), old) == "1,000 cycles fewer for 1.0 KiB more SRAM and 512 bytes more flash"


def test_the_pareto_set_has_what_nothing_else_beats() -> None:
    figures = [Figures(5, 5, 5), Figures(3, 9, 5), Figures(5, 5, 5), Figures(4, 9, 5), Figures(9, 1, 9)]
    assert front(figures) == [1, 0, 4]
    assert front([Figures(5, 5, 5, 1), Figures(4, 5, 5, 9)]) == [1]


@pytest.mark.parametrize("number", range(len(EFFORTS)))
def test_an_effort_decides_the_budgets_that_are_not_given(number: int) -> None:
    effort, options = EFFORTS[number], Options(effort=number)
    budgets = (options.extractor, options.time_limit, options.binary_time_limit)
    assert budgets == (effort.extractor, effort.time_limit, effort.binary_time_limit)
    given = Options(effort=number, time_limit=7, extractor="asp")
    assert (given.time_limit, given.extractor) == (7, "asp")
    assert options.record()["effort"] == number
    assert Configuration.parse(f"eqsat:effort={number},rounds=5").optimizer_options() == replace(options, rounds=5)


def test_a_search_goes_through_the_lower_efforts_with_what_the_user_gave() -> None:
    assert Options() == Options(effort=2) and Options().levels == [Options(effort=1), Options()]
    assert Options(extractor="asp", rounds=5).levels[0] == Options(effort=1, extractor="asp", rounds=5)
    assert all(Options(effort=e).levels == [Options(effort=e)] for e in (0, 1))


@pytest.mark.parametrize("limits", [{}, {"max_sram": "-40%"}, {"objective": "sram"}])
def test_more_effort_tries_all_that_less_effort_tries(limits: dict[str, str]) -> None:
    given = dumps(channel_shuffle())
    less, more = (optimize_tosa(given, U85, options=Options(effort=e, **limits), with_settings=True) for e in (1, 2))
    assert more.extractions[: len(less.extractions)] == less.extractions
    assert len(more.extractions) > len(less.extractions) and more.calibrated <= less.calibrated


@pytest.mark.parametrize("wrong", [-1, 3, 4, "2"])
def test_another_effort_is_an_error(wrong: int) -> None:
    with pytest.raises(OptionError, match="there is no effort") as e:
        Options(effort=wrong)
    assert ("removed in 0.2: use 2" in str(e.value)) == (wrong == 3)


@pytest.mark.slow
def test_without_effort_nothing_is_searched(tmp_path: Path) -> None:
    given = dumps(transposed_relus())
    none, some = (
        optimize_tosa(given, U85, options=Options(effort=e, cache=tmp_path / "p", max_sram="any", max_flash="any"))
        for e in (0, 1)
    )
    assert Options(effort=0).identities(U85) == [] and Options(effort=1).identities(U85)
    assert none.verified and some.verified and some.calibrated < none.calibrated <= none.explicit_calibrated
    assert {e.extractor for e in none.extractions + some.extractions} == {"dag_greedy"}
    assert none.e_nodes < some.e_nodes


@pytest.mark.parametrize(
    ("field", "small", "least"), [("time_limit", -1.0, 0), ("rounds", 0, 1), ("binary_time_limit", -5, 0)]
)
def test_a_budget_is_a_number_that_is_large_enough(field: str, small: float, least: int) -> None:
    for value, said in ((small, f"{small:g}: give at least {least}"), ("5", "'5': give a number")):
        with pytest.raises(OptionError, match=f"{field} is {said}"):
            Options(**{field: value})
    Options(**{field: least})
