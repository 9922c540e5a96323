"""Operators on the CPU: a network that stock does not lower, measured, and what the table calls a fault."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.cpu_operators import faults, main


def record(stock: int | None, eqsat: int | None) -> dict:
    sides = {
        side: {"error": "no | way"} if n is None else {"delegates": 1, "operators": {"aten.sum": n} if n else {}}
        for side, n in (("stock", stock), ("eqsat", eqsat))
    }
    return {"name": "n", "target": "t", **sides}


def test_more_operators_on_the_cpu_than_stock_are_a_fault() -> None:
    for stock, eqsat, is_fault in ((0, 0, False), (2, 1, False), (None, 3, False), (1, 2, True), (1, None, True)):
        assert len(faults([record(stock, eqsat)])) == is_fault, (stock, eqsat)


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
