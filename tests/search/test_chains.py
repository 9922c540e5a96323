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
from eqsat.tensor.graph import TensorGraph
from tests.fake_oracle import by_vela
from tests.graphs import ON_THE_NEWEST_VELA, U55, U85
from tests.term import graph, inputs, outputs

GATES, WIDTH = 4, 64


def step() -> TensorGraph:
    """A step of a recurrent network: gates are slices of a sum with a product, and have tables of their own."""
    given, state = inputs(f"given:INT8[1,{GATES * WIDTH}] state:INT8[1,1,1,{WIDTH}]")
    total = state.layer(GATES * WIDTH, seed=1).reshape(1, GATES * WIDTH).plus(given)
    parts = [total.part(k * WIDTH, WIDTH, 1) for k in range(GATES)]
    tables = [part.table(np.roll(np.arange(-128, 128), 7 * k + 1)) for k, part in enumerate(parts)]
    wide = [x.rescale("INT32", in_zp=k) for k, x in enumerate(tables)]
    return outputs(*((x * y).rescale("INT8", shift=37) for x, y in zip(wide[::2], wide[1::2])))


def test_parts_of_products_are_products_of_parts() -> None:
    given = step()
    parts, source = in_parts(given)
    assert parts.op_counts()["conv2d"] == parts.op_counts()["add"] == GATES
    read = [parts.nodes[parts.nodes[n].inputs[0]].op for n in parts.live() if parts.nodes[n].op == "slice"]
    assert read == ["input"] * GATES  # the other operand is read in slices
    assert prove(given, parts).verdict == prove(given, before_sums(parts)).verdict == "proved"
    operators = [n for n in parts.live() if parts.nodes[n].op != "const"]
    assert {given.nodes[source[n]].op for n in operators if parts.nodes[n].op == "conv2d"} == {"conv2d"}
    assert set(operators) <= source.keys()


def test_a_slice_of_other_axes_or_of_no_product_stays() -> None:
    g = graph("x:INT8[1,4,4,16]", lambda x: (x.layer(16).part(1, 2, 1), x.part(4, 8, 3)))
    assert in_parts(g) == (g, {})


@pytest.mark.parametrize("is_first", [True, False])
def test_a_convolution_is_the_first_operand_of_its_sum(is_first: bool) -> None:
    """Vela runs the last operand first."""
    (x,) = inputs("x:INT8[1,8,8,16]")
    g = outputs(x.layer(16).plus(x.largest(1, 1)) if is_first else x.largest(1, 1).plus(x.layer(16)))
    arranged = before_sums(g)
    (total,) = (n for n in arranged.live() if arranged.nodes[n].op == "add")
    wide = arranged.nodes[arranged.nodes[total].inputs[0]]
    assert arranged.nodes[arranged.nodes[wide.inputs[0]].inputs[0]].op == "conv2d"
    assert (arranged is g) == is_first


@ON_THE_NEWEST_VELA
@pytest.mark.parametrize("target", [U55, U85], ids=str)
def test_gates_are_chained_on_u85(target: Target, pool: Pool) -> None:
    loop, start = Loop(Oracle(target, pool)), by_vela(step(), target, pool)
    end = loop.improve(State(target, Options()).with_graphs([start]), [Step(chains, 0.1)], lambda c: True)
    assert [c.by for c in end.graphs[1:]] == (["chains"] if target is U85 else [])
    if target is U85:
        (found,) = end.graphs[1:]
        assert found.figures.cycles < 0.95 * start.figures.cycles
        assert prove_binary(found.graph, binary_of(raw_of(found.estimate))).verdict == "proved"
