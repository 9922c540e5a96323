"""Figures of several delegates are sums, and unknown where one of them is unknown; which cycles decide."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from cost_models.calibration import get_spread
from eqsat.choice.compiled import Candidate
from eqsat.ground.process import WorkerError
from eqsat.options.options import Options
from eqsat.search.figures import Compared, GraphFigures, verdict
from eqsat.search.optimizer import optimize_tosa
from eqsat.search.oracle import price_compiled
from eqsat.target import Target
from eqsat.tosa import dumps
from eqsat.vela.compile import Estimate, Footprint
from eqsat.vela.roofline import Rates
from tests.fake_oracle import raw_output
from tests.graphs import U55, transposed_relus

SMALL = GraphFigures(10, {"convolution": 8}, Footprint(100, 1, 2, 3, {}), calibrated=8, ends=((6, 9), (8, 12)))
LARGE = GraphFigures(
    20, {"convolution": 5, "transpose": 15}, Footprint(400, 10, 20, 30, {}), calibrated=16, ends=((12, 18), (16, 40))
)


def test_figures_of_all_delegates() -> None:
    both = GraphFigures.together([SMALL, LARGE], complete=True)
    assert (both.cycles, both.calibrated, both.stream) == (30, 24, None)
    assert both.ends == ((18, 27), (24, 52))
    assert both.by_kind == {"convolution": 13, "transpose": 15}
    assert both.footprint == Footprint(400, 11, 22, 33, {})


def test_what_one_delegate_has_not_is_not_known_of_all() -> None:
    refused = GraphFigures.together([SMALL, GraphFigures()], complete=True)
    assert refused == GraphFigures(by_kind={"convolution": 8})
    assert GraphFigures.together([SMALL], complete=False) == refused


def test_a_verdict_says_whether_cycles_fall_rise_or_stay() -> None:
    """Without the ends of the constants, as in a saved run, nothing is said of an interval."""
    alike = replace(SMALL, ends=())
    said = [verdict(alike, replace(alike, calibrated=cycles)) for cycles in (4, 8, 10)]
    rest = ", SRAM as before, flash as before"
    changes = "2.00x fewer cycles (-50.0%)", "no fewer cycles", "1.25x more cycles (+25.0%)"
    assert said == [change + rest for change in changes]


def test_an_interval_is_what_the_ends_of_each_constant_change() -> None:
    """The first constant changes both graphs alike, the second one that before from 16 to 40 and the other to 12."""
    ratio = SMALL.over(LARGE)
    assert ratio is not None and ratio.value == 0.5 and ratio.within == pytest.approx(0.2)
    assert SMALL.over(GraphFigures()) is None and verdict(LARGE, SMALL).startswith(f"2.00x fewer cycles ({ratio})")


def test_delegates_whose_stock_graph_is_refused_are_left_out_of_a_comparison() -> None:
    known, refused = {"stock": LARGE, "eqsat": SMALL}, {"stock": GraphFigures(), "eqsat": SMALL}
    stock, ours, left_out = Compared.of({"forward/0": refused, "forward/1": known, "forward/2": {}})
    assert (stock, ours, left_out) == (LARGE, SMALL, ["forward/0", "forward/2"])
    nothing = Compared.of({"forward/0": refused})
    assert verdict(nothing.stock, nothing.eqsat) == "nothing to compare: the cycles without eqsat are not known"


# ---- the calibrated price of command streams decides, with its interval and Vela's totals beside it ---

#: An estimate whose stream cannot be decoded.
UNKNOWN = Estimate(5, (), {}, Rates(128, 1.0, 8.0, 1e9), raw_output(b"COP1" + bytes([9, 0, 0, 0])))


@pytest.mark.slow
@pytest.mark.parametrize("accelerator", ["ethos-u55-128", "ethos-u85-256"])
def test_a_result_is_dearer_by_no_price(accelerator: str) -> None:
    """Two TRANSPOSEs less are so many commands less."""
    target = Target.of(accelerator)
    graph = dumps(transposed_relus())
    result = optimize_tosa(graph, target, stock=graph, options=Options(effort=1))
    assert result.stock_calibrated and result.stock_cycles and result.change
    assert result.calibrated < result.stock_calibrated
    assert result.cycles <= result.stock_cycles * (1 + get_spread(target))
    assert result.change.value == result.calibrated / result.stock_calibrated and result.change.within >= 0
    before, after = result.command_stream["explicit"], result.command_stream["eqsat"]
    assert before and after and after.cycles == result.calibrated
    record = result.record()
    assert record["command_stream"]["eqsat"] == asdict(after)
    assert (record["calibrated"], record["stock_calibrated"]) == (result.calibrated, result.stock_calibrated)
    assert sum(row["calibrated"] for row in result.table) == pytest.approx(result.calibrated, rel=0.02)


def test_a_stream_that_nobody_knows_has_no_price_and_is_no_candidate() -> None:
    found = GraphFigures.of(UNKNOWN, U55)
    assert (found.cycles, found.stream, found.ends) == (5, None, ())
    graph = transposed_relus()
    with pytest.raises(WorkerError, match="its commands have no price"):
        price_compiled(U55, Candidate("eqsat", graph, dumps(graph)), UNKNOWN)
