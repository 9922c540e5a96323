"""One graph through everything: rules are sound on random graphs, and graphs that once failed do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.random_graphs.shrink import shrink
from benchmarks.random_graphs.trial import run
from eqsat.ground.worker import Pool
from eqsat.rules import RULES
from eqsat.target import Target
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.vela.guards import violations
from tests.graphs import finish, rescale, reshape, transpose
from tests.random_graphs import NETWORK, random_graph

pytestmark = pytest.mark.slow

TARGETS = [Target.of(t) for t in ("ethos-u85-256", "ethos-u55-128")]


@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_all_rules_on_random_graphs(seed: int, pool: Pool) -> None:
    record = run(random_graph(seed, replace(NETWORK, most=20)), seed, TARGETS[seed % 2], pool, RULES, random=2)
    assert record.failures == []
    assert record.extracted > 0
    assert record.evaluated == record.e_nodes or record.stop != "saturated"


def test_the_whole_optimizer_on_a_random_graph(pool: Pool) -> None:
    record = run(random_graph(11, replace(NETWORK, most=10)), 11, TARGETS[0], pool, RULES, full=True)
    assert record.failures == [] and record.vela and record.optimized


def test_shrinking_keeps_the_failure_and_little_else() -> None:
    g = next(g for g in map(random_graph, range(100)) if "mul" in g.op_counts() and len(g.outputs) > 1)
    small = shrink(g, lambda c: "mul" in c.op_counts(), tries=200)
    assert small.op_counts() == {"mul": 1}


def test_int48_sums_are_read_by_a_rescale_alone(pool: Pool) -> None:
    """A slice after an INT16 convolution could go before its RESCALE, onto the INT48 sums: no extraction may do
    that."""
    g = TensorGraph()
    x = g.add_input("x", (1, 2, 3, 6), "INT16")
    sums = g.add_with(
        "conv2d",
        (x, g.add_const(np.arange(24).reshape(4, 1, 1, 6), "INT8"), g.add_const(np.arange(4), "INT48")),
        makers.conv("INT16"),
    )
    y = rescale(g, sums, "INT16", multiplier=(1 << 14,), shift=(20,), scale32=False)
    finish(g, g.add("slice", (transpose(g, y, 0, 2, 1, 3),), start=(0, 0, 0, 0), size=(1, 3, 2, 2)))
    assert violations(g, TARGETS[1].family) == []
    record = run(g, 0, TARGETS[0], pool, RULES, random=12)
    assert record.failures == record.refused == [] and record.extracted > 1


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.family.name)
def test_no_transpose_of_more_axes_than_tosa_has(target: Target, pool: Pool) -> None:
    """Three transposes whose composition has seven atomic axes: it may not be written as one TRANSPOSE of rank 7."""
    g = TensorGraph()
    y = reshape(g, transpose(g, g.add_input("x", (6, 3, 2, 4, 2), "INT8"), 0, 2, 4, 1, 3), 72, 2, 2, 1)
    y = reshape(g, transpose(g, y, 0, 2, 1, 3), 1, 2, 12, 12)
    finish(g, transpose(g, y, 0, 2, 1, 3))
    assert run(g, 173, target, pool, RULES).failures == []
