"""Forms that need less memory: exact, once each, and less of what they are for in what Vela compiles."""

from __future__ import annotations

import numpy as np
import pytest

from eqsat.rules import RULES, footprint
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from tests.rules.checks import check, ops_of_output


def graph(channels: int, scales: int, biases: int) -> TensorGraph:
    """A convolution and its RESCALE."""
    rng, g = np.random.default_rng(0), TensorGraph()
    x = g.add_input("x", (1, 4, 6, 3), "INT8")
    weights = g.add_const(rng.integers(-128, 128, (channels, 3, 3, 3)).astype(np.int8), "INT8")
    bias = g.add_const(rng.integers(-999, 999, biases).astype(np.int32), "INT32")
    y = g.add_with("conv2d", [x, weights, bias], makers.conv("INT8", pad=(1, 1, 1, 1), in_zp=-9))
    several = (list(range(1 << 29, (1 << 29) + scales)), [38] * scales) if scales > 1 else (1 << 30, 38)
    g.outputs = [g.add_with("rescale", [y], makers.rescale("INT8", *several, out_zp=4))]
    g.output_names = ["y"]
    return g


def test_halves_are_exact_and_not_halved_again() -> None:
    for scales, biases in ((32, 32), (1, 32), (1, 1)):
        found = check(graph(32, scales, biases), [*footprint.rules(), *(r for r in RULES if r.family == "slicing")])
        counts = [n for name, n in found.saturation.matches.items() if name.startswith("halved")]
        assert counts and ops_of_output(found) == {"rescale", "concat"}
        shapes = {
            found.type_of(c).shape for c, nodes in enumerate(found.classes) if any(e.op == "conv2d" for e in nodes)
        }
        assert shapes == {(1, 4, 6, 32), (1, 4, 6, 16)}


def test_few_channels_stay_together() -> None:
    assert "concat" not in ops_of_output(check(graph(8, 8, 8), footprint.rules()))


@pytest.mark.parametrize("dtype, value", [("INT8", -7), ("INT16", 0)])
def test_a_pad_is_a_depthwise_convolution(dtype: str, value: int) -> None:
    g = TensorGraph()
    x = g.add_input("x", (1, 4, 5, 3), dtype)
    g.outputs, g.output_names = [g.add_with("pad", [x], makers.pad((0, 0, 1, 3, 2, 0, 0, 0), value))], ["y"]
    assert "rescale" in ops_of_output(check(g, footprint.rules()))


def test_other_pads_stay() -> None:
    for shape, pads, dtype in (
        ((1, 4, 5, 3), (0, 1, 1, 0, 0, 0, 0, 0), "INT8"),
        ((4, 5), (0, 1, 0, 0), "INT8"),
        ((1, 4, 5, 3), (0, 0, 0, 20, 0, 0, 0, 0), "INT8"),
        ((1, 4, 5, 3), (0, 0, 1, 3, 2, 0, 0, 0), "INT16"),  # of a value, where there are no zero points
        ((1, 4, 5, 3), (0, 0, 1, 3, 2, 0, 0, 0), "INT32"),
    ):
        g = TensorGraph()
        x = g.add_input("x", shape, dtype)
        g.outputs, g.output_names = [g.add_with("pad", [x], makers.pad(pads, 3))], ["y"]
        assert ops_of_output(check(g, footprint.rules())) == {"pad"}
