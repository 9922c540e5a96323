"""Convolutions in other spellings: every spelling that the rules make is exact, and those that they offer gain in
Vela's total."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eqsat.rules import RULES, blocking
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from tests.rules.checks import check, optimized

EVERY = blocking.rules(lambda call, x, w, b, found: found)


def graph(op: str, shape: tuple[int, ...], kernel: tuple[int, ...], attributes: Any, *, longer: int = 0) -> TensorGraph:
    """A convolution and its RESCALE; longer: of the first columns of an input that has more."""
    rng = np.random.default_rng(0)
    n, h, w, c = shape
    g = TensorGraph()
    x = g.add_input("x", (n, h, w + longer, c), "INT8")
    if longer:
        x = g.add("slice", [x], start=(0, 0, 0, 0), size=shape)
    weights = g.add_const(rng.integers(-128, 128, kernel).astype(np.int8), "INT8")
    out = kernel[2] * kernel[3] if op == "depthwise_conv2d" else kernel[0]
    bias = g.add_const(rng.integers(-999, 999, out).astype(np.int32), "INT32")
    y = g.add_with(op, [x, weights, bias], attributes)
    g.outputs = [g.add_with("rescale", [y], makers.rescale("INT8", [1 << 30] * out, [38] * out, in_zp=0))]
    g.output_names = ["y"]
    return g


CASES = {
    "stride": graph(
        "conv2d", (1, 4, 20, 3), (4, 1, 7, 3), makers.conv("INT8", stride=(1, 5), pad=(0, 0, 1, 1), in_zp=4)
    ),
    "thin": graph("conv2d", (1, 4, 8, 2), (3, 3, 3, 2), makers.conv("INT8", pad=(1, 1, 1, 1), in_zp=-9)),
    "depthwise": graph("depthwise_conv2d", (1, 4, 6, 2), (3, 3, 2, 2), makers.conv("INT8", pad=(1, 1, 1, 1))),
    "dilation": graph("conv2d", (1, 2, 16, 4), (4, 1, 3, 4), makers.conv("INT8", dilation=(1, 4), pad=(0, 0, 8, 0))),
    "shallow": graph("conv2d", (1, 1, 1, 12), (7, 1, 1, 12), makers.conv("INT8", in_zp=5)),
    "transposed": graph(
        "transpose_conv2d",
        (1, 3, 4, 2),
        (3, 3, 2, 2),
        makers.transpose_conv("INT8", stride=(2, 3), out_pad=(-1, 0, 0, 0)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_every_spelling_is_exact(name: str) -> None:
    saturated = check(CASES[name], [*EVERY, *(r for r in RULES if r.family == "moves")])
    assert any(saturated.saturation.matches.get(r.name) for r in EVERY)


def test_what_a_slice_cut_off_is_taken_back() -> None:
    g = graph("conv2d", (1, 1, 21, 2), (3, 1, 5, 2), makers.conv("INT8", stride=(1, 4)), longer=3)
    assert check(g, EVERY).saturation.matches["spelled-conv-slice"] > 0


def test_weights_with_a_zero_point_stay() -> None:
    g = graph("conv2d", (1, 4, 20, 3), (4, 1, 5, 3), makers.conv("INT8", stride=(1, 5), w_zp=1))
    assert not check(g, EVERY).saturation.matches.keys() & {r.name for r in EVERY}


@pytest.mark.slow
def test_a_large_stride_gains(tmp_path: Path) -> None:
    """One stride-10 convolution: 194,328 calibrated cycles against 33,052 as blocks, on U55-128."""
    found = graph("conv2d", (1, 1, 391, 16), (64, 1, 21, 16), makers.conv("INT8", stride=(1, 10)))
    spelled = optimized(found, "ethos-u55-128", tmp_path)
    assert spelled.calibrated < spelled.explicit_calibrated / 5


@pytest.mark.slow
def test_few_channels_of_one_place_gain(tmp_path: Path) -> None:
    """The state of a recurrent network by a matrix: 818 calibrated cycles as it is, 458 with channels as taps (U85)."""
    found = graph("conv2d", (1, 1, 1, 24), (72, 1, 1, 24), makers.conv("INT8"))
    spelled = optimized(found, "ethos-u85-256", tmp_path)
    assert spelled.calibrated < 0.6 * spelled.explicit_calibrated
