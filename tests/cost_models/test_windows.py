"""A graph's windows add up to its total, equal windows are measured once, and what Vela does only once in a graph it
does not do in each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cost_models.cache import PriceCache
from cost_models.groups import groups
from cost_models.vela_groups import VelaGroups
from cost_models.windows import Windows, reordered
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Pool
from eqsat.target import FAMILIES, Family, Target
from eqsat.target.families import U55
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tosa import loads
from eqsat.vela.compile import compile_graph
from tests.cost_models.counting import CountingPool
from tests.graphs import add, channel_shuffle, clamp, conv, finish, reshape, residual, transpose, transposed_relus


def tower(blocks: int = 3) -> TensorGraph:
    """Residual blocks, alike but for their weights."""
    g = TensorGraph()
    x = conv(g, g.add_input("x", (1, 12, 12, 16), "INT8"), 24, 3)
    for k in range(blocks):
        y = clamp(g, conv(g, x, 24, seed=k), -100, 90)
        x = add(g, x, conv(g, y, 24, 3, seed=9 + k))
    return finish(g, conv(g, x, 8, seed=99))


def unit_axes(times: int = 3) -> TensorGraph:
    """Movements whose reshapes only add a unit axis, one after the other."""
    g = TensorGraph()
    y = clamp(g, g.add_input("x", (4, 32, 16), "INT8"), -100, 90)
    for k in range(times):
        y = transpose(g, reshape(g, y, 1, *g.nodes[y].shape), 0, 2, 1, 3)
        y = clamp(g, reshape(g, y, *g.nodes[y].shape[1:]), -99 + k, 90 - k)
    return finish(g, y)


def two_movements() -> TensorGraph:
    """Transposes with only views between them, which Vela takes together."""
    g = TensorGraph()
    y = transpose(g, reshape(g, g.add_input("x", (1, 24, 16, 16), "INT8"), 1, 8, 3, 256), 0, 3, 2, 1)
    y = transpose(g, reshape(g, reshape(g, y, 1, 16, 16, 24), 1, 256, 3, 8), 0, 1, 3, 2)
    return finish(g, conv(g, reshape(g, y, 1, 16, 16, 24), 24))


GRAPHS = (tower, residual, transposed_relus, channel_shuffle, unit_axes, two_movements)


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[PriceCache]:
    with closing(PriceCache(tmp_path / "prices")) as c:
        yield c


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"])
@pytest.mark.parametrize("make", GRAPHS)
def test_the_total_is_velas(make, target: str, pool: Pool, cache: PriceCache) -> None:
    graph = make()
    model = VelaGroups(Target.of(target), pool, cache)
    truth = compile_graph(graph, model.target, pool).cycles
    assert abs(model.total(graph) - truth) <= (0.05 if "u65" in target else 0.02) * truth


class _RefusedOnce(Pool):
    """A pool whose first call is refused, as Vela does it."""

    calls = 0

    def call(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        if self.calls == 1:
            raise WorkerError("its binary has only 6 of 7 outputs", refused=True)
        return super().call(*args, **kwargs)


def test_a_graph_whose_group_is_refused_is_measured_whole(cache: PriceCache) -> None:
    graph = tower()
    with _RefusedOnce(1) as pool:
        total = VelaGroups(Target.of("ethos-u55-128"), pool, cache).total(graph)
        assert pool.calls > 2
        assert total == compile_graph(graph, Target.of("ethos-u55-128"), pool).corrected


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
@pytest.mark.parametrize("make", GRAPHS)
def test_every_op_is_in_one_group(make, family: Family) -> None:
    graph = make()
    ops = sorted(n for n in graph.live() if OPS[graph.nodes[n].op].kind != "leaf")
    assert sorted(n for g in groups(graph, family) for n in g) == ops


def test_windows_cut_only_tensors_that_a_pad_can_stand_for() -> None:
    graph = tower()
    windows = Windows(graph, U55)
    for w in windows.all:
        inside = set(w.nodes)
        assert set(w.group) <= inside
        for n in w.nodes:
            cut = [i for i in graph.nodes[n].inputs if i not in inside and graph.nodes[i].op != "const"]
            assert all(DType.of(graph.nodes[i].dtype).is_activation for i in cut)
        probe = loads(windows.probe(w)[0])
        assert all(DType.of(t.dtype).is_activation for t in (*probe.signature()[0], *probe.signature()[1]))


def test_equal_windows_are_measured_once(pool: Pool, cache: PriceCache) -> None:
    """A block more costs the windows around it, not those of the whole graph."""
    counting = CountingPool(pool)
    asked = counting.asked
    model = VelaGroups(Target.of("ethos-u55-128"), counting, cache)
    model.total(tower(4))
    model.total(tower(4))
    model.total(tower(5))
    assert asked[1] == 0 < asked[2] < asked[0]
    again = VelaGroups(model.target, counting, cache)
    assert again.total(tower(4)) == model.total(tower(4)) and asked[3:] == [0, 0]


def test_only_the_last_reshapes_are_reordered() -> None:
    graph = unit_axes(3)
    candidates = [n for n in graph.live() if graph.nodes[n].op == "reshape" and graph.nodes[n].shape[0] == 1]
    assert len(candidates) == 3 and reordered(graph) == {candidates[-1]}
