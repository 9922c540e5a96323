"""The benchmark that runs ExecuTorch's own Arm tests: it draws, runs and goes on, and faults are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import arm_tests

DELEGATE: dict[str, Any] = {
    "cycles": [100, 90],
    "corrected": [100, 90],
    "calibrated": [100, 90],
    "sram": [64, 64],
    "sram_limit": 64,
    "verified": True,
    "proved": True,
    "binary_verified": True,
    "binary_reason": "",
    "passed_over": "",
    "warnings": [],
    "seconds": 1.0,
}


def record(**changed: Any) -> dict[str, Any]:
    delegate = {**DELEGATE, **{k: v for k, v in changed.items() if k in DELEGATE}}
    return {"case": "ops/a", "outcome": "passed", "error": "", "delegates": [delegate]} | {
        k: v for k, v in changed.items() if k not in DELEGATE
    }


def test_what_must_not_be_is_a_fault() -> None:
    assert arm_tests.faults([record()]) == []
    assert arm_tests.faults([record(outcome="failed", error="OSError", alone="failed")]) == []
    for changed in (
        {"calibrated": [80, 90]},
        {"sram": [64, 65]},
        {"verified": False, "warnings": ["differs"]},
        {"binary_verified": False, "binary_reason": "output 0 differs"},
        {"outcome": "failed", "error": "AssertionError", "alone": "passed"},
    ):
        assert len(arm_tests.faults([record(**changed)])) == 1, changed


@pytest.mark.slow
def test_it_runs_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--files", "ops/test_abs.py", "--cases", "1", "--out", str(tmp_path)]
    assert arm_tests.main(arguments) == 0
    assert "| cases that xfailed | 1 |" in (tmp_path / "table.md").read_text()
    assert capsys.readouterr().out.count("ops/test_abs.py::") == 1
    assert arm_tests.main(arguments) == 0
    assert capsys.readouterr().out == ""
