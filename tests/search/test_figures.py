"""Figures of several delegates are sums, and unknown where one of them is unknown."""

from __future__ import annotations

from dataclasses import replace

from eqsat.search.comparison import verdict
from eqsat.search.figures import Compared, GraphFigures
from eqsat.vela.compile import Footprint

SMALL = GraphFigures(10, 8, {"convolution": 8}, Footprint(100, 1, 2, 3, {}))
LARGE = GraphFigures(20, 20, {"convolution": 5, "transpose": 15}, Footprint(400, 10, 20, 30, {}))


def test_figures_of_all_delegates() -> None:
    both = GraphFigures.together([SMALL, LARGE], complete=True)
    assert (both.cycles, both.corrected, both.stream) == (30, 28, None)
    assert both.by_kind == {"convolution": 13, "transpose": 15}
    assert both.footprint == Footprint(400, 11, 22, 33, {})


def test_what_one_delegate_has_not_is_not_known_of_all() -> None:
    refused = GraphFigures.together([SMALL, GraphFigures()], complete=True)
    assert refused == GraphFigures(by_kind={"convolution": 8})
    assert GraphFigures.together([SMALL], complete=False) == refused


def test_a_verdict_says_whether_cycles_fall_rise_or_stay() -> None:
    alike = replace(SMALL, cycles=8, corrected=8)
    said = [verdict(alike, replace(alike, cycles=cycles, corrected=cycles)) for cycles in (4, 8, 10)]
    rest = ", SRAM as before, flash as before"
    assert said == ["2.00x fewer cycles" + rest, "no fewer cycles" + rest, "1.25x more cycles" + rest]
    assert verdict(alike, SMALL) == "no fewer cycles by the corrected total" + rest


def test_delegates_whose_stock_graph_is_refused_are_left_out_of_a_comparison() -> None:
    known, refused = {"stock": LARGE, "eqsat": SMALL}, {"stock": GraphFigures(), "eqsat": SMALL}
    stock, ours, left_out = Compared.of({"forward/0": refused, "forward/1": known, "forward/2": {}})
    assert (stock, ours, left_out) == (LARGE, SMALL, ["forward/0", "forward/2"])
    nothing = Compared.of({"forward/0": refused})
    assert verdict(nothing.stock, nothing.eqsat) == "nothing to compare: the cycles without eqsat are not known"
