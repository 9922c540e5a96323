"""The seconds of whole jobs: a small network, and the table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import whole_job


@pytest.mark.slow
def test_jobs_are_measured_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All jobs run in this process, which has imported ExecuTorch already."""
    monkeypatch.setattr(whole_job, "_run", lambda *arguments: whole_job._job(*map(str, arguments)))
    arguments = [
        "--models",
        "pixel_shuffle",
        "--targets",
        "ethos-u85-256",
        "--jobs",
        "stock,effort-1",
        "--out",
        str(tmp_path),
    ]
    whole_job.STUDY.main(arguments)
    text = (tmp_path / "records.jsonl").read_text()
    jobs = json.loads(text)["jobs"]
    assert list(jobs) == ["stock", "effort-1"] and all(j["seconds"] > 0 < j["processor"] for j in jobs.values())
    assert jobs["effort-1"]["cycles"] < jobs["effort-1"]["stock_cycles"]
    assert "| pixel_shuffle | ethos-u85-256 |" in (tmp_path / "table.md").read_text()
    whole_job.STUDY.main(arguments)
    assert (tmp_path / "records.jsonl").read_text() == text
