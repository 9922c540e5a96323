"""A RESCALE that Vela does not fuse is written to the beginning of a CONCAT, so binaries tell which these are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from eqsat.device.verification import verify
from eqsat.ground.worker import Worker
from eqsat.target import Target
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops.rescale import DOUBLE_ROUND
from eqsat.tensor.types import Attrs
from eqsat.tosa import dumps
from eqsat.vela.fused import is_fused
from tests.graphs import ON_THE_NEWEST_VELA, finish, rescale

#: Adds the operator whose result is scaled.
Made = Callable[[TensorGraph], int]
SHAPE = (1, 2, 4, 8)
ONE = 1 << 30

FACTOR = makers.rescale("INT8", 3 << 28, 36)
POWER_OF_TWO = makers.rescale("INT8", ONE, 40)
ROUNDED_TWICE = makers.rescale("INT8", ONE, 40, rounding_mode=DOUBLE_ROUND)
UNIT = makers.rescale("INT8")
WIDENED = makers.rescale("INT32", 3 << 28, 10)
PER_CHANNEL = makers.rescale("INT8", [ONE + (k << 20) for k in range(8)], [36] * 8)


def of(op: str, *factors: tuple[int, int], dtype: str = "INT8") -> Made:
    """An elementwise operator of RESCALEs to INT32 by factors: multiplier and shift."""

    def made(g: TensorGraph) -> int:
        inputs = [g.add_input(f"x{k}", SHAPE, dtype) for k in range(len(factors))]
        operands = [rescale(g, x, "INT32", multiplier=(m,), shift=(s,)) for x, (m, s) in zip(inputs, factors)]
        return g.add_with(op, operands, {"mul": makers.mul(), "maximum": makers.extremum()}.get(op, ()))

    return made


def wide(g: TensorGraph) -> int:
    return g.add_input("x", SHAPE, "INT32")


def narrow(g: TensorGraph) -> int:
    return g.add_input("x", SHAPE, "INT8")


def conv2d(g: TensorGraph) -> int:
    w, b = g.add_const(np.arange(64).reshape(8, 1, 1, 8) % 7 - 3, "INT8"), g.add_const(np.zeros(8), "INT32")
    return g.add_with("conv2d", [g.add_input("x", SHAPE, "INT8"), w, b], makers.conv("INT8"))


def transposed(g: TensorGraph) -> int:
    return g.add("transpose", [conv2d(g)], perms=(0, 2, 1, 3))


def reshaped(g: TensorGraph) -> int:
    return g.add("reshape", [conv2d(g)], shape=(1, 4, 2, 8))


def total(g: TensorGraph) -> int:
    return g.add("reduce_sum", [rescale(g, g.add_input("x", SHAPE, "INT8"), "INT32")], axis=3)


def product(g: TensorGraph) -> int:
    operands = [g.add_input("x", (1, 4, 8), "INT8"), g.add_input("y", (1, 8, 8), "INT8")]
    return g.add_with("matmul", operands, makers.matmul())


def sum_with_itself(g: TensorGraph) -> int:
    x = rescale(g, g.add_input("x", SHAPE, "INT8"), "INT32")
    return g.add("add", [x, x])


SUM = of("add", (ONE, 11), (1499914986, 13))


@ON_THE_NEWEST_VELA
@pytest.mark.parametrize(
    ("made", "scale", "others", "fused"),
    [
        pytest.param(wide, FACTOR, (), False, id="of an input"),
        pytest.param(narrow, WIDENED, (), False, id="of an INT8 input, to INT32"),
        pytest.param(conv2d, PER_CHANNEL, (), True, id="of a convolution"),
        pytest.param(conv2d, PER_CHANNEL, (FACTOR,), False, id="of a convolution with another reader"),
        pytest.param(reshaped, FACTOR, (), True, id="of a RESHAPE"),
        pytest.param(transposed, FACTOR, (), False, id="of a TRANSPOSE"),
        pytest.param(total, FACTOR, (), True, id="of a sum along an axis"),
        pytest.param(product, FACTOR, (), True, id="of a matrix product"),
        pytest.param(product, PER_CHANNEL, (), False, id="of a matrix product, per channel"),
        pytest.param(of("mul", (ONE, 30), (ONE, 30)), FACTOR, (), True, id="of a product"),
        pytest.param(of("mul", (ONE, 30), (ONE, 30)), FACTOR, (None,), False, id="of a product that is an output"),
        pytest.param(of("mul", (3 << 10, 10), (ONE, 30)), FACTOR, (), False, id="of a product of a scaled tensor"),
        pytest.param(SUM, FACTOR, (), True, id="of a sum"),
        pytest.param(SUM, PER_CHANNEL, (), False, id="of a sum, per channel"),
        pytest.param(of("sub", (3 << 28, 17), (ONE, 16), dtype="INT16"), FACTOR, (), True, id="of a sum of INT16"),
        pytest.param(of("add", (ONE, 30), (ONE, 30)), FACTOR, (), True, id="of a sum by integers"),
        pytest.param(of("add", (ONE, 11), (ONE, 11)), FACTOR, (), False, id="of a sum by equal factors"),
        pytest.param(of("add", (ONE, 10), (3 << 28, 11)), FACTOR, (), False, id="of a sum by large factors"),
        pytest.param(of("add", (ONE, 10), (3 << 28, 11)), POWER_OF_TWO, (), True, id="of a wide sum, shifted"),
        pytest.param(of("add", (ONE, 10), (3 << 28, 11)), ROUNDED_TWICE, (), False, id="of a wide sum, rounded twice"),
        pytest.param(sum_with_itself, FACTOR, (), False, id="of a sum with itself"),
        pytest.param(of("maximum", (ONE, 30), (ONE, 30)), UNIT, (), True, id="of a maximum, by one"),
        pytest.param(of("maximum", (ONE, 30), (ONE, 30)), POWER_OF_TWO, (), False, id="of a maximum, shifted"),
    ],
)
def test_which_rescales_vela_fuses(
    made: Made, scale: Attrs, others: tuple[Attrs | None, ...], fused: bool, worker: Worker
) -> None:
    """others: RESCALEs of the same result that are outputs; None: the result is one itself."""
    g = TensorGraph()
    x = made(g)
    y = g.add_with("rescale", [x], scale)
    shape = g.nodes[y].shape
    outputs = [x if o is None else g.add_with("rescale", [x], o) for o in others]
    graph = finish(g, *outputs, g.add("concat", [g.add_input("z", shape, g.nodes[y].dtype), y], axis=len(shape) - 2))
    assert is_fused(graph, graph.readers(), y) is fused
    assert verify(dumps(graph), Target.of("ethos-u65-256"), worker).equal is fused
