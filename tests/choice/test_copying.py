"""Operands of a CONCAT that a depthwise convolution copies: the same values for fewer cycles of the whole graph, where
others read them too."""

from __future__ import annotations

import numpy as np
import pytest

from eqsat.choice import copying
from eqsat.choice.compiled import Compiled
from eqsat.ground.worker import Pool
from eqsat.options.options import Options
from eqsat.search.loop import Loop
from eqsat.search.optimizer import optimize_tosa
from eqsat.search.oracle import Oracle
from eqsat.search.proposal import Step
from eqsat.search.proposals.copies import copied_operands, copies
from eqsat.search.state import State
from eqsat.target import Target
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.samples import domains, samples
from eqsat.tosa import dumps, loads
from tests.fake_oracle import by_vela
from tests.graphs import ON_THE_NEWEST_VELA, conv, finish

TARGETS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")
#: Where such a convolution takes fewer cycles than Vela's copy. On U55 and U85 it only does by Vela's own total.
PAYING = TARGETS[1:2]


def skip_connection() -> TensorGraph:
    """A value that a pooling and a CONCAT read, as in a U-Net."""
    g = TensorGraph()
    read = conv(g, g.add_input("x", (1, 48, 48, 16), "INT8"), 16, seed=1)
    joined = g.add("concat", [read, conv(g, read, 16, seed=2)], axis=3)
    return finish(g, g.add_with("max_pool2d", [read], makers.max_pool((2, 2), stride=(2, 2))), joined)


def test_a_copy_has_every_value() -> None:
    g = TensorGraph()
    x = g.add_input("x", (1, 16, 16, 3), "INT8")
    finish(g, copying.emit(g, x))
    values = np.stack([np.roll(np.arange(-128, 128), k) for k in range(3)], 1).reshape(1, 16, 16, 3).astype(np.int8)
    assert np.array_equal(g.evaluate([values])[0], values)


def copied(target: Target, pool: Pool) -> list[Compiled]:
    """Returns the graph and that with a convolution in place of the one copy that Vela makes."""
    start, loop = by_vela(skip_connection(), target, pool), Loop(Oracle.of(target, pool), Options())
    assert [k for _, k in copied_operands(start)] == [0]
    return loop.improve(State(target, Options()).with_graphs([start]), [Step(copies)], lambda c: True).graphs


@pytest.mark.parametrize("target", TARGETS)
def test_what_others_read_too_is_copied_by_a_convolution(target: str, pool: Pool) -> None:
    """The changed graph means what the source means, and has the one copy that Vela makes."""
    (start, after) = copied(Target.of(target), pool)
    for inputs in samples(domains(start.graph), 4):
        for a, b in zip(start.graph.evaluate(inputs), after.graph.evaluate(inputs), strict=True):
            assert np.array_equal(a, b)
    assert after.graph.op_counts() == {**start.graph.op_counts(), "depthwise_conv2d": 1, "rescale": 3}


@ON_THE_NEWEST_VELA
@pytest.mark.parametrize("target", PAYING)
def test_a_copy_by_a_convolution_takes_fewer_cycles(target: str, pool: Pool) -> None:
    (start, after) = copied(Target.of(target), pool)
    assert after.figures.cycles < 0.97 * start.figures.cycles


@pytest.mark.slow
@ON_THE_NEWEST_VELA
@pytest.mark.parametrize("target", PAYING)
def test_the_answer_copies_by_a_convolution_only_what_vela_copies(target: str) -> None:
    """One operand is read by a pooling too, the other is written where it belongs and stays so."""
    source = skip_connection()
    result = optimize_tosa(dumps(source), target, options=Options(max_sram="any", max_flash="any"))
    assert result.chosen == "eqsat" and result.verified and result.binary_verified
    assert {e.extractor for e in result.extractions if e.cycles == result.calibrated} == {"copies"}
    assert min(e.cycles for e in result.extractions if e.extractor != "copies") > result.calibrated
    assert loads(result.tosa, "the answer").op_counts()["depthwise_conv2d"] == 1


@pytest.mark.slow
@ON_THE_NEWEST_VELA
@pytest.mark.parametrize("target", PAYING)
def test_no_copy_where_it_takes_too_much_flash(target: str) -> None:
    graph = dumps(skip_connection())
    free = optimize_tosa(graph, target, options=Options(max_sram="any", max_flash="any"))
    most = min(p.figures.flash for p in free.points)
    bound = optimize_tosa(graph, target, options=Options(max_sram="any", max_flash=most))
    assert "depthwise_conv2d" not in loads(bound.tosa, "the answer").op_counts()
    assert bound.calibrated > free.calibrated
