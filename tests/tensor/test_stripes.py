"""A value in stripes is the value."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.samples import domains, samples
from eqsat.tensor.stripes import Region, cuts, find_needed, write_stripes
from eqsat.tensor.types import GraphError
from tests.graphs import residual, widening
from tests.term import graph, inputs, outputs


def sampled() -> TensorGraph:
    """Convolutions with strides, dilations and pools."""
    (x,) = inputs("x:INT8[1,23,10,3]")
    x = x.layer(8, 3, stride=2, seed=1).largest(3, 3, pad=(1, 1, 1, 1)).layer(8, 3, dilation=2, seed=2)
    return outputs(x.average(3, 3, pad=(1, 1, 1, 1), in_zp=3))


def upsampled() -> TensorGraph:
    """Twice as many rows, as a transposed convolution's phases are written, beside a shortcut along the channels."""
    x, y = inputs("x:INT8[1,8,8,8] y:INT8[1,16,8,4]")
    phases = x.layer(8, seed=1).concat(x.layer(8, seed=2), axis=2).reshape(1, 16, 8, 8)
    wide = phases.concat(y.layer(4, seed=3), axis=3).layer(8, 3, seed=4)
    return outputs(wide.reshape(1, 8, 16, 8).layer(8, 3, seed=5))


def moved() -> TensorGraph:
    """A PAD, SLICEs along H and W, a TRANSPOSE, a constant with rows of its own and one that broadcasts."""
    (x,) = inputs("x:INT8[1,12,9,4]")
    x = x.pad((0, 0, 2, 1, 0, 0, 0, 0), -3).layer(8, 3, seed=1).slice((0, 1, 2, 0), (1, 12, 6, 8))
    rows = x.const(np.arange(12 * 6 * 8).reshape(1, 12, 6, 8) % 100)
    x = x.plus(rows).plus(x.const(np.arange(8).reshape(1, 1, 1, 8)))
    return outputs(x.clamp(-100, 100).transpose(0, 2, 1, 3))


def along_time() -> TensorGraph:
    """One-dimensional, along W."""
    return graph("x:INT8[1,1,40,4]", lambda x: x.layer(16, seed=1).layer(4, seed=2))


def flattened() -> TensorGraph:
    """NCHW made NHWC by a TRANSPOSE that has H and W as one axis."""
    (x,) = inputs("x:INT8[1,3,12,8]")
    return outputs(x.reshape(1, 1, 3, 96).transpose(0, 1, 3, 2).reshape(1, 12, 8, 3).layer(8, 3, seed=1))


def scores() -> TensorGraph:
    """Products of rows with a whole matrix, and their largest."""
    return graph("x:INT8[2,12,8] y:INT8[2,8,10]", lambda x, y: x.matmul(y, 1, 2).reduce("max", 2))


def expanded() -> TensorGraph:
    """A convolution, and behind it a depthwise one, a pool, a constant for each channel and one for all."""
    rng, (x,) = np.random.default_rng(1), inputs("x:INT8[1,9,8,5]")
    x = x.layer(40, 3, seed=2).conv(rng.integers(-127, 128, (3, 3, 40, 1)), 7, op="depthwise_conv2d", pad=(1,) * 4)
    x = x.rescale("INT8", shift=40).largest(3, 3)
    return outputs(x.plus(x.const(rng.integers(-99, 99, (1, 1, 1, 40)))).plus(x.const(5)))


def region(graph: TensorGraph, axis: int, target: int | None = None) -> Region:
    """All from the inputs to a value, or to the only output."""
    target = graph.outputs[0] if target is None else target
    computed = [n for n in graph.live() if graph.nodes[n].inputs and n <= target]
    return Region(target, tuple(computed), axis)


@pytest.mark.parametrize("parts", [2, 3, 5])
@pytest.mark.parametrize(
    ("made", "axis"),
    [
        *((made, 1) for made in (widening, residual, sampled, upsampled, moved, flattened, scores, expanded)),
        *((made, 2) for made in (widening, sampled, moved, along_time)),
        (scores, 0),
        (expanded, 3),
    ],
)
def test_a_value_in_stripes_is_the_value(made: Callable[[], TensorGraph], axis: int, parts: int) -> None:
    graph = made()
    found = region(graph, axis)
    size = graph.nodes[found.target].shape[axis]
    parts = min(parts, size)
    divided, source = write_stripes(graph, found, cuts(size, parts))
    for values in samples(domains(graph), 3):
        np.testing.assert_array_equal(graph.evaluate(values)[0], divided.evaluate(values)[0])
    assert divided.signature() == graph.signature() and divided.output_names == graph.output_names
    (joined,) = [n for n in divided.outputs if divided.nodes[n].op == "concat"]
    assert len(divided.nodes[joined].inputs) == parts
    assert {source[n] for n in divided.live()} <= set(graph.live())


def test_what_reads_all_rows_is_in_no_stripes() -> None:
    (x,) = inputs("x:INT8[1,8,8,8]")
    x = x.layer(8, seed=1)
    g = outputs(x.concat(x.reverse(1), axis=1))
    found = region(g, 1)
    assert find_needed(g, found, 0, 2) is None
    with pytest.raises(GraphError, match="cannot be computed in stripes along axis 1"):
        write_stripes(g, found, cuts(8, 2))


def test_stripes_are_about_as_large_and_those_of_channels_begin_at_bricks() -> None:
    assert cuts(10, 4) == [0, 2, 5, 7, 10] and cuts(88, 4, 16) == [0, 16, 32, 64, 88]


def test_a_convolution_in_stripes_of_channels_reads_its_operand_as_a_whole() -> None:
    """What is before it is in no stripe, and no weight is read twice."""
    g = graph("x:INT8[1,8,8,8]", lambda x: x.layer(32, seed=1).layer(48, 3, seed=2))
    found = region(g, 3)
    divided = find_needed(g, found, 0, 16)
    assert divided is not None and [g.nodes[n].op for n in divided] == ["rescale", "conv2d"]
    halves, _ = write_stripes(g, found, cuts(48, 2, 16))
    read = [sum(h.nodes[n].attr("value").data.size for n in h.live() if h.nodes[n].op == "const") for h in (g, halves)]
    assert read[0] == read[1]


def test_channels_of_a_depthwise_convolution_with_a_multiplier_are_in_no_stripes() -> None:
    (x,) = inputs("x:INT8[1,8,8,16]")
    g = outputs(x.conv(np.ones((3, 3, 16, 2)), np.ones(32), op="depthwise_conv2d").rescale("INT8", shift=40))
    assert find_needed(g, region(g, 3), 0, 16) is None


def test_rows_that_two_stripes_see_are_computed_twice() -> None:
    graph = widening()
    rows = find_needed(graph, region(graph, 1), 6, 12)
    assert rows is not None
    first, *_, last = sorted(rows)
    assert (rows[first][1:], rows[last][1:]) == ((4, 14), (6, 12))
