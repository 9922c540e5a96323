"""Convolutions run right before the sums that read them, where Vela chains both."""

from __future__ import annotations

import numpy as np
import pytest

from eqsat.device.compile import binary_of, raw_of
from eqsat.ground.worker import Pool
from eqsat.options.options import Options
from eqsat.proof import prove
from eqsat.proof.binary import prove_binary
from eqsat.search.loop import Loop
from eqsat.search.oracle import Oracle
from eqsat.search.proposal import State, Step
from eqsat.search.proposals.chains import before_sums, chains, in_parts
from eqsat.target import Target
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from tests.fake_oracle import by_vela
from tests.graphs import ON_THE_NEWEST_VELA, add, conv, finish, rescale

U55, U85 = (Target.of(name) for name in ("ethos-u55-128", "ethos-u85-256"))
GATES = 4


def step(gates: int = GATES, width: int = 64) -> TensorGraph:
    """A step of a recurrent network: gates are slices of a sum with a product, and have tables of their own."""
    g = TensorGraph()
    channels = gates * width
    given = g.add_input("given", (1, channels), "INT8")
    state = conv(g, g.add_input("state", (1, 1, 1, width), "INT8"), channels, seed=1)
    total = add(g, g.add("reshape", (state,), shape=(1, channels)), given)
    parts = [g.add("slice", (total,), start=(0, k * width), size=(1, width)) for k in range(gates)]
    tables = [
        g.add_with("table", (part,), makers.table(np.roll(np.arange(-128, 128), 7 * k + 1).tolist()))
        for k, part in enumerate(parts)
    ]
    products = [rescale(g, x, "INT32", in_zp=k) for k, x in enumerate(tables)]
    pairs = zip(products[::2], products[1::2])
    return finish(g, *(rescale(g, g.add("mul", pair, shift=(0,)), "INT8", shift=(37,)) for pair in pairs))


def test_parts_of_products_are_products_of_parts() -> None:
    graph = step()
    parts, source = in_parts(graph)
    assert parts.op_counts()["conv2d"] == parts.op_counts()["add"] == GATES
    read = [parts.nodes[parts.nodes[n].inputs[0]].op for n in parts.live() if parts.nodes[n].op == "slice"]
    assert read == ["input"] * GATES  # the other operand is read in slices
    assert prove(graph, parts).verdict == prove(graph, before_sums(parts)).verdict == "proved"
    operators = [n for n in parts.live() if parts.nodes[n].op != "const"]
    assert {(parts.nodes[n].op, graph.nodes[source[n]].op) for n in operators if parts.nodes[n].op == "conv2d"} == {
        ("conv2d", "conv2d")
    }
    assert set(operators) <= source.keys()


def test_a_slice_of_other_axes_or_of_no_product_stays() -> None:
    g = TensorGraph()
    x = g.add_input("x", (1, 4, 4, 16), "INT8")
    rows = g.add("slice", (conv(g, x, 16),), start=(0, 1, 0, 0), size=(1, 2, 4, 16))
    channels = g.add("slice", (x,), start=(0, 0, 0, 4), size=(1, 4, 4, 8))
    graph = finish(g, rows, channels)
    assert in_parts(graph) == (graph, {})


def test_a_convolution_is_the_first_operand_of_its_sum() -> None:
    """Vela runs the last operand first."""
    g = TensorGraph()
    x = g.add_input("x", (1, 8, 8, 16), "INT8")
    other = g.add_with("max_pool2d", (x,), makers.max_pool((1, 1)))
    for pair in ((other, conv(g, x, 16)), (conv(g, x, 16), other)):
        graph = finish(g, add(g, *pair)).pruned()
        arranged = before_sums(graph)
        (total,) = (n for n in arranged.live() if arranged.nodes[n].op == "add")
        wide = arranged.nodes[arranged.nodes[total].inputs[0]]
        assert arranged.nodes[arranged.nodes[wide.inputs[0]].inputs[0]].op == "conv2d"
        assert (arranged is graph) == (pair[1] == other)


@ON_THE_NEWEST_VELA
@pytest.mark.parametrize("target", [U55, U85], ids=str)
def test_gates_are_chained_on_u85(target: Target, pool: Pool) -> None:
    loop, start = Loop(Oracle.of(target, pool)), by_vela(step(), target, pool)
    end = loop.improve(State(target, Options()).with_graphs([start]), [Step(chains, 0.1)], lambda c: True)
    assert [c.by for c in end.graphs[1:]] == (["chains"] if target is U85 else [])
    if target is U85:
        (found,) = end.graphs[1:]
        assert found.figures.cycles < 0.95 * start.figures.cycles
        assert prove_binary(found.graph, binary_of(raw_of(found.estimate))).verdict == "proved"
