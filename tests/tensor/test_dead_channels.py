"""Channels on which no output depends go, and the graph stays equal; all others stay."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from eqsat.proof import PROVED, prove
from eqsat.tensor.dead_channels import without_dead_channels
from tests.graphs import are_equal
from tests.term import Term, graph


def products(x: Term, weights: np.ndarray, bias: np.ndarray, op: str = "conv2d") -> Term:
    """A convolution that keeps the size and its RESCALE per channel, from and to a zero point of -3."""
    sums = x.conv(weights, bias, op=op, pad=(weights.shape[1] // 2,) * 4, in_zp=-3)
    scales = np.random.default_rng(len(bias)).integers(1 << 30, 1 << 31, sums.shape[3])
    return sums.rescale("INT8", scales, [38] * len(scales), out_zp=-3)


def layer(x: Term, outputs: int, dead: Sequence[int] = (), size: int = 1, bias: int = 0) -> Term:
    """One whose filters are zeros for dead channels; bias: added to small ones."""
    rng = np.random.default_rng(outputs + len(dead))
    weights = rng.integers(-90, 90, (outputs, size, size, x.shape[3]))
    weights[list(dead)] = 0
    return products(x, weights, rng.integers(-9, 9, outputs) + bias)


def depthwise(x: Term, dead: Sequence[int]) -> Term:
    weights = np.random.default_rng(0).integers(-90, 90, (3, 3, x.shape[3], 1))
    weights[:, :, dead] = 0
    return products(x, weights, np.zeros(x.shape[3]), "depthwise_conv2d")


def pooled(x: Term) -> Term:
    y = depthwise(layer(x, 8, [1, 5]), [2]).largest(2, 2, stride=(2, 2)).average(3, 3, in_zp=-3, out_zp=-3)
    return layer(y.reshape(1, 8).reshape(1, 1, 1, 8), 4)


def summed(x: Term) -> Term:
    one, two = (layer(x, 8, dead).rescale("INT32", shift=20, in_zp=-3) for dead in ([1, 5, 6], [0, 1, 5]))
    return layer((one + two).rescale("INT8", shift=41, out_zp=-3), 4)


def read_in_part(x: Term) -> Term:
    weights = np.random.default_rng(0).integers(-90, 90, (4, 1, 1, 8))
    weights[..., [2, 3]] = 0
    return products(layer(x, 8), weights, np.zeros(4))


@pytest.mark.parametrize(
    "made, left",
    [
        pytest.param(lambda x: layer(layer(x, 8, [1, 5]), 4), [6, 4], id="zeros"),
        pytest.param(lambda x: layer(layer(x, 8, [1, 5], bias=40_000), 4), [6, 4], id="numbers for the next bias"),
        pytest.param(lambda x: layer(layer(x, 8, [1, 5], bias=40_000), 4, size=3), None, id="numbers beside padding"),
        pytest.param(lambda x: layer(layer(x, 8, [1, 5]), 4, size=3), [6, 4], id="the zero point beside padding"),
        pytest.param(pooled, [5, 5, 4], id="through depthwise convolutions, poolings and views"),
        pytest.param(summed, [6, 6, 4], id="dead in both operands of a residual sum"),
        pytest.param(read_in_part, [6, 4], id="no convolution reads them"),
        pytest.param(lambda x: layer(x, 8, [1, 5]), None, id="an output"),
        pytest.param(lambda x: layer(layer(x, 8, [1, 5]).reverse(3), 4), None, id="something else reads them"),
        pytest.param(lambda x: layer(layer(x, 8, range(8)), 4), [1, 4], id="one stays where all are dead"),
    ],
)
def test_channels_that_are_left(made: Callable[[Term], Term], left: list[int] | None) -> None:
    g = graph("x:INT8[1,6,6,3]", made)
    found = without_dead_channels(g)
    assert (found is None) == (left is None)
    if found is not None:
        assert are_equal(g, found.graph) and prove(g, found.graph).verdict == PROVED
        assert [n.shape[3] for n in found.graph.nodes if n.op in ("conv2d", "depthwise_conv2d")] == left
