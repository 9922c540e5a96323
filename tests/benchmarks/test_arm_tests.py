"""The benchmark that runs ExecuTorch's own Arm tests: a case runs once, and what it records is judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import arm_tests
from benchmarks.about import read_lines


@pytest.mark.slow
def test_a_case_runs_once_and_faults_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arm_tests, "cases", lambda *files: ["ops/test_abs.py::test_abs_u55_INT[zeros]"])
    arguments = ["--out", str(tmp_path)]
    for case in (1, 0):
        assert arm_tests.main(arguments) == 0
        assert capsys.readouterr().out.count("ops/test_abs.py::") == case
    assert "| cases that xfailed | 1 |" in (tmp_path / "table.md").read_text()
    (record,) = read_lines(tmp_path / "records.jsonl")
    (delegate,) = record["delegates"]
    assert arm_tests.faults([record]) == []
    for changed in (
        {"calibrated": [1, 2]},
        {"sram": [64, 65], "sram_limit": 64},
        {"verified": False},
        {"binary_verified": False},
    ):
        assert len(arm_tests.faults([{**record, "delegates": [{**delegate, **changed}]}])) == 1, changed
    assert len(arm_tests.faults([{**record, "outcome": "failed", "alone": "passed"}])) == 1
