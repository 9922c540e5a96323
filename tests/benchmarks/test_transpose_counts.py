"""The counts of TRANSPOSEs on ExecuTorch's own cases: one case measured, and what the table calls a fault."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import transpose_counts
from benchmarks.transpose_counts import faults, main


def record(stock: tuple[int | None, int | None], eqsat: tuple[int, int]) -> dict:
    return {
        "name": "n",
        "target": "t",
        "cycles": {"explicit": 10, "stock": stock[0], "eqsat": eqsat[0]},
        "transposes": {"explicit": 9, "stock": stock[1], "eqsat": eqsat[1]},
    }


def test_more_cycles_or_transposes_than_stock_are_a_fault() -> None:
    for stock, eqsat, is_fault in (
        ((10, 2), (10, 2), False),
        ((10, 2), (9, 3), False),
        ((None, None), (9, 3), False),
        ((10, 2), (11, 0), True),
        ((10, 2), (10, 3), True),
    ):
        found = faults([record(stock, eqsat), {"name": "n", "target": "t", "error": "no"}])
        assert len(found) == is_fault, (stock, eqsat)


@pytest.mark.slow
def test_a_case_of_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """linear_rank2 keeps no TRANSPOSE, as stock has none. A second run measures nothing."""
    assert len(transpose_counts.cases()) == 36
    command = ["--cases", "linear_rank2", "--targets", "ethos-u85-256", "--out", str(tmp_path), "--time-limit", "1"]
    assert main([*command, "--cache", str(tmp_path / "prices")]) == 0
    (found,) = map(json.loads, (tmp_path / "records.jsonl").read_text().splitlines())
    assert found["transposes"] == {"explicit": 2, "stock": 0, "eqsat": 0} and found["verified"]
    assert found["cycles"]["eqsat"] <= found["cycles"]["stock"]
    assert json.loads((tmp_path / "run.json").read_text())["versions"]["executorch"]
    monkeypatch.setattr(transpose_counts, "measure", None)
    assert main(command) == 0 and "linear_rank2" in (tmp_path / "table.md").read_text()
