"""The table of `eqsat.optimize` before lowering, and that a run goes on where it stopped."""

from __future__ import annotations

import json

import pytest

from benchmarks import optimize_program

pytestmark = pytest.mark.slow

CELLS = [
    {
        "name": "emg",
        "target": "t",
        "changed": True,
        "reason": "",
        "cycles": {"stock": 1000, "optimize": 500, "eqsat": 400, "both": 200},
    },
    {
        "name": "ds_cnn",
        "target": "t",
        "changed": False,
        "reason": "nothing",
        "cycles": {"stock": 100, "optimize": 100, "eqsat": 100, "both": 100},
    },
    {"name": "unet", "target": "t", "error": "took over 1 s"},
]


def test_an_interrupted_run_measures_only_what_is_missing(tmp_path, monkeypatch) -> None:
    asked = []

    def cell(model: str, target: str, timeout: float) -> dict:
        asked.append(model)
        return {**CELLS[1], "name": model}

    (tmp_path / "records.jsonl").write_text("".join(json.dumps(r) + "\n" for r in CELLS))
    monkeypatch.setattr(optimize_program, "run_cell", cell)
    optimize_program.main(["--models", "emg,ds_cnn,unet", "--targets", "t", "--out", str(tmp_path)])
    assert asked == ["unet"]  # the failed one is tried again
    kept = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    assert [r["name"] for r in kept] == ["emg", "ds_cnn", "unet"] and not any("error" in r for r in kept)
    assert "geometric mean of 3" in (tmp_path / "table.md").read_text()
