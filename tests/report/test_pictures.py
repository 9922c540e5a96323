"""The charts of a report, of a recorded run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from eqsat.report import RecordedRun
from eqsat.report.write import by_kind, by_stage

RUN = Path(__file__).parents[2] / "benchmarks" / "results" / "calibrated"


def test_a_legend_has_what_occurs():
    run = RecordedRun.read(RUN)
    (bars,) = by_stage(run, "eqsat", "ethos-u85-256")
    assert "saturate (eqsat)" in bars.legend and "convert (ExecuTorch)" not in bars.legend
    only = {k: {**r, "by_kind": {"matmul": r["cycles"]}} for k, r in run.records.items() if "by_kind" in r}
    (bars,) = by_kind(replace(run, records=only), "eqsat", "ethos-u85-256")
    assert list(bars.legend) == ["matmul"]


def test_bars_of_cycles_are_shares_of_the_baselines():
    run = RecordedRun.read(RUN)
    (bars,) = by_kind(run, "eqsat", "ethos-u85-256")
    assert [sum(parts.values()) for name, parts, _ in bars.rows if name] == [pytest.approx(1)] * (len(bars.rows) // 2)
