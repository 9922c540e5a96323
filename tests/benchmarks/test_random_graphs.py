"""The study: what is unsound is caught, saved and shrunk; records, networks, the table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.random_graphs import networks
from benchmarks.random_graphs.__main__ import graphs, opened
from eqsat.rules import RULES
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.flatbuffer import dumps, loads
from tests.graphs import finish, relu, rescale, transposed_relus
from tests.planted import SWAPPED
from tests.random_graphs import NETWORK, random_graph

pytestmark = pytest.mark.slow

TARGETS = [Target.of(t) for t in ("ethos-u85-256", "ethos-u55-128")]


def test_an_unsound_rule_is_caught_saved_and_shrunk(tmp_path: Path) -> None:
    log = opened(tmp_path / "records.jsonl", "seed", "target")
    seed = next(
        s
        for s in range(100)
        if {"sub"} <= random_graph(s, replace(NETWORK, most=12)).op_counts().keys()
        and {"sub"} <= random_graph(s).op_counts().keys()
    )
    graphs(log, [seed], TARGETS, [SWAPPED])
    (record,) = log.records.values()
    assert record["failures"][0].startswith("Unsound: ")
    small = loads((tmp_path / f"failures/{seed}.ethos-u85-256.small.tosa").read_bytes())
    assert 1 <= sum(small.op_counts().values()) <= 6
    assert (
        loads((tmp_path / f"failures/{seed}.ethos-u85-256.tosa").read_bytes()).signature()
        == random_graph(seed).signature()
    )
    again = opened(log.path, "seed", "target")
    graphs(again, [seed], TARGETS)  # done: not run again, or the sound rules would pass
    assert again.records == log.records
    log.path.write_text(log.path.read_text().replace(record["sources"], "other sources"))
    assert opened(log.path, "seed", "target").records == {}


def test_the_egraph_of_a_saved_network(tmp_path: Path) -> None:
    (tmp_path / "relus.0.ethos-u85-256.explicit.tosa").write_bytes(dumps(transposed_relus()))
    (path,) = networks.saved(tmp_path)
    record = networks.check_file(path, RULES)
    assert record["failure"] == "" and record["stop"] == "saturated" and record["evaluated"] == record["e_nodes"] > 10
    g = TensorGraph()
    x = g.add_input("x", (4,), "INT8")
    y = rescale(g, relu(g, x, 3), "INT32")
    path.write_bytes(dumps(finish(g, rescale(g, g.add("sub", (y, rescale(g, x, "INT32"))), "INT8"))))
    assert networks.check_file(path, [SWAPPED])["failure"].startswith("Unsound: ")
