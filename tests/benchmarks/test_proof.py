"""The benchmark of proofs, on two small graphs; and what its mutants are."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.proof.__main__ import main
from benchmarks.proof.mutants import mutants
from eqsat.tensor.graph import TensorGraph
from tests.graphs import conv


def test_a_small_run_writes_its_tables(tmp_path: Path) -> None:
    assert main(["--smoke", "--out", str(tmp_path)]) == 0
    graphs = [json.loads(line) for line in (tmp_path / "graphs.jsonl").read_text().splitlines()]
    assert [g["verdict"] for g in graphs] == ["proved", "proved"]
    assert "commit" in json.loads((tmp_path / "run.json").read_text())
    assert "| proved though a sample differs | 0 |" in (tmp_path / "table.md").read_text()


def test_mutants_differ_in_one_node() -> None:
    g = TensorGraph()
    x = g.add_input("x", (1, 4, 4, 4), "INT8")
    g.outputs.append(conv(g, x, 4, 3))
    made = list(mutants(g, 30))
    assert {m.kind for m in made} >= {"constant", "multiplier", "shift", "in_zp", "out_zp"}
    assert all([k for k, (a, b) in enumerate(zip(g.nodes, m.graph.nodes)) if a != b] == [m.node] for m in made)
