"""Inputs and outputs outside SRAM are copied where an operator waits for them."""

from __future__ import annotations

import pytest

from eqsat.ground.worker import Pool
from eqsat.options.options import Options
from eqsat.search.optimizer import optimize_tosa
from eqsat.search.proposals.borders import outside, with_copies
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps
from tests.fake_oracle import by_vela
from tests.graphs import U55, U65, are_equal
from tests.term import inputs, outputs

pytestmark = pytest.mark.pins


def turned(size: int = 32, dtype: str = "INT8") -> TensorGraph:
    """Planes to pixels, a pooling, and pixels to planes."""
    pixels = size * size
    (x,) = inputs(f"x:{dtype}[1,16,{size},{size}]")
    y = x.reshape(1, 1, 16, pixels).transpose(0, 1, 3, 2).reshape(1, size, size, 16).largest(3, 3, pad=(1,) * 4)
    return outputs(y.reshape(1, 1, pixels, 16).transpose(0, 1, 3, 2).reshape(1, 16, size, size))


def test_both_ends_wait_where_they_lie_outside(pool: Pool) -> None:
    g = turned()
    assert {o.node for o in outside(by_vela(g, U65, pool))} == {*g.inputs, *g.outputs}
    assert not outside(by_vela(g, U55, pool))


@pytest.mark.parametrize("g", [turned(size=7), turned(dtype="INT16")], ids=["small", "INT16"])
def test_small_tensors_and_other_dtypes_stay(g: TensorGraph, pool: Pool) -> None:
    assert not outside(by_vela(g, U65, pool))


@pytest.mark.parametrize("ends", ["input", "output", "both"])
def test_copies_give_the_same_integers_for_fewer_cycles(ends: str, pool: Pool) -> None:
    start = by_vela(g := turned(), U65, pool)
    nodes = [*(g.inputs if ends != "output" else []), *(g.outputs if ends != "input" else [])]
    made = with_copies(g, [o for o in outside(start) if o.node in nodes])
    assert are_equal(made.graph, g)
    assert made.graph.signature() == g.signature() and made.graph.output_names == g.output_names
    assert by_vela(made.graph, U65, pool).figures.cycles < 0.95 * start.figures.cycles


def test_the_answer_has_the_copies_proved_and_as_a_binary() -> None:
    given = dumps(turned())
    result = optimize_tosa(given, U65, stock=given, options=Options(effort=1))
    assert any(e.extractor == "outside" for e in result.extractions)
    assert result.calibrated < 0.7 * result.stock_calibrated
    assert result.proved and result.binary_verified and result.binary_proved
