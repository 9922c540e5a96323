"""What pruning to 2:4 would save, by Vela itself."""

from __future__ import annotations

import numpy as np

from eqsat.ground.worker import Worker
from eqsat.target import Target
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.sparsity import pruned, two_of_four
from eqsat.tosa.flatbuffer import dumps
from eqsat.vela.pruning import pruning_savings, with_pruned_weights
from tests.graphs import finish, rescale


def convolution(channels: int) -> TensorGraph:
    """A 3x3 convolution of 16x16 with 64 results per place."""
    g, random = TensorGraph(), np.random.default_rng(0)
    x = g.add_input("x", (1, 16, 16, channels), "INT8")
    weights = g.add_const(random.integers(1, 128, (64, 3, 3, channels)), "INT8")
    bias = g.add_const(random.integers(-9, 9, 64), "INT32")
    y = g.add_with("conv2d", (x, weights, bias), makers.conv("INT8", pad=(1, 1, 1, 1)))
    return finish(g, rescale(g, y, "INT8", shift=(40,)))


def test_two_of_four_least_weights_are_zero() -> None:
    weights = np.array([[4, -1, 2, -3, 0, 7, 7, 7]], np.int8)
    assert pruned(weights).tolist() == [[4, 0, 0, -3, 0, 0, 7, 7]] and two_of_four(pruned(weights))
    assert pruned(np.array([[-128, 1, 1, 127]], np.int8)).tolist() == [[-128, 0, 0, 127]]


def test_a_convolution_takes_about_half(worker: Worker) -> None:
    graph = convolution(64)
    before = graph.nodes[:]
    found = pruning_savings(dumps(graph), Target.of("ethos-u85-256"), worker)
    assert found and len(found.convolutions) == 1 and graph.nodes == before
    one = found.convolutions[0]
    assert one.shape == (1, 16, 16, 64) and 0.45 * one.cycles < one.pruned < 0.65 * one.cycles
    assert one.cycles <= found.cycles and found.pruned < found.cycles


def test_what_cannot_be_pruned_has_no_advice(worker: Worker) -> None:
    """Other families compute zeros, and channels that are not a multiple of four have no fours."""
    assert pruning_savings(dumps(convolution(64)), Target.of("ethos-u55-128"), worker) is None
    assert pruning_savings(dumps(convolution(6)), Target.of("ethos-u85-256"), worker) is None
    once = with_pruned_weights(convolution(64))
    assert once is not None and with_pruned_weights(once) is None
