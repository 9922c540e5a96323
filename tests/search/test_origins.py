"""Which operators of the source those of a result stand for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from eqsat.options.options import Options
from eqsat.search.optimizer import Result, optimize_tosa
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps, loads
from eqsat.tosa.flatbuffer import tensor_names
from eqsat.tosa.locations import Origin, Origins, read, text
from tests.graphs import channel_shuffle, operators, residual, transposed_relus
from tests.term import graph, inputs, outputs


def named(given: TensorGraph) -> bytes:
    """The graph with an origin per operator, called after it."""
    return dumps(given, {n: text([Origin(f"{given.nodes[n].op}_{n}", f"layer{n}")]) for n in operators(given)})


def optimized(explicit: bytes, where: Path, **more) -> Result:
    options = Options(effort=1, cache=where / "prices", max_sram="any", max_flash="any", binary_time_limit=0)
    return optimize_tosa(explicit, "ethos-u85-256", options=options, **more)


def by_operator(result: Result) -> list[tuple[str, Origins]]:
    """(operator, origins) of all operators of the result."""
    found, numbers = loads(result.tosa), tensor_names(result.tosa)
    origins = {numbers[t]: o for t, o in result.origins.items()}
    return [(found.nodes[n].op, origins.get(n, ())) for n in operators(found)]


@pytest.mark.slow
@pytest.mark.parametrize("build", [transposed_relus, residual, channel_shuffle])
def test_every_operator_has_an_origin_and_the_graph_is_the_same(build, tmp_path: Path) -> None:
    result = optimized(named(build()), tmp_path)
    plain = optimized(dumps(build()), tmp_path)
    assert result.chosen == plain.chosen == "eqsat"
    assert dumps(loads(result.tosa)) == dumps(loads(plain.tosa)) and result.cycles == plain.cycles
    assert all(origins for _, origins in by_operator(result))
    assert plain.origins == {} and result.table and all(row["origins"] for row in result.table)
    assert [{**row, "origins": []} for row in result.table] == plain.table


def test_an_operator_that_moved_keeps_its_name(tmp_path: Path) -> None:
    """NHWC to NCHW, an activation there, and back: the result has no transposes, and the activation is the source's."""
    g = graph("x:INT8[1,8,8,16]", lambda x: x.layer(16, 3).nchw().relu(-100).nhwc().layer(16, 3, seed=1))
    result = optimized(named(g), tmp_path)
    kinds = {op: origins for op, origins in by_operator(result) if op in ("clamp", "transpose")}
    assert "transpose" not in kinds
    assert [o.node.partition("_")[0] for o in kinds["clamp"]] == ["clamp"]


def test_operators_that_merged_have_all_origins(tmp_path: Path) -> None:
    """The same pooling twice, each with another activation behind it."""
    (x,) = inputs("x:INT8[1,16,16,16]")
    x = x.layer(16, 3)
    pools = [x.largest(8, 8) for _ in range(2)]
    result = optimized(named(outputs(pools[0].relu(-100), pools[1].relu(-90))), tmp_path)
    merged = [[o.node for o in origins] for op, origins in by_operator(result) if op == "max_pool2d"]
    assert merged and all(names == [f"max_pool2d_{p.n}" for p in pools] for names in merged), "one along each axis"


def test_a_given_graph_that_wins_keeps_its_locations(tmp_path: Path) -> None:
    given = named(graph("x:INT8[1,4,4,8]", lambda x: x.relu(-100)))
    result = optimized(given, tmp_path)
    assert result.chosen == "explicit" and result.tosa == given and result.origins == read(given) != {}


def test_dead_channels_are_not_computed_and_operators_keep_their_names(tmp_path: Path) -> None:
    """Half of 32 filters are zero, and the 1x1 convolution behind them takes their biases into its own."""
    random = np.random.default_rng(0)
    weights, biases = random.integers(-127, 128, (32, 3, 3, 16)), random.integers(-500, 500, 32)
    weights[::2] = 0
    (x,) = inputs("x:INT8[1,8,8,16]")
    y = x.conv(weights, biases, pad=(1,) * 4)
    result = optimized(named(outputs(y.rescale("INT8", [1 << 30] * 32, [38] * 32, out_zp=-5).layer(16))), tmp_path)
    assert result.chosen == "eqsat" and result.proved
    assert [n.shape[3] for n in loads(result.tosa).nodes if n.op == "conv2d"] == [16, 16]
    convolutions = [origins[0].node for op, origins in by_operator(result) if op == "conv2d"]
    assert [name.rpartition("_")[0] for name in convolutions] == ["conv2d", "conv2d"]
    assert len({origins for _, origins in by_operator(result)}) == len(by_operator(result))
