"""Inputs and outputs outside SRAM are copied where an operator waits for them."""

from __future__ import annotations

import numpy as np
import pytest

from eqsat.choice.compiled import Compiled
from eqsat.ground.worker import Pool
from eqsat.options.options import Options
from eqsat.search.optimizer import optimize_tosa
from eqsat.search.proposals.borders import outside, with_copies
from eqsat.target import Target
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps
from tests.fake_oracle import by_vela

pytestmark = pytest.mark.pins

U55, U65 = (Target.of(name) for name in ("ethos-u55-128", "ethos-u65-256"))


def turned(size: int = 32, dtype: str = "INT8") -> TensorGraph:
    """Planes to pixels, a pooling, and pixels to planes."""
    g = TensorGraph()
    shape = (1, 16, size, size)
    x = g.add("reshape", (g.add_input("x", shape, dtype),), shape=(1, 1, 16, size * size))
    y = g.add("reshape", (g.add("transpose", (x,), perms=(0, 1, 3, 2)),), shape=(1, size, size, 16))
    y = g.add_with("max_pool2d", (y,), makers.max_pool((3, 3), pad=(1, 1, 1, 1)))
    y = g.add("transpose", (g.add("reshape", (y,), shape=(1, 1, size * size, 16)),), perms=(0, 1, 3, 2))
    g.outputs, g.output_names = [g.add("reshape", (y,), shape=shape)], ["y"]
    return g


def compiled(g: TensorGraph, target: Target) -> Compiled:
    with Pool(1) as pool:
        return by_vela(g, target, pool)


def test_both_ends_wait_where_they_lie_outside() -> None:
    g = turned()
    assert {o.node for o in outside(compiled(g, U65))} == {*g.inputs, *g.outputs}
    assert not outside(compiled(g, U55))


@pytest.mark.parametrize("g", [turned(size=7), turned(dtype="INT16")], ids=["small", "INT16"])
def test_small_tensors_and_other_dtypes_stay(g: TensorGraph) -> None:
    assert not outside(compiled(g, U65))


@pytest.mark.parametrize("ends", ["input", "output", "both"])
def test_copies_give_the_same_integers_for_fewer_cycles(ends: str) -> None:
    g = turned()
    nodes = [*(g.inputs if ends != "output" else []), *(g.outputs if ends != "input" else [])]
    made = with_copies(g, [o for o in outside(compiled(g, U65)) if o.node in nodes])
    x = np.random.default_rng(0).integers(-128, 128, g.nodes[0].shape).astype(np.int8)
    np.testing.assert_array_equal(made.graph.evaluate([x])[0], g.evaluate([x])[0])
    assert made.graph.signature() == g.signature() and made.graph.output_names == g.output_names
    assert compiled(made.graph, U65).figures.cycles < 0.95 * compiled(g, U65).figures.cycles


def test_the_answer_has_the_copies_proved_and_as_a_binary() -> None:
    given = dumps(turned())
    result = optimize_tosa(given, U65, stock=given, options=Options(effort=1))
    assert any(e.extractor == "outside" for e in result.extractions)
    assert result.calibrated < 0.7 * result.stock_calibrated
    assert result.proved and result.binary_verified and result.binary_proved
