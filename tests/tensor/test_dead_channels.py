"""Channels on which no output depends go, and the graph stays equal; all others stay."""

import numpy as np
import pytest

from eqsat.proof import PROVED, prove
from eqsat.tensor import makers
from eqsat.tensor.dead_channels import without_dead_channels
from eqsat.tensor.graph import TensorGraph

SHAPE = (1, 6, 6, 3)


class Network:
    """A graph under construction, with random weights that are zero for `dead` output channels."""

    def __init__(self, seed: int = 0) -> None:
        self.graph, self.random = TensorGraph(), np.random.default_rng(seed)

    def input(self) -> int:
        return self.graph.add_input("x", SHAPE, "INT8")

    def conv(self, x: int, outputs: int, dead: list[int] | None = None, *, size: int = 1, bias: int = 0) -> int:
        channels = self.graph.nodes[x].shape[3]
        weights = self.random.integers(-90, 90, (outputs, size, size, channels))
        weights[dead or []] = 0
        return self._products("conv2d", x, weights, self.random.integers(-9, 9, outputs) + bias, size)

    def depthwise(self, x: int, dead: list[int] | None = None, *, size: int = 3) -> int:
        weights = self.random.integers(-90, 90, (size, size, self.graph.nodes[x].shape[3], 1))
        weights[:, :, dead or []] = 0
        return self._products("depthwise_conv2d", x, weights, np.zeros(weights.shape[2]), size)

    def _products(self, op: str, x: int, weights: np.ndarray, bias: np.ndarray, size: int) -> int:
        g = self.graph
        operands = [x, g.add_const(weights, "INT8"), g.add_const(bias, "INT32")]
        y = g.add_with(op, operands, makers.conv("INT8", pad=(size // 2,) * 4, in_zp=-3))
        scales = self.random.integers(1 << 30, 1 << 31, g.nodes[y].shape[3]).tolist()
        return g.add_with("rescale", [y], makers.rescale("INT8", scales, [38] * len(scales), out_zp=-3))

    def sum(self, x: int, y: int) -> int:
        g = self.graph
        wide = [g.add_with("rescale", [n], makers.rescale("INT32", 1 << 30, 20, in_zp=-3)) for n in (x, y)]
        return g.add_with("rescale", [g.add("add", wide)], makers.rescale("INT8", 1 << 30, 41, out_zp=-3))

    def channels(self, y: int) -> list[int] | None:
        """Channels of the results of convolutions without dead channels, None if there are none; equal and proved."""
        self.graph.outputs, self.graph.output_names = [y], ["y"]
        found = without_dead_channels(self.graph)
        if found is None:
            return None
        x = self.random.integers(-128, 128, SHAPE).astype(np.int8)
        assert np.array_equal(found.graph.evaluate([x])[0], self.graph.evaluate([x])[0])
        assert prove(self.graph, found.graph).verdict == PROVED
        return [n.shape[3] for n in found.graph.nodes if n.op in ("conv2d", "depthwise_conv2d")]


@pytest.mark.parametrize("bias", [0, 40_000])
def test_filters_of_zeros_go_with_what_reads_them(bias):
    """With a large bias they are numbers other than the zero point, which the next bias takes."""
    net = Network()
    y = net.conv(net.input(), 8, [1, 5], bias=bias)
    assert net.channels(net.conv(y, 4)) == [6, 4]


def test_a_constant_beside_padding_stays_unless_it_is_the_zero_point():
    net = Network()
    y = net.conv(net.input(), 8, [1, 5], bias=40_000)
    assert net.channels(net.conv(y, 4, size=3)) is None
    net = Network()
    y = net.conv(net.input(), 8, [1, 5])
    assert net.channels(net.conv(y, 4, size=3)) == [6, 4]


def test_they_go_through_depthwise_convolutions_poolings_and_views():
    net = Network()
    y = net.depthwise(net.conv(net.input(), 8, [1, 5]), [2])
    y = net.graph.add_with("max_pool2d", [y], makers.max_pool((2, 2), stride=(2, 2)))
    y = net.graph.add_with("avg_pool2d", [y], makers.avg_pool((3, 3), in_zp=-3, out_zp=-3))
    y = net.graph.add("reshape", [net.graph.add("reshape", [y], shape=(1, 8))], shape=(1, 1, 1, 8))
    assert net.channels(net.conv(y, 4)) == [5, 5, 4]


def test_a_residual_sum_loses_what_is_dead_in_both_operands():
    net = Network()
    x = net.input()
    y = net.sum(net.conv(x, 8, [1, 5, 6]), net.conv(x, 8, [0, 1, 5]))
    assert net.channels(net.conv(y, 4)) == [6, 6, 4]


def test_channels_that_no_convolution_reads_go():
    net = Network()
    y, read = net.conv(net.input(), 8), net.random.integers(-90, 90, (4, 1, 1, 8))
    read[..., [2, 3]] = 0
    assert net.channels(net._products("conv2d", y, read, np.zeros(4), 1)) == [6, 4]


def test_channels_of_outputs_stay():
    net = Network()
    assert net.channels(net.conv(net.input(), 8, [1, 5])) is None


def test_channels_that_something_else_reads_stay():
    net = Network()
    y = net.conv(net.input(), 8, [1, 5])
    assert net.channels(net.conv(net.graph.add("reverse", [y], axis=3), 4)) is None


def test_one_channel_stays_where_all_are_dead():
    net = Network()
    y = net.conv(net.input(), 8, list(range(8)))
    assert net.channels(net.conv(y, 4)) == [1, 4]
