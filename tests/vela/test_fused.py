"""A RESCALE that Vela does not fuse is written to the beginning of a CONCAT, so binaries tell which these are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from eqsat.ground.worker import Worker
from eqsat.target import Target
from eqsat.tensor import makers
from eqsat.tensor.ops.pointwise import DOUBLE_ROUND
from eqsat.tensor.types import Attrs
from eqsat.tosa import dumps
from eqsat.vela.patterns import is_fused
from tests.device.verify import verify
from tests.graphs import ON_THE_NEWEST_VELA
from tests.term import Term, graph

#: Makes the operator whose result is scaled.
Made = Callable[..., Term]
X, TWO, WIDE = "x:INT8[1,2,4,8]", "x:INT8[1,2,4,8] y:INT8[1,2,4,8]", "x:INT32[1,2,4,8]"
MATRICES = "x:INT8[1,4,8] y:INT8[1,8,8]"
ONE = 1 << 30

FACTOR = makers.rescale("INT8", 3 << 28, 36)
POWER_OF_TWO = makers.rescale("INT8", ONE, 40)
ROUNDED_TWICE = makers.rescale("INT8", ONE, 40, rounding_mode=DOUBLE_ROUND)
UNIT = makers.rescale("INT8")
WIDENED = makers.rescale("INT32", 3 << 28, 10)
PER_CHANNEL = makers.rescale("INT8", [ONE + (k << 20) for k in range(8)], [36] * 8)


def of(op: str, *factors: tuple[int, int]) -> Made:
    """An elementwise operator of RESCALEs to INT32 by factors: multiplier and shift."""

    def made(*xs: Term) -> Term:
        x, y = (v.rescale("INT32", *factor) for v, factor in zip(xs, factors))
        return getattr(x, op)(y)

    return made


def itself(x: Term) -> Term:
    return x


def convolved(x: Term) -> Term:
    return x.conv(np.arange(64).reshape(8, 1, 1, 8) % 7 - 3, np.zeros(8))


def total(x: Term) -> Term:
    return x.rescale("INT32").reduce("sum", 3)


def twice(x: Term) -> Term:
    wide = x.rescale("INT32")
    return wide + wide


SUM = of("__add__", (ONE, 11), (1499914986, 13))
MATMUL, PRODUCT = Term.matmul, of("mul", (ONE, 30), (ONE, 30))
MAXIMUM, LARGE_SUM = of("max", (ONE, 30), (ONE, 30)), of("__add__", (ONE, 10), (3 << 28, 11))


@ON_THE_NEWEST_VELA
@pytest.mark.parametrize(
    ("inputs", "made", "scale", "others", "fused"),
    [
        pytest.param(WIDE, itself, FACTOR, (), False, id="of an input"),
        pytest.param(X, itself, WIDENED, (), False, id="of an INT8 input, to INT32"),
        pytest.param(X, convolved, PER_CHANNEL, (), True, id="of a convolution"),
        pytest.param(X, convolved, PER_CHANNEL, (FACTOR,), False, id="of a convolution with another reader"),
        pytest.param(X, lambda x: convolved(x).reshape(1, 4, 2, 8), FACTOR, (), True, id="of a RESHAPE"),
        pytest.param(X, lambda x: convolved(x).transpose(0, 2, 1, 3), FACTOR, (), False, id="of a TRANSPOSE"),
        pytest.param(X, total, FACTOR, (), True, id="of a sum along an axis"),
        pytest.param(MATRICES, MATMUL, FACTOR, (), True, id="of a matrix product"),
        pytest.param(MATRICES, MATMUL, PER_CHANNEL, (), False, id="of a matrix product, per channel"),
        pytest.param(TWO, PRODUCT, FACTOR, (), True, id="of a product"),
        pytest.param(TWO, PRODUCT, FACTOR, (None,), False, id="of a product that is an output"),
        pytest.param(TWO, of("mul", (3 << 10, 10), (ONE, 30)), FACTOR, (), False, id="of a product of a scaled tensor"),
        pytest.param(TWO, SUM, FACTOR, (), True, id="of a sum"),
        pytest.param(TWO, SUM, PER_CHANNEL, (), False, id="of a sum, per channel"),
        pytest.param(
            TWO.replace("8[", "16["), of("__sub__", (3 << 28, 17), (ONE, 16)), FACTOR, (), True, id="of a sum of INT16"
        ),
        pytest.param(TWO, of("__add__", (ONE, 30), (ONE, 30)), FACTOR, (), True, id="of a sum by integers"),
        pytest.param(TWO, of("__add__", (ONE, 11), (ONE, 11)), FACTOR, (), False, id="of a sum by equal factors"),
        pytest.param(TWO, LARGE_SUM, FACTOR, (), False, id="of a sum by large factors"),
        pytest.param(TWO, LARGE_SUM, POWER_OF_TWO, (), True, id="of a wide sum, shifted"),
        pytest.param(TWO, LARGE_SUM, ROUNDED_TWICE, (), False, id="of a wide sum, rounded twice"),
        pytest.param(X, twice, FACTOR, (), False, id="of a sum with itself"),
        pytest.param(TWO, MAXIMUM, UNIT, (), True, id="of a maximum, by one"),
        pytest.param(TWO, MAXIMUM, POWER_OF_TWO, (), False, id="of a maximum, shifted"),
    ],
)
def test_which_rescales_vela_fuses(
    inputs: str, made: Made, scale: Attrs, others: tuple[Attrs | None, ...], fused: bool, worker: Worker
) -> None:
    """others: RESCALEs of the same result that are outputs; None: the result is one itself."""
    scaled: list[int] = []

    def joined(*xs: Term) -> Any:
        x = made(*xs)
        y = x.made("rescale", scale)
        scaled.append(y.n)
        outputs = [x if o is None else x.made("rescale", o) for o in others]
        return *outputs, y.input(y.shape, y.dtype).concat(y, axis=len(y.shape) - 2)

    g = graph(inputs, joined)
    assert is_fused(g, g.readers(), *scaled) is fused
    assert verify(dumps(g), Target.of("ethos-u65-256"), worker).equal is fused
