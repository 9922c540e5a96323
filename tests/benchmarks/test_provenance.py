"""Shares of operators with an origin: of a graph with names, of one without, and what the table calls a fault."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.provenance import faults, main
from eqsat.tosa import dumps
from eqsat.tosa.locations import Origin, text
from tests.graphs import channel_shuffle, transposed_relus

TARGET = "ethos-u85-256"


def record(given: list[int], result: list[int], from_pytorch: bool = True) -> dict:
    about = {"name": "n", "delegate": 0, "target": "t", "from_pytorch": from_pytorch, "chosen": "eqsat"}
    return {**about, "given": given, "result": result, "rows": [1, 1]}


def test_shares_below_the_least_are_faults() -> None:
    assert faults([record([20, 20], [19, 20]), record([2, 2], [0, 0])]) == []
    (given,), (result,) = (faults([r]) for r in (record([9, 10], [10, 10]), record([10, 10], [94, 100])))
    assert "90.0% of the given operators" in given and "94.0% of the operators" in result


@pytest.mark.slow
def test_saved_graphs_are_measured_once(tmp_path: Path) -> None:
    graphs, out = tmp_path / "graphs", tmp_path / "out"
    graphs.mkdir()
    one, other = transposed_relus(), channel_shuffle()
    first = next(n for n in one.live() if one.nodes[n].op == "conv2d")  # of all others nothing is known
    (graphs / f"one.0.{TARGET}.explicit.tosa").write_bytes(dumps(one, {first: text([Origin("conv", "layer")])}))
    (graphs / f"other.1.{TARGET}.explicit.tosa").write_bytes(dumps(other))
    args = [str(graphs), "--cache", str(tmp_path / "prices"), "--out", str(out)]
    assert main(args) == 1
    found = {r["name"]: r for r in map(json.loads, (out / "records.jsonl").read_text().splitlines())}
    assert found["one"]["from_pytorch"] and found["one"]["given"][0] == 1 < found["one"]["given"][1]
    assert (found["other"]["from_pytorch"], found["other"]["delegate"], found["other"]["chosen"]) == (False, 1, "eqsat")
    assert all(known == every > 0 for known, every in (found["other"][k] for k in ("given", "result", "rows")))
    before = (out / "records.jsonl").read_bytes()
    again = tmp_path / "again"
    again.mkdir()
    (again / f"one.0.{TARGET}.explicit.tosa").write_bytes(dumps(one))  # smaller, but second
    assert main([args[0], str(again), *args[1:], "--out", str(tmp_path / "both")]) == 1
    both = {r["name"]: r for r in map(json.loads, (tmp_path / "both" / "records.jsonl").read_text().splitlines())}
    assert both == found
    assert main([*args, "--models", "other"]) == 1 and (out / "records.jsonl").read_bytes() == before
