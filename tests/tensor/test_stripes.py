"""A value in stripes is the value."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.samples import domains, samples
from eqsat.tensor.stripes import Region, cuts, needed, striped
from eqsat.tensor.types import GraphError
from tests.graphs import add, clamp, conv, finish, rescale, reshape, residual, transpose, widening


def sampled() -> TensorGraph:
    """Convolutions with strides, dilations and pools."""
    g = TensorGraph()
    x = conv(g, g.add_input("x", (1, 23, 10, 3), "INT8"), 8, 3, stride=2, seed=1)
    x = g.add_with("max_pool2d", [x], makers.max_pool((3, 3), stride=(1, 1), pad=(1, 1, 1, 1)))
    x = conv(g, x, 8, 3, dilation=2, seed=2)
    return finish(g, g.add_with("avg_pool2d", [x], makers.avg_pool((3, 3), pad=(1, 1, 1, 1), in_zp=3)))


def upsampled() -> TensorGraph:
    """Twice as many rows, as a transposed convolution's phases are written, beside a shortcut along the channels."""
    g = TensorGraph()
    x = g.add_input("x", (1, 8, 8, 8), "INT8")
    wide = conv(g, g.add_input("y", (1, 16, 8, 4), "INT8"), 4, seed=3)
    phases = [conv(g, x, 8, seed=k) for k in (1, 2)]
    y = reshape(g, g.add("concat", phases, axis=2), 1, 16, 8, 8)
    y = conv(g, g.add("concat", [y, wide], axis=3), 8, 3, seed=4)
    folded = reshape(g, y, 1, 8, 16, 8)
    return finish(g, conv(g, folded, 8, 3, seed=5))


def moved() -> TensorGraph:
    """A PAD, SLICEs along H and W, a TRANSPOSE, a constant with rows of its own and one that broadcasts."""
    g = TensorGraph()
    x = g.add("pad", [g.add_input("x", (1, 12, 9, 4), "INT8")], pads=(0, 0, 2, 1, 0, 0, 0, 0), value=(-3,))
    x = conv(g, x, 8, 3, seed=1)
    x = g.add("slice", [x], start=(0, 1, 2, 0), size=(1, 12, 6, 8))
    rows = g.add_const(np.arange(12 * 6 * 8).reshape(1, 12, 6, 8) % 100, "INT8")
    x = add(g, add(g, x, rows), g.add_const(np.arange(8).reshape(1, 1, 1, 8), "INT8"))
    return finish(g, transpose(g, clamp(g, x, -100, 100), 0, 2, 1, 3))


def along_time() -> TensorGraph:
    """One-dimensional, along W."""
    g = TensorGraph()
    return finish(g, conv(g, conv(g, g.add_input("x", (1, 1, 40, 4), "INT8"), 16, seed=1), 4, seed=2))


def flattened() -> TensorGraph:
    """NCHW made NHWC by a TRANSPOSE that has H and W as one axis."""
    g = TensorGraph()
    x = reshape(g, g.add_input("x", (1, 3, 12, 8), "INT8"), 1, 1, 3, 96)
    return finish(g, conv(g, reshape(g, transpose(g, x, 0, 1, 3, 2), 1, 12, 8, 3), 8, 3, seed=1))


def scores() -> TensorGraph:
    """Products of rows with a whole matrix, and their largest."""
    g = TensorGraph()
    x, y = g.add_input("x", (2, 12, 8), "INT8"), g.add_input("y", (2, 8, 10), "INT8")
    product = g.add_with("matmul", [x, y], makers.matmul(1, 2))
    return finish(g, g.add_with("reduce_max", [product], makers.extremum(2)))


def expanded() -> TensorGraph:
    """A convolution, and behind it a depthwise one, a pool, a constant for each channel and one for all."""
    g, rng = TensorGraph(), np.random.default_rng(1)
    x = conv(g, g.add_input("x", (1, 9, 8, 5), "INT8"), 40, 3, seed=2)
    weights = [g.add_const(rng.integers(-127, 128, (3, 3, 40, 1)), "INT8"), g.add_const(np.array([7]), "INT32")]
    x = rescale(
        g, g.add_with("depthwise_conv2d", [x, *weights], makers.conv("INT8", pad=(1,) * 4)), "INT8", shift=(40,)
    )
    x = g.add_with("max_pool2d", [x], makers.max_pool((3, 3)))
    x = add(g, x, g.add_const(rng.integers(-99, 99, (1, 1, 1, 40)), "INT8"))
    return finish(g, add(g, x, g.add_const(np.full((1, 1, 1, 1), 5), "INT8")))


def region(graph: TensorGraph, axis: int, target: int | None = None) -> Region:
    """All from the inputs to a value, or to the only output."""
    target = graph.outputs[0] if target is None else target
    computed = [n for n in graph.live() if graph.nodes[n].inputs and n <= target]
    return Region(target, tuple(computed), axis)


@pytest.mark.parametrize("parts", [2, 3, 5])
@pytest.mark.parametrize(
    ("made", "axis"),
    [
        (widening, 1),
        (widening, 2),
        (residual, 1),
        (sampled, 1),
        (sampled, 2),
        (upsampled, 1),
        (moved, 1),
        (moved, 2),
        (along_time, 2),
        (flattened, 1),
        (scores, 0),
        (scores, 1),
        (expanded, 3),
        (expanded, 1),
    ],
)
def test_a_value_in_stripes_is_the_value(made: Callable[[], TensorGraph], axis: int, parts: int) -> None:
    graph = made()
    found = region(graph, axis)
    size = graph.nodes[found.target].shape[axis]
    parts = min(parts, size)
    divided, source = striped(graph, found, cuts(size, parts))
    for values in samples(domains(graph), 3):
        np.testing.assert_array_equal(graph.evaluate(values)[0], divided.evaluate(values)[0])
    assert divided.signature() == graph.signature() and divided.output_names == graph.output_names
    (joined,) = [n for n in divided.outputs if divided.nodes[n].op == "concat"]
    assert len(divided.nodes[joined].inputs) == parts
    assert {source[n] for n in divided.live()} <= set(graph.live())


def test_what_reads_all_rows_is_in_no_stripes() -> None:
    g = TensorGraph()
    x = conv(g, g.add_input("x", (1, 8, 8, 8), "INT8"), 8, seed=1)
    graph = finish(g, g.add("concat", [x, g.add("reverse", [x], axis=1)], axis=1))
    found = region(graph, 1)
    assert needed(graph, found, 0, 2) is None
    with pytest.raises(GraphError, match="cannot be computed in stripes along axis 1"):
        striped(graph, found, cuts(8, 2))


def test_stripes_are_about_as_large() -> None:
    assert cuts(10, 4) == [0, 2, 5, 7, 10]


def test_stripes_of_channels_begin_at_bricks() -> None:
    assert cuts(88, 4, 16) == [0, 16, 32, 64, 88]


def test_a_convolution_in_stripes_of_channels_reads_its_operand_as_a_whole() -> None:
    """What is before it is in no stripe, and no weight is read twice."""
    g = TensorGraph()
    graph = finish(g, conv(g, conv(g, g.add_input("x", (1, 8, 8, 8), "INT8"), 32, seed=1), 48, 3, seed=2))
    found = region(graph, 3)
    divided = needed(graph, found, 0, 16)
    assert divided is not None and [graph.nodes[n].op for n in divided] == ["rescale", "conv2d"]
    halves, _ = striped(graph, found, cuts(48, 2, 16))
    read = [
        sum(g.nodes[n].attr("value").data.size for n in g.live() if g.nodes[n].op == "const") for g in (graph, halves)
    ]
    assert read[0] == read[1]


def test_channels_of_a_depthwise_convolution_with_a_multiplier_are_in_no_stripes() -> None:
    g = TensorGraph()
    weights = [g.add_const(np.ones((3, 3, 16, 2)), "INT8"), g.add_const(np.ones(32), "INT32")]
    x = g.add_with("depthwise_conv2d", [g.add_input("x", (1, 8, 8, 16), "INT8"), *weights], makers.conv("INT8"))
    graph = finish(g, rescale(g, x, "INT8", shift=(40,)))
    assert needed(graph, region(graph, 3), 0, 16) is None


def test_rows_that_two_stripes_see_are_computed_twice() -> None:
    graph = widening()
    rows = needed(graph, region(graph, 1), 6, 12)
    assert rows is not None
    first, *_, last = sorted(rows)
    assert (rows[first][1:], rows[last][1:]) == ((4, 14), (6, 12))
