"""Graphs in a row, what is recorded of each, and how it grows."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

from benchmarks import scale
from eqsat.ground.process import Limits
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps, loads
from tests.graphs import clamp


def block() -> TensorGraph:
    """Limits its first input, between a transposition and back, and gives the result, and its second input behind what
    was limited."""
    g = TensorGraph()
    x, y = g.add_input("x", (1, 4, 4, 8), "INT8"), g.add_input("y", (1, 4, 4, 8), "INT8")
    limited = clamp(g, g.add("transpose", (x,), perms=(0, 3, 1, 2)), -100, 90)
    back = g.add("transpose", (limited,), perms=(0, 2, 3, 1))
    g.outputs += [clamp(g, back, -90, 80), g.add("concat", (back, y), axis=3)]
    return g


def test_each_graph_of_a_chain_reads_what_the_one_before_gives() -> None:
    once = block()
    thrice = loads(dumps(scale.chained(once, 3)))
    rng = np.random.default_rng(0)
    x, *others = (rng.integers(-128, 128, (1, 4, 4, 8)).astype(np.int8) for _ in range(4))
    found = thrice.evaluate([x, *others])
    joined = []
    for y in others:
        x, other = once.evaluate([x, y])
        joined.append(other)
    assert all(np.array_equal(a, b) for a, b in zip(found, [*joined, x], strict=True))
    assert sum(thrice.op_counts().values()) == 3 * sum(once.op_counts().values())


@pytest.mark.slow
def test_a_graph_is_measured_once_and_one_that_takes_too_much_is_given_up(tmp_path) -> None:
    for name, times in (("attention.0", 1), ("mine.1", 2)):
        (tmp_path / f"{name}.ethos-u55-128.explicit.tosa").write_bytes(dumps(scale.chained(block(), times)))
    (tmp_path / "attention.0.ethos-u55-128.stock.tosa").write_bytes(dumps(block()))
    (chain,) = scale.chains(tmp_path, ["ethos-u55-128", "ethos-u85-256"], [2])
    _, network = scale.networks(tmp_path, ["ethos-u55-128"])
    assert (chain.name, network.name, network.stock) == ("attention x 2", "mine.1", None)
    assert "mine.1" in scale.run([chain, network], tmp_path / "out")
    records = [json.loads(line) for line in (tmp_path / "out" / "records.jsonl").read_text().splitlines()]
    for r in records:
        assert r["operators"] == 10 and r["verified"] and r["stop"] == "saturated"
        assert 0 < r["eqsat"] <= r["explicit"] and r["e_nodes"] > 10 and r["prices"] > 0
        assert r["processor"] > 0 and r["peak_mib"] > 50 and {"saturate", "price", "extract"} <= r["stages"].keys()
    scale.run([replace(chain, explicit=b"is not read again")], tmp_path / "out")
    assert "<svg" in (tmp_path / "out" / "scale.svg").read_text()
    assert "memory limit" in scale.record_of(chain, Limits(mib=30))["error"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "parameters"),
    [("densenet_121", 7_978_856), ("vit_12", 5_717_416), ("mobilevit_xxs", pytest.approx(1_270_000, rel=0.05))],
)
def test_large_networks_have_as_many_parameters_as_in_their_papers(name: str, parameters: float) -> None:
    module, inputs = getattr(import_module("benchmarks.models.large"), name)()
    assert sum(p.numel() for p in module.parameters()) == parameters
    assert tuple(module(*inputs).shape) == (1, 1000)
