"""Random graphs are legal and cover the op table; all rules are sound on some of them; what is unsound is caught, saved and shrunk."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.random_graphs import networks
from benchmarks.random_graphs.__main__ import graphs, opened
from benchmarks.random_graphs.table import markdown, summary
from eqsat.checking.random_graphs import random_graph
from eqsat.checking.shrink import shrink
from eqsat.checking.trial import run
from eqsat.egraph.engine import Rule
from eqsat.rules import EXTERNS, RULES
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tensor.ops.op import NotModelled
from eqsat.tensor.types import Type
from eqsat.tosa.flatbuffer import dumps, loads
from eqsat.vela.guards import misplaced, violations
from eqsat.workers.worker import Pool
from tests.graphs import finish, relu, rescale, reshape, transpose, transposed_relus

pytestmark = pytest.mark.slow

TARGETS = [Target.of(t) for t in ("ethos-u85-256", "ethos-u55-128")]
PLANTED = Rule("planted", "test", "operands swapped", ("(= t (P2 f x y))",), ("(union t (P2 f y x))",))


def test_random_graphs_cover_the_op_table() -> None:
    drawn = [random_graph(seed) for seed in range(400)]
    assert set().union(*(g.op_counts() for g in drawn)) == {
        op for op, spec in OPS.items() if not isinstance(spec.integer, NotModelled)
    }
    assert drawn[3] == random_graph(3)
    assert all(sum(g.op_counts().values()) >= 1 for g in drawn)
    assert {len(g.inputs) for g in drawn} >= {1, 2, 3} and {len(g.outputs) for g in drawn} >= {1, 2, 3}
    assert max(len(n.shape) for g in drawn for n in g.nodes) == 6
    assert {"INT8", "INT16", "INT32", "INT48", "BOOL"} == {n.dtype for g in drawn for n in g.nodes}


@settings(max_examples=16, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_all_rules_on_random_graphs(seed: int, pool: Pool) -> None:
    record = run(random_graph(seed, most=20), seed, TARGETS[seed % 2], pool, RULES, EXTERNS, random=2)
    assert record.failures == []
    assert record.extracted > 0
    assert record.evaluated == record.e_nodes or record.stop != "saturated"


def test_the_whole_optimizer_on_a_random_graph(pool: Pool) -> None:
    record = run(random_graph(11, most=10), 11, TARGETS[0], pool, RULES, EXTERNS, full=True)
    assert record.failures == [] and record.vela and record.optimized


def test_an_unsound_rule_is_caught_saved_and_shrunk(tmp_path: Path) -> None:
    log = opened(tmp_path / "records.jsonl", "seed", "target")
    seed = next(
        s
        for s in range(100)
        if {"sub"} <= random_graph(s, most=12).op_counts().keys() and {"sub"} <= random_graph(s).op_counts().keys()
    )
    graphs(log, [seed], TARGETS, [PLANTED], ())
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


def test_shrinking_keeps_the_failure_and_little_else() -> None:
    g = next(g for g in map(random_graph, range(100)) if "mul" in g.op_counts() and len(g.outputs) > 1)
    small = shrink(g, lambda c: "mul" in c.op_counts(), tries=200)
    assert small.op_counts() == {"mul": 1}


def test_int48_sums_are_read_by_a_rescale_alone(pool: Pool) -> None:
    """A slice behind an INT16 convolution could go before its RESCALE, onto the INT48 sums: no extraction may do that."""
    g = TensorGraph()
    x = g.add_input("x", (1, 2, 3, 6), "INT16")
    sums = g.add(
        "conv2d",
        (x, g.add_const(np.arange(24).reshape(4, 1, 1, 6), "INT8"), g.add_const(np.arange(4), "INT48")),
        pad=(0,) * 4,
        stride=(1, 1),
        dilation=(1, 1),
        in_zp=(0,),
        w_zp=(0,),
        acc_type=6,
        local_bound=False,
    )
    y = rescale(g, sums, "INT16", multiplier=(1 << 14,), shift=(20,), scale32=False)
    finish(g, g.add("slice", (transpose(g, y, 0, 2, 1, 3),), start=(0, 0, 0, 0), size=(1, 3, 2, 2)))
    assert violations(g) == []
    record = run(g, 0, TARGETS[0], pool, RULES, EXTERNS, random=12)
    assert record.failures == record.refused == [] and record.extracted > 1


@pytest.mark.parametrize(
    ("op", "operand", "result", "wrong"),
    [
        ("slice", "INT48", "INT48", True),
        ("transpose", "INT48", "INT48", True),
        ("rescale", "INT48", "INT16", False),
        ("conv2d", "INT16", "INT48", False),
        ("slice", "INT32", "INT32", False),
    ],
)
def test_what_is_misplaced(op: str, operand: str, result: str, wrong: bool) -> None:
    assert misplaced(op, [Type((1, 2), operand)], Type((1, 2), result)) is wrong


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.family.name)
def test_no_transpose_of_more_axes_than_tosa_has(target: Target, pool: Pool) -> None:
    """Three transposes whose composition has seven atomic axes: it may not be written as one TRANSPOSE of rank 7."""
    g = TensorGraph()
    y = reshape(g, transpose(g, g.add_input("x", (6, 3, 2, 4, 2), "INT8"), 0, 2, 4, 1, 3), 72, 2, 2, 1)
    y = reshape(g, transpose(g, y, 0, 2, 1, 3), 1, 2, 12, 12)
    finish(g, transpose(g, y, 0, 2, 1, 3))
    assert run(g, 173, target, pool, RULES, EXTERNS).failures == []


def test_the_egraph_of_a_saved_network(tmp_path: Path) -> None:
    (tmp_path / "relus.0.ethos-u85-256.explicit.tosa").write_bytes(dumps(transposed_relus()))
    (path,) = networks.saved(tmp_path)
    record = networks.check_file(path, RULES, EXTERNS)
    assert record["failure"] == "" and record["stop"] == "saturated" and record["evaluated"] == record["e_nodes"] > 10
    g = TensorGraph()
    x = g.add_input("x", (4,), "INT8")
    y = rescale(g, relu(g, x, 3), "INT32")
    path.write_bytes(dumps(finish(g, rescale(g, g.add("sub", (y, rescale(g, x, "INT32"))), "INT8"))))
    assert networks.check_file(path, [PLANTED], ())["failure"].startswith("Unsound: ")


def test_the_table_names_rules_that_never_match(pool: Pool) -> None:
    record = run(transposed_relus(), 0, TARGETS[0], pool, RULES, EXTERNS, random=1).as_dict()
    found = summary([json.loads(json.dumps(record))], [], RULES)
    assert found["rules"]["pull-unary"] == 1 and "pull-unary" not in found["never"] and "pad-pad" in found["never"]
    assert "| moves | move-move | 1 |" in markdown(found, RULES) and found["failures"] == []
