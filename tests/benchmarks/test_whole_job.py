"""The seconds of whole jobs: a small network, and the table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import whole_job
from benchmarks.whole_job import main


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
