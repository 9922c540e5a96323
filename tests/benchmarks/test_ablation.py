"""The ablation on one small graph: columns, figures and the table agree, and a second run has nothing left to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.ablation import ALL, WITHOUT, ratios, run
from benchmarks.saved import graphs
from eqsat.tosa.flatbuffer import dumps
from tests.graphs import transposed_relus

pytestmark = pytest.mark.slow

OPTIONS = {"extractor": "dag_greedy", "time_limit": 1.0, "max_flash": "1%"}


def test_one_graph(tmp_path: Path) -> None:
    for kind in ("explicit", "stock"):
        (tmp_path / f"relus.0.ethos-u85-256.{kind}.tosa").write_bytes(dumps(transposed_relus(1)))
    (tmp_path / "lonely.0.ethos-u85-256.explicit.tosa").write_bytes(b"")  # no stock graph: nothing to compare with
    found = list(graphs(tmp_path))
    assert [(g.model, g.delegate, g.target) for g in found] == [("relus", "0", "ethos-u85-256")]
    assert list(graphs(tmp_path, models=("other",))) == []
    columns = (ALL, "none", f"{WITHOUT}across")
    text = run(found, tmp_path / "out", OPTIONS, columns)
    records = [json.loads(line) for line in (tmp_path / "out/records.jsonl").read_text().splitlines()]
    assert [r["column"] for r in records] == [ALL, f"{WITHOUT}across", "none"]
    assert all(r["verified"] and r["warnings"] == [] for r in records)
    (measured,) = ratios(records).values()
    assert measured[ALL]["relus"] < measured["none"]["relus"] == measured[f"{WITHOUT}across"]["relus"] <= 1
    gain = measured["none"]["relus"] / measured[ALL]["relus"]
    assert f"| across | relus | {gain:.3f} | {gain:.3f} |" in text
    assert text == (tmp_path / "out/table.md").read_text() == run(found, tmp_path / "out", OPTIONS, columns)
