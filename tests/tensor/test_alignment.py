"""Sums reach what they can, on inputs that agree with the signs of weights."""

from __future__ import annotations

import numpy as np
import pytest

from eqsat.tensor import makers
from eqsat.tensor.alignment import patterns, reach
from eqsat.tensor.graph import TensorGraph
from tests.graphs import finish, transpose

RNG = np.random.default_rng(3)


def summed(op: str) -> TensorGraph:
    """An operator with constant weights of both signs, of an input that is moved first."""
    g = TensorGraph()
    if op == "matmul":
        x = transpose(g, g.add_input("x", (1, 9, 6), "INT8"), 0, 2, 1)
        return finish(g, g.add_with(op, [x, g.add_const(RNG.integers(-9, 10, (1, 9, 4)), "INT8")], makers.matmul(5, 0)))
    x = transpose(g, g.add_input("x", (1, 4, 9, 8), "INT8"), 0, 2, 3, 1)
    shape, channels = ((5, 3, 3, 4), 5) if op == "conv2d" else ((3, 3, 4, 2), 8)
    w, b = g.add_const(RNG.integers(-9, 10, shape), "INT8"), g.add_const(np.arange(channels), "INT32")
    return finish(g, g.add_with(op, [x, w, b], makers.conv("INT8", pad=(1, 1, 1, 0), stride=(2, 1), in_zp=-7)))


@pytest.mark.parametrize("op", ["conv2d", "depthwise_conv2d", "matmul"])
def test_some_channel_reaches_the_end_of_its_interval_and_none_passes_it(op: str) -> None:
    graph = summed(op)
    (out,), (given,) = graph.outputs, graph.inputs
    limits = reach(graph, out)
    assert limits is not None
    low, high = limits
    reached = set()
    for pattern in patterns(graph)[given]:
        for sign in (1, -1):
            (y,) = graph.evaluate([np.where(sign * pattern > 0, 127, -128).astype(np.int8)])
            assert (y >= low).all() and (y <= high).all()
            reached |= set(np.argwhere((y == high) | (y == low))[:, -1])
    assert len(reached) >= min(4, len(low))


def test_other_operators_have_no_interval_and_no_pattern() -> None:
    g = TensorGraph()
    x = g.add_input("x", (1, 2, 2, 3), "INT8")
    wide = g.add("cast", [x], dtype="INT32")
    w = g.add_input("w", (5, 1, 1, 3), "INT8")
    y = g.add_with("conv2d", [x, w, g.add_const(np.zeros(5), "INT32")], makers.conv("INT8"))
    finish(g, wide, y)
    assert reach(g, wide) is None and reach(g, y) is None and patterns(g) == {}
