"""The charts of a report, of the recorded run of the zoo."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from eqsat.report import RecordedRun
from eqsat.report.pictures import cycles_by_kind, seconds_by_stage

ZOO = Path(__file__).parents[2] / "benchmarks" / "results" / "zoo"
LONG = "eqsat:user-rules=" + "/a/directory/of/somebody" * 4 + "/rules.py"


@pytest.mark.parametrize("picture", [seconds_by_stage, cycles_by_kind])
def test_no_text_of_a_chart_is_cut_off(picture):
    """One target, as in a run of one: its chart is the narrowest."""
    read = RecordedRun.read(ZOO)
    run = replace(
        read,
        records={
            (m, t, LONG if c == "eqsat" else c): r for (m, t, c), r in read.records.items() if t == "ethos-u85-256"
        },
    )
    svg = picture(run, LONG)
    width = float(re.search(r'viewBox="0 0 ([\d.]+)', svg)[1])
    found = re.findall(r'<text style="([^"]*)" x="([-\d.]+)"[^>]*>([^<]+)', svg)
    assert len(found) > 10
    for style, x, text in found:
        room = 4.5 * len(text)  # points of width, at 9 points and less
        left = float(x) - (room / 2 if "middle" in style else room if "end" in style else 0)
        assert left >= 0 and left + room <= width, text
