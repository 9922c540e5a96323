"""The benchmark of proofs, on two small graphs; and what its mutants are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.proof import summary
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


def _record(model: str, **more: object) -> dict[str, object]:
    sound = {"proved": True, "undecided": [[]], "stock_proved": True, "seconds": {"verify": 4.0}}
    binaries = {"binary_proved": [True], "binary_verified": [True]}
    stock = {f"stock_{key}": value for key, value in binaries.items()}
    return {"model": model, "target": "ethos-u55-128", **sound, **binaries, **stock, **more}


def test_recorded_cells_are_summed_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Shares are of what is there and not known to be wrong; what is open is named."""
    region = "add [1, 8] (node 3): its region is not proved"
    records = [
        _record("a"),
        _record("b", proved=False, undecided=[[region]], seconds={"verify": 16.0}),
        _record("c", stock_binary_proved=[None, True], stock_binary_verified=[False, True]),
        _record("d", binary_proved=[None], binary_undecided=[["DMA: memory"]], stock_proved=None),
        {"model": "d", "target": "ethos-u55-128", "proved": None},
        {"model": "e", "target": "ethos-u55-128", "error": "no"},
    ]
    (tmp_path / "records.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    assert summary.main([str(tmp_path)]) == 0
    text = capsys.readouterr().out
    shares = "| 3 of 4 (75.0%) | 3 of 3 (100.0%), 1 missing | 3 of 4 (75.0%) | 3 of 3 (100.0%), 1 wrong |"
    assert f"| all | 4 {shares} 5.7 | 16.0 |" in text
    assert f"* b, ethos-u55-128: answer: all but regions ({region})\n" in text
    assert "* d, ethos-u55-128: stock's graph: missing, answer's binary: undecided (DMA: memory)\n" in text
    assert "| c, ethos-u55-128 | proved | proved | proved | wrong | 4.0 |" in text


def test_a_run_without_proofs_is_no_run_of_proofs(tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").write_text(json.dumps({"model": "a", "error": "no"}) + "\n")
    with pytest.raises(SystemExit):
        summary.main([str(tmp_path)])
