"""The charts of a report, of the recorded run of the zoo."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from eqsat.report import RecordedRun
from eqsat.report.pictures import cycles_by_kind, seconds_by_stage
from eqsat.report.search_pictures import pareto
from eqsat.report.sides import Sides

ZOO = Path(__file__).parents[2] / "benchmarks" / "results" / "zoo"
LONG = "eqsat:user-rules=" + "/a/directory/of/somebody" * 4 + "/rules.py"


@pytest.mark.parametrize("picture", [seconds_by_stage, cycles_by_kind])
@pytest.mark.parametrize("configuration", ["eqsat", LONG])
def test_no_text_of_a_chart_is_cut_off(picture, configuration):
    """One target, as in a run of one: its chart is the narrowest."""
    read = RecordedRun.read(ZOO)
    run = replace(
        read,
        records={
            (m, t, configuration if c == "eqsat" else c): r
            for (m, t, c), r in read.records.items()
            if t == "ethos-u85-256"
        },
    )
    svg = picture(run, configuration)
    width = float(re.search(r'viewBox="0 0 ([\d.]+)', svg)[1])
    found = re.findall(r'<text style="([^"]*)" x="([-\d.]+)"[^>]*>([^<]+)', svg)
    assert len(found) > 10
    for style, x, text in found:
        room = 4.5 * len(text)  # points of width, at 9 points and less
        left = float(x) - (room / 2 if "middle" in style else room if "end" in style else 0)
        assert left >= 0 and left + room <= width, text


def test_a_legend_has_what_occurs():
    run = RecordedRun.read(ZOO)
    svg = seconds_by_stage(run, "eqsat")
    assert "saturate (eqsat)" in svg and "convert (ExecuTorch)" not in svg
    only = {k: {**r, "by_kind": {"matmul": r["cycles"]}} for k, r in run.records.items() if "by_kind" in r}
    svg = cycles_by_kind(replace(run, records=only), "eqsat")
    assert ">matmul<" in svg and ">pooling<" not in svg


def test_numbers_of_near_points_share_one_text():
    """The first two points are one to the eye; so are the last two, but for one of them in flash."""
    at = [(100, 900, 5_000), (101, 901, 4_990), (300, 500, 2_500), (301, 2_000, 2_490)]
    points = [{"sram": 1024 * s, "flash": 1024 * f, "cycles": c, "fits": True} for s, f, c in at]
    svg = pareto(points, Sides("", (), None, {}, None))
    numbers = re.findall(r"font-size: 8px[^>]*>([^<]+)|font: 8px[^>]*>([^<]+)", svg)
    assert ["".join(n) for n in numbers] == ["0, 1", "2, 3", "0, 1", "2", "3"]
