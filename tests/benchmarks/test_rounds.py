"""The study of the rounds behind the extraction: what is left out, records and the table."""

from __future__ import annotations

import json
from pathlib import Path
from pkgutil import resolve_name

import pytest

from benchmarks import rounds
from benchmarks.rounds import ASKED, COLUMNS, ROUNDS, left_out
from eqsat.tosa.flatbuffer import dumps
from tests.graphs import residual


def test_rounds_are_left_out_and_come_back() -> None:
    functions = [f for places in ROUNDS.values() for f in places]
    before = [resolve_name(f) for f in functions]
    with left_out(list(ROUNDS)):
        assert all(resolve_name(f) is not was for f, was in zip(functions, before))
    assert [resolve_name(f) for f in functions] == before
    assert {c for c, without in COLUMNS.items() if len(without) == 1} == {f"without {name}" for name in ROUNDS}


@pytest.mark.slow
def test_a_graph_is_measured_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rounds, "COLUMNS", {c: COLUMNS[c] for c in ("all", "none")})
    for kind in ("explicit", "stock"):
        (tmp_path / f"residual.0.ethos-u55-128.{kind}.tosa").write_bytes(dumps(residual()))
    arguments = ["--tosa", str(tmp_path), "--effort", "0", "--out", str(tmp_path / "out")]
    rounds.main(arguments)
    read = [json.loads(line) for line in (tmp_path / "out/records.jsonl").read_text().splitlines()]
    assert [(r["asked"], r["column"]) for r in read] == [(a, c) for a in ASKED for c in ("all", "none")]
    assert all(r["verified"] and r["cycles"][1] > 0 for r in read)
    assert all(r["sram"][1] <= r["sram"][0] and r["cycles"][1] <= r["cycles"][0] for r in read if r["asked"] == "sram")
    assert capsys.readouterr().out.count("residual 0 ethos-u55-128") == 4
    rounds.main(arguments)
    assert capsys.readouterr().out.startswith("# Rounds")
