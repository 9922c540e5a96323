"""The ablation on one small graph: columns, figures and the table agree, and a second run has nothing left to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.ablation import ALL, STUDY, WITHOUT, ratios
from benchmarks.saved import SavedGraph, graphs
from benchmarks.study import Record, read_lines
from eqsat.tosa.flatbuffer import dumps
from tests.graphs import transposed_relus

pytestmark = pytest.mark.slow

OPTIONS = ["--extractor", "dag_greedy", "--time-limit", "1", "--max-flash", "1%"]


def _saved(place: Path) -> list[SavedGraph]:
    for kind in ("explicit", "stock"):
        (place / f"relus.0.ethos-u85-256.{kind}.tosa").write_bytes(dumps(transposed_relus(1)))
    return list(graphs(place))


def _run(place: Path, *asked: str) -> tuple[dict[str, Record], str]:
    """Returns the records by column, and the table."""
    assert STUDY.main(["--tosa", str(place), "--out", str(place / "out"), *OPTIONS, *asked]) == 0
    return {r["column"]: r for r in read_lines(place / "out/records.jsonl")}, (place / "out/table.md").read_text()


def test_a_proposal_that_is_left_out_asks_for_nothing(tmp_path: Path) -> None:
    _saved(tmp_path)
    records, text = _run(tmp_path, "--proposals")
    compiled = records[ALL]["compiled"]
    assert compiled["greedy"] > 0 and records[ALL]["first"] == "greedy"
    # without a proposal that asked for nothing the search is the same, and is not repeated
    assert records.keys() == {ALL, *(WITHOUT + p for p in compiled)}
    assert all(name.removeprefix(WITHOUT) not in r["compiled"] for name, r in records.items())
    ratio = records[f"{WITHOUT}greedy"]["calibrated"] / records[ALL]["calibrated"]
    assert ratio > 1
    row = f"| greedy | {compiled['greedy']} | 1 | 1 | 1 | 0 | {ratio:.4f} | {ratio:.3f} | ethos-u85-256 relus 0 | 0 |"
    assert row in text and _run(tmp_path, "--proposals") == (records, text)


def test_families_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "lonely.0.ethos-u85-256.explicit.tosa").write_bytes(b"")  # no stock graph: nothing to compare with
    found = _saved(tmp_path)
    assert [(g.model, g.delegate, g.target) for g in found] == [("relus", "0", "ethos-u85-256")]
    assert list(graphs(tmp_path, models=("other",))) == []
    asked = ("--columns", f"none,{WITHOUT}across")
    records, text = _run(tmp_path, *asked)
    assert list(records) == [ALL, f"{WITHOUT}across", "none"]
    assert all(r["verified"] and r["warnings"] == [] for r in records.values())
    (measured,) = ratios(list(records.values())).values()
    assert measured[ALL]["relus"] < measured["none"]["relus"] == measured[f"{WITHOUT}across"]["relus"] <= 1
    gain = measured["none"]["relus"] / measured[ALL]["relus"]
    assert f"| across | relus | {gain:.3f} | {gain:.3f} |" in text and _run(tmp_path, *asked) == (records, text)
