"""Random graphs are legal, cover the op table, and are as their profile says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from eqsat.checking.random_graphs import random_graph as small_graph
from eqsat.ground.worker import Pool
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tensor.ops.op import NotModelled
from tests.graphs import compile_graph
from tests.random_graphs import PROFILES, random_graph


@pytest.mark.parametrize("drawn, most", [(small_graph, 20), (random_graph, 60)])
def test_random_graphs_cover_the_op_table(drawn: Callable[[int], TensorGraph], most: int) -> None:
    graphs = [drawn(seed) for seed in range(200)]
    assert set().union(*(g.op_counts() for g in graphs)) == {
        op for op, spec in OPS.items() if spec.tosa and not isinstance(spec.integer, NotModelled)
    }
    assert graphs[3] == drawn(3) and len({str(g.op_counts()) for g in graphs}) > 150
    assert all(1 <= sum(g.op_counts().values()) <= most for g in graphs)


def test_graphs_like_networks_have_several_inputs_and_outputs_and_all_dtypes() -> None:
    graphs = [random_graph(seed) for seed in range(100)]
    assert {len(g.inputs) for g in graphs} >= {1, 2, 3} and {len(g.outputs) for g in graphs} >= {1, 2, 3}
    assert max(len(n.shape) for g in graphs for n in g.nodes) == 6
    assert {"INT8", "INT16", "INT32", "INT48", "BOOL"} == {n.dtype for g in graphs for n in g.nodes}


@pytest.mark.parametrize("name", PROFILES)
def test_graphs_are_as_their_profile_says(name: str) -> None:
    profile = PROFILES[name]
    for g in (random_graph(seed, profile) for seed in range(40)):
        assert g.op_counts() and not profile.without & g.op_counts().keys()
        assert {g.nodes[i].dtype for i in g.inputs} <= {*profile.dtypes}
        assert max(g.type(n).elements for n in g.live() if g.nodes[n].op != "const") <= 2 * profile.largest


@pytest.mark.parametrize("target", ["ethos-u85-256", "ethos-u55-128"])
def test_vela_takes_the_graphs_that_are_for_it(target: str, pool: Pool) -> None:
    for seed in range(8):
        assert compile_graph(random_graph(seed, PROFILES["vela"]), Target.of(target), pool).cycles > 0
