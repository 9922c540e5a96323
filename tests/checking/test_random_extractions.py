"""Graphs that no sensible price would choose from an e-graph of all rules are equal to the source, too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from eqsat.checking.soundness import check
from eqsat.choice import choice
from eqsat.egraph.engine import Budget
from eqsat.ground.worker import Pool
from eqsat.rules import RULES
from eqsat.target import Target
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.flatbuffer import dumps, loads
from eqsat.tosa.reference import compare
from eqsat.vela.defects import find_broken
from extraction import tree_greedy
from tests.random_graphs import NETWORK, random_graph
from tests.random_prices import Bytes
from tests.sweeps import some
from tests.term import inputs, outputs

pytestmark = pytest.mark.slow

TARGETS = [Target.of(t) for t in ("ethos-u85-256", "ethos-u55-128")]


def assert_equal_extractions(graph: TensorGraph, target: Target, pool: Pool, times: int = 3) -> int:
    """Checks the e-graph of all rules and compares what random prices choose. Returns how many graphs that were."""
    rng = np.random.default_rng(times)
    choices = choice.build(check(graph, RULES, budget=Budget(nodes=1200, seconds=10.0)).frozen, Bytes(target, rng))
    found: set[bytes] = set()
    for _ in range(times):
        prices = replace(choices.graph, cost=rng.exponential(1.0, choices.graph.n_nodes), pair_costs={})
        made, _ = choices.tensor_graph(tree_greedy.extract(prices).choice)
        assert find_broken(made, graph, target.family) == []
        found.add(dumps(made))
    assert all(compare(graph, loads(b), pool, trials=4).equal for b in found)
    return len(found)


@pytest.mark.parametrize("seed", some(range(4), 2))
def test_all_rules_on_random_graphs(seed: int, pool: Pool) -> None:
    graph = random_graph(seed, replace(NETWORK, most=20))
    assert assert_equal_extractions(graph, TARGETS[seed % 2], pool) > 0


def test_int48_sums_are_read_by_a_rescale_alone(pool: Pool) -> None:
    """No extraction may move a slice after an INT16 convolution before its RESCALE, onto the INT48 sums."""
    (x,) = inputs("x:INT16[1,2,3,6]")
    weights, bias = x.const(np.arange(24).reshape(4, 1, 1, 6), "INT8"), x.const(np.arange(4), "INT48")
    y = x.made("conv2d", makers.conv("INT16"), weights, bias).rescale("INT16", 1 << 14, 20, scale32=False)
    g = outputs(y.transpose(0, 2, 1, 3).slice((0, 0, 0, 0), (1, 3, 2, 2)))
    assert assert_equal_extractions(g, TARGETS[0], pool, times=12) > 1


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.family.name)
def test_no_transpose_of_more_axes_than_tosa_has(target: Target, pool: Pool) -> None:
    """Three transposes whose composition has seven atomic axes: it may not be written as one TRANSPOSE of rank 7."""
    (x,) = inputs("x:INT8[6,3,2,4,2]")
    x = x.transpose(0, 2, 4, 1, 3).reshape(72, 2, 2, 1).transpose(0, 2, 1, 3).reshape(1, 2, 12, 12)
    assert assert_equal_extractions(outputs(x.transpose(0, 2, 1, 3)), target, pool) > 0
