"""Values at which a graph decides are pulled back to its inputs."""

from __future__ import annotations

import numpy as np
import pytest

from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.points import points
from tests.graphs import clamp, finish, rescale, transpose


def compared(dtype: str, limit: int, shift: int, in_zp: int = 0) -> TensorGraph:
    g = TensorGraph()
    x = g.add_input("x", (1, 2, 3), dtype)
    wide = rescale(g, transpose(g, x, 0, 2, 1), "INT32", shift=(shift,), in_zp=in_zp)
    return finish(g, g.add("greater", [wide, g.add_const(np.full((1, 1, 1), limit), "INT32")]))


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (compared("INT16", 12345, 30), {12345, 0}),
        (compared("INT16", 4 * 12345, 28), {12345, 0}),
        (compared("INT16", 4 * 12345 + 1, 28), {12345, 12346, 0}),
        (compared("INT16", 100, 32), {398, 401, 0}),
        (compared("INT8", 50, 30, in_zp=-3), {47, -3}),
    ],
    ids=["itself", "scaled up", "between two", "scaled down", "zero point"],
)
def test_what_is_compared_with_is_pulled_back(graph: TensorGraph, expected: set[int]) -> None:
    assert set(points(graph)[graph.inputs[0]]) == expected


def test_limits_saturation_padding_and_knees() -> None:
    g = TensorGraph()
    a, b, c, d = (g.add_input(n, (1, 2, 3), t) for n, t in zip("abcd", ("INT8", "INT16", "INT8", "INT16"), strict=True))
    knee = [16 * min(max(k - 256, 0), 100) for k in range(513)]
    finish(
        g,
        clamp(g, a, -5, 90),
        rescale(g, b, "INT8", shift=(31,)),
        g.add_with("pad", [c], makers.pad((0, 0, 0, 1, 0, 0), -50)),
        g.add_with("table", [d], makers.table(knee)),
    )
    found = points(g)
    assert set(found[a]) == {-5, 90} and set(found[c]) == {-50}
    assert set(found[b]) == {0, 253, -256}, "a half rounds up"
    assert set(found[d]) == {0, 128 * 100}


def test_of_many_values_a_few_are_taken() -> None:
    g = TensorGraph()
    x = rescale(g, g.add_input("x", (1, 500), "INT16"), "INT32")
    finish(g, g.add("greater", [x, g.add_const(np.arange(500).reshape(1, 500), "INT32")]))
    assert {0, 499} <= set(points(g)[x]) and len(points(g)[x]) <= 12
