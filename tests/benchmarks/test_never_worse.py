"""The benchmark of what is promised of every answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import never_worse
from benchmarks.study import read_lines
from eqsat.tosa.flatbuffer import dumps
from tests.graphs import transposed_relus

KEPT = {
    "cycles": 5,
    "calibrated": 5,
    "given": 4,
    "given_calibrated": 5,
    "allowed": 5,
    "fits": True,
    "verified": True,
    "binary_verified": True,
    "warnings": [],
}


def test_what_is_a_fault() -> None:
    for change, fault in (
        ({}, None),
        ({"cycles": 6}, "dearer"),
        ({"calibrated": 6}, "dearer"),
        ({"fits": False}, "above"),
        ({"verified": False}, "not verified"),
        ({"binary_verified": None}, "not judged"),
        ({"binary_verified": None, "warnings": ["told"]}, None),
        ({"binary_verified": False}, "wrong binary"),
    ):
        found = never_worse.faults({**KEPT, **change})
        assert [f for f in found if fault is None or fault not in f] == [] and bool(found) == (fault is not None)


@pytest.mark.slow
def test_it_runs_and_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = {name: replace(options, effort=1) for name, options in never_worse.RELAXED.items()}
    monkeypatch.setattr(never_worse, "RELAXED", quick)
    graph = dumps(transposed_relus())
    zoo = tmp_path / "graphs"
    zoo.mkdir()
    for kind in ("explicit", "stock"):
        (zoo / f"relus.0.ethos-u85-256.{kind}.tosa").write_bytes(graph)
    asked = ["--first", "11", "--graphs", "12", "--zoo", str(zoo), "--out", str(tmp_path / "out")]
    assert never_worse.STUDY.main(asked) == 0
    random, *lines = read_lines(tmp_path / "out/records.jsonl")
    assert random["seed"] == 11 and [line["limits"] for line in lines] == list(never_worse.RELAXED)
    assert lines[0]["calibrated"] < lines[0]["stock_calibrated"]
    before = (tmp_path / "out/records.jsonl").read_text()
    assert never_worse.STUDY.main(asked) == 0 and (tmp_path / "out/records.jsonl").read_text() == before
    assert "1 random graphs" in capsys.readouterr().out
