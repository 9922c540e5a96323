"""The seconds of whole jobs: a small network, and the table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import whole_job
from benchmarks.whole_job import main, table

ABOUT = {"commit": "abc", "versions": {"executorch": "1"}, "machine": "2 cores"}


@pytest.mark.slow
def test_a_job_is_measured_once(tmp_path: Path) -> None:
    arguments = ["--models", "pixel_shuffle", "--targets", "ethos-u55-128", "--jobs", "stock"]
    arguments += ["--out", str(tmp_path)]
    main(arguments)
    text = (tmp_path / "records.jsonl").read_text()
    (job,) = json.loads(text)["jobs"].values()
    assert job["seconds"] > 0 and job["processor"] > 0
    assert "pixel_shuffle | ethos-u55-128" in (tmp_path / "table.md").read_text()
    main(arguments)
    assert (tmp_path / "records.jsonl").read_text() == text


@pytest.mark.slow
def test_other_weights_find_the_choice_of_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both jobs run in this process, which has imported ExecuTorch already."""
    monkeypatch.setattr(whole_job, "_run", lambda *arguments: whole_job._job(*map(str, arguments)))
    jobs = whole_job.measure("pixel_shuffle", "ethos-u85-256", ["default", "other-weights"])["jobs"]
    assert list(jobs) == ["default", "other-weights"]
    assert (jobs["default"]["respelled"], jobs["other-weights"]["respelled"]) == (0, 1)
    assert (
        jobs["default"]["cycles"] < jobs["default"]["stock_cycles"] and "search: extract" in jobs["default"]["stages"]
    )


def test_the_table_has_means_and_the_most() -> None:
    def record(name: str, seconds: float, quick: float) -> dict:
        jobs = {"stock": {"seconds": 2.0}, "default": {"seconds": seconds, "corrected": 100}}
        return {"name": name, "target": "t", "jobs": {**jobs, "effort-1": {"seconds": quick, "corrected": 103}}}

    text = table([record("a", 4.0, 2.0), record("b", 1.0, 2.0)], ABOUT)
    assert "| a | t | 2.0 | 2.000 | 1.000 | 1.030 |" in text and "cycles, effort-1" in text
    assert "| **geometric mean of 2** | t | | **1.000** | **1.000** | **1.030** |" in text
    assert "| **most** | t | | **2.000** | **1.000** | **1.030** |" in text
    failed = {"name": "c", "target": "t", "jobs": {"stock": {"error": "no"}}}
    assert "| c | t | failed |" in table([record("a", 4.0, 2.0), failed], ABOUT)
