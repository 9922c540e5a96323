"""Operators on the CPU: a network that stock does not lower, measured, and what the table calls a fault."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.cpu_operators import faults, main, table

ABOUT = {"commit": "abc", "versions": {"executorch": "1"}}


def record(stock: int | None, eqsat: int | None) -> dict:
    sides = {
        side: {"error": "no | way"} if n is None else {"delegates": 1, "operators": {"aten.sum": n} if n else {}}
        for side, n in (("stock", stock), ("eqsat", eqsat))
    }
    return {"name": "n", "target": "t", **sides}


@pytest.mark.parametrize(
    ("stock", "eqsat", "words"),
    [
        (0, 0, None),
        (2, 1, None),
        (None, 3, None),
        (None, None, None),
        (1, 2, "2, stock 1"),
        (1, None, "fails, stock 1"),
    ],
)
def test_faults(stock: int | None, eqsat: int | None, words: str | None) -> None:
    found = faults([record(stock, eqsat)])
    assert (words is None) == (found == []) and (words is None or words in found[0])


def test_the_table_adds_up_and_names_what_stays() -> None:
    text = table([record(0, 0), record(2, 1), record(None, 0)], ABOUT)
    assert "Commit abc; executorch 1." in text and "| t | 3 | 1 | 2 | 2 | 1 | 1 | 0 |" in text
    assert "| n | t | `aten.sum` 2 | `aten.sum` 1 |" in text and "fails: no / way" in text
    assert text.count("| n | t |") == 2


@pytest.mark.slow
def test_what_stock_refuses_is_found_and_measured_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["--networks", "masked_positions", "--targets", "ethos-u55-128,ethos-u85-256", "--out", str(tmp_path)]
    assert main(args) == 0
    u55, u85 = map(json.loads, (tmp_path / "records.jsonl").read_text().splitlines())
    assert u55["stock"]["operators"]["aten.cumsum"] == 2 and "torch.bool" in u85["stock"]["error"]
    for r in (u55, u85):
        assert r["eqsat"]["operators"] == {} and r["eqsat"]["delegates"] == 1
    before = (tmp_path / "records.jsonl").read_bytes()
    assert main(args) == 0 and (tmp_path / "records.jsonl").read_bytes() == before
    assert (
        json.loads((tmp_path / "run.json").read_text())["versions"]["executorch"] in (tmp_path / "table.md").read_text()
    )
