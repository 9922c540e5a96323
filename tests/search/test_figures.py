"""Figures of several delegates are sums, and unknown where one of them is unknown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eqsat.search.comparison import verdict
from eqsat.search.figures import Compared, GraphFigures
from eqsat.vela.compile import Footprint

SMALL = GraphFigures(10, 8, {"convolution": 8}, Footprint(100, 1, 2, 3, {}), calibrated=8, ends=((6, 9), (8, 12)))
LARGE = GraphFigures(
    20,
    20,
    {"convolution": 5, "transpose": 15},
    Footprint(400, 10, 20, 30, {}),
    calibrated=16,
    ends=((12, 18), (16, 40)),
)


def test_figures_of_all_delegates() -> None:
    both = GraphFigures.together([SMALL, LARGE], complete=True)
    assert (both.cycles, both.corrected, both.calibrated, both.stream) == (30, 28, 24, None)
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
