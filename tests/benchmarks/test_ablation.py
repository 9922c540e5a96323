"""The ablation on one small graph: columns, figures and the table agree, and a second run has nothing left to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.ablation import ALL, PROPOSALS, WITHOUT, ratios, run
from benchmarks.saved import SavedGraph, graphs
from eqsat.tosa.flatbuffer import dumps
from tests.graphs import transposed_relus

pytestmark = pytest.mark.slow

OPTIONS = {"extractor": "dag_greedy", "time_limit": 1.0, "max_flash": "1%"}


def _saved(place: Path) -> list[SavedGraph]:
    for kind in ("explicit", "stock"):
        (place / f"relus.0.ethos-u85-256.{kind}.tosa").write_bytes(dumps(transposed_relus(1)))
    return list(graphs(place))


def test_a_proposal_that_is_left_out_asks_for_nothing(tmp_path: Path) -> None:
    found, out = _saved(tmp_path), tmp_path / "out"
    columns = [ALL, *(WITHOUT + p for p in PROPOSALS)]
    text = run(found, out, OPTIONS, columns)
    records = {r["column"]: r for r in map(json.loads, (out / "records.jsonl").read_text().splitlines())}
    compiled = records[ALL]["compiled"]
    assert compiled["greedy"] > 0 and records[ALL]["first"] == "greedy"
    # without a proposal that asked for nothing the search is the same, and is not repeated
    assert records.keys() == {ALL, *(WITHOUT + p for p in compiled)}
    assert all(name.removeprefix(WITHOUT) not in r["compiled"] for name, r in records.items())
    ratio = records[f"{WITHOUT}greedy"]["calibrated"] / records[ALL]["calibrated"]
    assert ratio > 1
    row = f"| greedy | {compiled['greedy']} | 1 | 1 | 1 | 0 | {ratio:.4f} | {ratio:.3f} | ethos-u85-256 relus 0 | 0 |"
    assert row in text == (out / "table.md").read_text() == run(found, out, OPTIONS, columns)


def test_one_graph(tmp_path: Path) -> None:
    (tmp_path / "lonely.0.ethos-u85-256.explicit.tosa").write_bytes(b"")  # no stock graph: nothing to compare with
    found = _saved(tmp_path)
    assert [(g.model, g.delegate, g.target) for g in found] == [("relus", "0", "ethos-u85-256")]
    assert list(graphs(tmp_path, models=("other",))) == []
    columns = (ALL, f"{WITHOUT}across", "none")
    text = run(found, tmp_path / "out", OPTIONS, columns)
    records = [json.loads(line) for line in (tmp_path / "out/records.jsonl").read_text().splitlines()]
    assert [r["column"] for r in records] == [ALL, f"{WITHOUT}across", "none"]
    assert all(r["verified"] and r["warnings"] == [] for r in records)
    (measured,) = ratios(records).values()
    assert measured[ALL]["relus"] < measured["none"]["relus"] == measured[f"{WITHOUT}across"]["relus"] <= 1
    gain = measured["none"]["relus"] / measured[ALL]["relus"]
    assert f"| across | relus | {gain:.3f} | {gain:.3f} |" in text
    assert text == (tmp_path / "out/table.md").read_text() == run(found, tmp_path / "out", OPTIONS, columns)
