"""Convolutions turned, joined and transposed: each rule fires on what it is for, is exact there, and leaves its near
misses alone."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eqsat.options.options import Options
from eqsat.search.optimizer import optimize_tosa
from eqsat.target import Target
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps
from tests.rules.checks import check, conv, fires, only, optimized, random_values, rescale, table
from tests.sweeps import examples

PLAIN = ("move-move", "move-identity")


def weights(g: TensorGraph, shape: tuple[int, ...], out: int, seed: int = 0) -> tuple[int, int]:
    return g.add_const(random_values(shape, seed), "INT8"), g.add_const(np.arange(out) * 100 - 70, "INT32")


@st.composite
def convolutions(draw, flat: bool = False) -> tuple[TensorGraph, int, int]:
    """A graph, its input [1, h, w, 3] and a convolution of it, plain or depthwise, with its own stride, dilation, pads
    for H and W."""
    g = TensorGraph()
    kh, kw = (1, draw(st.integers(2, 3))) if flat else (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    sy, dy = (1, 1) if flat else (draw(st.integers(1, 2)), draw(st.integers(1, 2)))
    x = g.add_input("x", (1, 1 if flat else 5, 7, 3), "INT8")
    depthwise = draw(st.booleans())
    w = weights(g, (kh, kw, 3, 2) if depthwise else (4, kh, kw, 3), 6 if depthwise else 4)
    pads = ((0, 0) if flat else (draw(st.integers(0, kh - 1)), 0)) + (
        draw(st.integers(0, kw - 1)),
        draw(st.integers(0, kw - 1)),
    )
    stride = (sy, draw(st.integers(1, 2)))
    dilation = (dy, draw(st.integers(1, 2)))
    return (
        g,
        x,
        g.add_with(
            "depthwise_conv2d" if depthwise else "conv2d",
            (x, *w),
            makers.conv("INT8", pad=pads, stride=stride, dilation=dilation, in_zp=-3),
        ),
    )


@settings(max_examples=examples(25), deadline=None)
@given(convolutions())
def test_height_and_width_exchanged_behind_a_convolution(case):
    g, _, y = case
    g.outputs = [g.add("transpose", (y,), perms=(0, 2, 1, 3))]
    if min(g.nodes[y].shape[1:3]) > 1:
        assert fires(g, "push-turn", *PLAIN)


def test_and_before_one():
    g = TensorGraph()
    x = g.add_input("x", (1, 4, 6, 2), "INT8")
    g.outputs = [conv(g, g.add("transpose", (x,), perms=(0, 2, 1, 3)), 3, (2, 3), 4, (1, 0, 2, 1), dilation=(2, 1))]
    assert fires(g, "pull-turn", *PLAIN)


@pytest.mark.slow
@settings(max_examples=examples(15), deadline=None)
@given(convolutions(flat=True))
def test_time_along_height_or_width(case):
    g, _, y = case
    g.outputs = [y]
    assert fires(g, "turn-conv", *PLAIN)


@pytest.mark.parametrize("shape", [(1, 1, 1, 3), (1, 2, 5, 3)])
def test_pictures_and_single_pixels_are_not_turned(shape):
    g = TensorGraph()
    x = g.add_input("x", shape, "INT8")
    g.outputs = [conv(g, x, 3, (1, 1), 0)]
    assert not fires(g, "turn-conv", *PLAIN)


@pytest.mark.parametrize("perms", [(0, 1, 3, 2), (0, 3, 2, 1), (0, 3, 1, 2)])
def test_other_transposes_do_not_cross(perms):
    g = TensorGraph()
    x = g.add_input("x", (1, 3, 3, 3), "INT8")
    g.outputs = [g.add("transpose", (conv(g, x, 3, (2, 2), 0, (0, 1, 0, 1)),), perms=perms)]
    assert not fires(g, "push-turn", *PLAIN)


@pytest.mark.parametrize("op", ["max_pool2d", "avg_pool2d"])
@pytest.mark.parametrize("before", [False, True])
def test_pools(op, before):
    g = TensorGraph()
    x = g.add_input("x", (1, 4, 6, 3), "INT8")
    window = {"kernel": (2, 3), "stride": (2, 1), "pad": (1, 1, 0, 1) if before else (0, 0, 1, 1)}
    attrs = makers.max_pool(**window) if op == "max_pool2d" else makers.avg_pool(**window, in_zp=3, out_zp=3)
    y = g.add("transpose", (x,), perms=(0, 2, 1, 3)) if before else x
    y = g.add_with(op, (y,), attrs)
    g.outputs = [y if before else g.add("transpose", (y,), perms=(0, 2, 1, 3))]
    assert fires(g, "pull-turn-pool" if before else "push-turn-pool", *PLAIN)


# ---- several images -----------------------------------------------------------------------------


@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize("shape", [(5, 1, 1, 3), (2, 2, 3, 3)])
def test_pixels_of_a_batch_as_one_row(depthwise, shape):
    g = TensorGraph()
    x = g.add_input("x", shape, "INT8")
    g.outputs = [conv(g, x, 2, (1, 1), 7, depthwise=depthwise)]
    found = check(g, only("conv-one-image", *PLAIN))
    assert found.saturation.matches["conv-one-image"] > 0
    assert found.n_nodes == 7  # one convolution more, and the views on its sides


@pytest.mark.parametrize(
    "shape, kernel, padding",
    [((1, 2, 3, 3), (1, 1), (0, 0, 0, 0)), ((5, 2, 2, 3), (1, 2), (0, 0, 0, 0)), ((5, 1, 1, 3), (1, 1), (0, 0, 0, 1))],
)
def test_pixels_that_are_one_image_or_see_others_stay(shape, kernel, padding):
    g = TensorGraph()
    g.outputs = [conv(g, g.add_input("x", shape, "INT8"), 2, kernel, 7, padding)]
    assert not fires(g, "conv-one-image", *PLAIN)


@pytest.mark.slow
def test_two_layers_on_a_batch_of_vectors_gain(tmp_path: Path) -> None:
    """The TABLE between them fuses into the first, at a few e-nodes more."""
    g = TensorGraph()
    x = g.add_input("x", (32, 1, 1, 64), "INT8")
    y = table(g, rescale(g, conv(g, x, 128, (1, 1), 7), "INT8", 1 << 30, 38), 3)
    g.outputs, g.output_names = [rescale(g, conv(g, y, 64, (1, 1), 7), "INT8", 1 << 30, 38)], ["y"]
    found = optimized(g, "ethos-u55-128", tmp_path)
    assert found.calibrated < 0.85 * found.explicit_calibrated
    assert found.stop == "saturated" and found.e_nodes <= 3 * len(g.live())


# ---- transposed convolution ---------------------------------------------------------------------


def upsampled(kernel=(2, 2), stride=(2, 2), out_pad=(0, 0, 0, 0), bias: int = 4) -> TensorGraph:
    g = TensorGraph()
    x = g.add_input("x", (2, 3, 4, 3), "INT8")
    w = g.add_const(random_values((4, *kernel, 3), 1), "INT8")
    b = g.add_const(np.arange(bias) * 1000, "INT32")
    y = g.add_with(
        "transpose_conv2d", (x, w, b), makers.transpose_conv("INT8", out_pad=out_pad, stride=stride, in_zp=7)
    )
    g.outputs = [rescale(g, y, "INT8", [(1 << 30) + 5000 * i for i in range(4)], [36, 37, 38, 36])]
    return g


@pytest.mark.parametrize("bias", [1, 4])
def test_a_transposed_convolution_as_two(bias):
    g = upsampled(bias=bias)
    assert fires(g, "transpose-conv-phases", *PLAIN)
    assert fires(g, "push-concat-unary", "pull-unary", "transpose-conv-phases", *PLAIN)
    assert fires(g, "pull-unary", "transpose-conv-phases", *PLAIN)


@pytest.mark.parametrize(
    "case",
    [
        {"kernel": (3, 2)},
        {"kernel": (2, 3)},
        {"stride": (1, 2)},
        {"stride": (2, 1)},
        {"out_pad": (0, 1, 0, 0)},
        {"kernel": (3, 3), "stride": (3, 3)},
    ],
)
def test_kernels_that_overlap_or_leave_gaps_are_left_alone(case):
    assert not fires(upsampled(**case), "transpose-conv-phases", *PLAIN)


def multiplied(channels: int, multiplier: int, bias: int | None = None) -> TensorGraph:
    """A depthwise convolution with several output channels for each channel of its input."""
    g = TensorGraph()
    out = channels * multiplier
    x = g.add_input("x", (1, 5, 6, channels), "INT8")
    w, b = weights(g, (3, 2, channels, multiplier), bias or out)
    y = g.add_with("depthwise_conv2d", (x, w, b), makers.conv("INT8", pad=(1, 1, 0, 1), stride=(2, 1), in_zp=-3))
    g.outputs = [rescale(g, y, "INT8", [(1 << 30) + 5000 * i for i in range(out)], [36 + i % 3 for i in range(out)])]
    return g


@pytest.mark.parametrize(("channels", "multiplier", "bias"), [(3, 2, None), (2, 4, None), (5, 6, 1)])
def test_a_channel_multiplier_is_halved(channels, multiplier, bias):
    assert fires(multiplied(channels, multiplier, bias), "halve-multiplier", *PLAIN)


@pytest.mark.parametrize(("channels", "multiplier"), [(3, 1), (2, 3), (1, 4)])
def test_odd_multipliers_and_single_channels_stay(channels, multiplier):
    assert not fires(multiplied(channels, multiplier), "halve-multiplier", *PLAIN)


def test_a_halved_multiplier_gains_in_the_total():
    given = dumps(multiplied(16, 2))
    result = optimize_tosa(given, Target.of("ethos-u55-128"), stock=given, options=Options(effort=1))
    assert result.proved and result.binary_verified and result.calibrated < 0.8 * result.stock_calibrated


@pytest.mark.parametrize("view", [(2, 3, 8, 2), (1, 6, 4, 4), (6, 1, 16, 1)])
def test_a_rescale_per_channel_across_views(view):
    g = TensorGraph()
    x = g.add_input("x", (2, 3, 4, 4), "INT32")
    c = view[-1]
    g.outputs = [
        rescale(
            g,
            g.add("reshape", (x,), shape=view),
            "INT8",
            [(1 << 30) + 999 * i for i in range(c)],
            [44 + i for i in range(c)],
        )
    ]
    assert fires(g, "pull-unary", *PLAIN)


def test_a_rescale_per_channel_across_depth_to_space():
    g = TensorGraph()
    x = g.add_input("x", (1, 2, 3, 8), "INT32")
    y = g.add("transpose", (g.add("reshape", (x,), shape=(2, 3, 2, 2, 2)),), perms=(0, 2, 1, 3, 4))
    y = g.add("reshape", (y,), shape=(1, 4, 6, 2))
    g.outputs = [rescale(g, y, "INT8", [1 << 30, (1 << 30) + 999], [44, 45])]
    assert fires(g, "pull-unary", "move-move", *PLAIN)


def test_a_rescale_per_channel_where_rows_become_channels_is_left_alone():
    g = TensorGraph()
    x = g.add_input("x", (2, 3, 4), "INT32")
    g.outputs = [
        rescale(g, g.add("reshape", (x,), shape=(2, 12)), "INT8", [(1 << 30) + i for i in range(12)], [44] * 12)
    ]
    assert not fires(g, "pull-unary", *PLAIN)
