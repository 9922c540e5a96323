"""Random graphs are legal, cover the op table, and are as their profile says."""

from __future__ import annotations

import pytest

from eqsat.ground.worker import Pool
from eqsat.target import Target
from eqsat.tensor.ops import OPS
from eqsat.tensor.ops.op import NotModelled
from eqsat.vela.compile import compile_graph
from tests.random_graphs import PROFILES, random_graph


def test_random_graphs_cover_the_op_table() -> None:
    drawn = [random_graph(seed) for seed in range(400)]
    assert set().union(*(g.op_counts() for g in drawn)) == {
        op for op, spec in OPS.items() if spec.tosa and not isinstance(spec.integer, NotModelled)
    }
    assert drawn[3] == random_graph(3)
    assert all(sum(g.op_counts().values()) >= 1 for g in drawn)
    assert {len(g.inputs) for g in drawn} >= {1, 2, 3} and {len(g.outputs) for g in drawn} >= {1, 2, 3}
    assert max(len(n.shape) for g in drawn for n in g.nodes) == 6
    assert {"INT8", "INT16", "INT32", "INT48", "BOOL"} == {n.dtype for g in drawn for n in g.nodes}


@pytest.mark.parametrize("name", PROFILES)
def test_graphs_are_as_their_profile_says(name: str) -> None:
    profile = PROFILES[name]
    for g in (random_graph(seed, profile) for seed in range(40)):
        assert sum(g.op_counts().values()) >= 1
        assert {g.nodes[i].dtype for i in g.inputs} <= {*profile.dtypes}
        assert max(g.type(n).elements for n in g.live() if g.nodes[n].op != "const") <= 4 * profile.largest


@pytest.mark.parametrize("target", ["ethos-u85-256", "ethos-u55-128"])
def test_vela_takes_the_graphs_that_are_for_it(target: str, pool: Pool) -> None:
    for seed in range(8):
        assert compile_graph(random_graph(seed, PROFILES["vela"]), Target.of(target), pool).cycles > 0
