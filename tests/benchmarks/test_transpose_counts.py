"""The counts of TRANSPOSEs on ExecuTorch's own cases: one case measured, and what the table calls a fault."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import transpose_counts
from benchmarks.transpose_counts import faults, main, table

ABOUT = {"commit": "abc", "versions": {"eqsat": "1"}}


def record(stock: tuple[int | None, int | None], eqsat: tuple[int, int]) -> dict:
    return {
        "name": "n",
        "target": "t",
        "cycles": {"explicit": 10, "stock": stock[0], "eqsat": eqsat[0]},
        "transposes": {"explicit": 9, "stock": stock[1], "eqsat": eqsat[1]},
    }


@pytest.mark.parametrize(
    ("stock", "eqsat", "words"),
    [
        ((10, 2), (10, 2), None),
        ((10, 2), (9, 3), None),
        ((None, None), (9, 3), None),
        ((10, 2), (11, 0), "11 cycles, stock 10"),
        ((10, 2), (10, 3), "3 TRANSPOSEs for the same cycles, stock 2"),
    ],
)
def test_faults(stock, eqsat, words: str | None) -> None:
    found = faults([record(stock, eqsat), {"name": "n", "target": "t", "error": "no"}])
    assert (words is None) == (found == []) and (words is None or words in found[0])


def test_the_table_names_commit_versions_and_errors() -> None:
    text = table([record((10, 2), (5, 1)), {"name": "m", "target": "t", "error": "a | b"}], ABOUT)
    assert (
        "Commit abc; eqsat 1." in text
        and "| a / b |" in text
        and "| 0.500 |" in text
        and "| **all 1 with a stock graph** | t | 9 | 2 | 1 |" in text
    )


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
