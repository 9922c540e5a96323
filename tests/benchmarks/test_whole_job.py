"""The seconds of whole jobs: a small network, and the table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.whole_job import main, table

ABOUT = {"commit": "abc", "versions": {"executorch": "1"}, "machine": "2 cores"}


@pytest.mark.slow
def test_a_job_is_measured_once(tmp_path: Path) -> None:
    arguments = ["--models", "pixel_shuffle", "--targets", "ethos-u55-128", "--jobs", "stock,default,other-weights"]
    arguments += ["--out", str(tmp_path)]
    main(arguments)
    text = (tmp_path / "records.jsonl").read_text()
    jobs = json.loads(text)["jobs"]
    assert list(jobs) == ["stock", "default", "other-weights"]
    assert (jobs["default"]["respelled"], jobs["other-weights"]["respelled"]) == (0, 1)
    assert all(j["seconds"] > 0 and j["processor"] > 0 for j in jobs.values())
    assert (
        jobs["default"]["cycles"] < jobs["default"]["stock_cycles"] and "search: extract" in jobs["default"]["stages"]
    )
    assert "pixel_shuffle | ethos-u55-128" in (tmp_path / "table.md").read_text()
    main(arguments)
    assert (tmp_path / "records.jsonl").read_text() == text


def test_the_table_has_means_and_the_most() -> None:
    def record(name: str, seconds: float, quick: float) -> dict:
        jobs = {"stock": {"seconds": 2.0}, "default": {"seconds": seconds, "cycles": 100}}
        return {"name": name, "target": "t", "jobs": {**jobs, "effort-1": {"seconds": quick, "cycles": 103}}}

    text = table([record("a", 4.0, 2.0), record("b", 1.0, 2.0)], ABOUT)
    assert "| a | t | 2.0 | 2.000 | 1.000 | 1.030 |" in text and "cycles, effort-1" in text
    assert "| **geometric mean of 2** | t | | **1.000** | **1.000** | **1.030** |" in text
    assert "| **most** | t | | **2.000** | **1.000** | **1.030** |" in text
    failed = {"name": "c", "target": "t", "jobs": {"stock": {"error": "no"}}}
    assert "| c | t | failed |" in table([record("a", 4.0, 2.0), failed], ABOUT)
