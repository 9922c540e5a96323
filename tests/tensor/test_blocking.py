"""Every spelling of a convolution equals the plain one to the bit, over random shapes, strides, dilations and
padding."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from eqsat.tensor.blocking import ConstantConvolution, Spelling
from eqsat.tensor.graph import TensorGraph

SEEDS = st.integers(0, 2**32 - 1)


def convolve(op: str, x: np.ndarray, w: np.ndarray, b: np.ndarray, zero_point: int, attributes: Any) -> np.ndarray:
    g = TensorGraph()
    operands = [g.add_input("x", x.shape, "INT8"), g.add_const(w, "INT8", w.shape), g.add_const(b, "INT32", b.shape)]
    fixed = {"local_bound": False, "acc_type": 5, "w_zp": (0,), "in_zp": (zero_point,)}
    g.outputs = [g.add(op, operands, **fixed, **attributes)]
    return g.evaluate([x])[0]


def spelled(s: Spelling, x: np.ndarray, zero_point: int, rng: np.random.Generator) -> np.ndarray:
    # elements that no result that counts may see are random; those that stand for padding are the zero point
    value = zero_point if s.appended_is_padding else rng.integers(-128, 128)
    rows, columns = s.appended
    padded = np.pad(x, ((0, 0), (0, rows), (0, columns), (0, 0)), constant_values=value)
    found = s.write.apply(convolve(s.op, s.read.apply(padded), s.weights, s.bias, zero_point, s.attributes))
    assert (found.shape[1:3] != s.results) == s.has_surplus
    return found[:, : s.results[0], : s.results[1]]


@st.composite
def axes(draw: st.DrawFn) -> tuple[int, ...]:
    """(size, kernel, stride, dilation, low, high, block), the window ending just at the end of the padded input."""
    kernel, dilation = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    stride, low, high = draw(st.integers(1, 4)), draw(st.integers(0, 3)), draw(st.integers(0, 3))
    window = (kernel - 1) * dilation + 1
    size = window - low - high + stride * draw(st.integers(0, 5))
    assume(size >= 1 and low < window and high < window)
    block = draw(st.sampled_from([stride, 2 * stride, 3 * stride, *(d for d in (1, 2) if stride % d == 0)]))
    return size, kernel, stride, dilation, low, high, block


def drawn(rng: np.random.Generator, op: str, x: tuple[int, ...], kernel: tuple[int, int], out: int) -> tuple[Any, ...]:
    channels = x[-1]
    shape = (*kernel, channels, out) if op == "depthwise_conv2d" else (out, *kernel, channels)
    bias = rng.integers(-(2**20), 2**20, out * (channels if op == "depthwise_conv2d" else 1)).astype(np.int32)
    values = rng.integers(-128, 128, x).astype(np.int8), rng.integers(-128, 128, shape).astype(np.int8), bias
    return (*values, int(rng.integers(-128, 128)))


@settings(max_examples=200, deadline=None)
@given(axes(), axes(), st.integers(1, 3), st.integers(1, 3), st.sampled_from(["conv2d", "depthwise_conv2d"]), SEEDS)
def test_on_blocks(h: Any, w: Any, channels: int, out: int, op: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = (1, h[0], w[0], channels)
    x, weights, bias, zero_point = drawn(rng, op, shape, (h[1], w[1]), out)
    attributes = {"stride": (h[2], w[2]), "dilation": (h[3], w[3]), "pad": (h[4], h[5], w[4], w[5])}
    s = ConstantConvolution(op, shape, weights, bias, attributes).blocked((h[6], w[6]))
    assert s is not None
    np.testing.assert_array_equal(
        spelled(s, x, zero_point, rng), convolve(op, x, weights, bias, zero_point, attributes)
    )


@settings(max_examples=100, deadline=None)
@given(
    st.tuples(*[st.integers(1, 5)] * 4),
    st.tuples(*[st.integers(1, 4)] * 2),
    st.tuples(*[st.integers(-2, 2)] * 4),
    SEEDS,
)
def test_transposed(sizes: Any, strides: Any, pads: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    h, w, kh, kw = sizes
    attributes = {"stride": strides, "out_pad": pads}
    results = (h - 1) * strides[0] + pads[0] + pads[1] + kh, (w - 1) * strides[1] + pads[2] + pads[3] + kw
    assume(min(results) >= 1 and min(pads[:2]) > -kh and min(pads[2:]) > -kw)
    x, weights, bias, zero_point = drawn(rng, "transpose_conv2d", (1, h, w, 2), (kh, kw), 3)
    s = ConstantConvolution("transpose_conv2d", x.shape, weights, bias, attributes).transposed()
    assume(s is not None)
    expected = convolve("transpose_conv2d", x, weights, bias, zero_point, attributes)
    np.testing.assert_array_equal(spelled(s, x, zero_point, rng), expected)


@settings(max_examples=60, deadline=None)
@given(axes(), st.sampled_from([1, 2, 3, 4, 6]), st.sampled_from(["conv2d", "depthwise_conv2d"]), SEEDS)
def test_zeros_between_taps_stand_for_dilation(w: Any, dilation: int, op: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = (1, 2, w[0] + (w[1] - 1) * (dilation - w[3]) if dilation > w[3] else w[0], 2)
    x, weights, bias, zero_point = drawn(rng, op, shape, (1, w[1]), 2)
    attributes = {"stride": (1, 1), "dilation": (1, dilation), "pad": (0, 0, w[4], w[5])}
    for smaller in (d for d in range(1, dilation) if dilation % d == 0):
        s = ConstantConvolution(op, shape, weights, bias, attributes).undilated((1, smaller))
        assume(s is not None and min(s.results) >= 1)
        expected = convolve(op, x, weights, bias, zero_point, attributes)
        np.testing.assert_array_equal(spelled(s, x, zero_point, rng), expected)


@settings(max_examples=60, deadline=None)
@given(
    *[st.integers(1, 4)] * 3,
    *[st.integers(0, 2)] * 2,
    st.integers(2, 4),
    st.sampled_from(["conv2d", "depthwise_conv2d"]),
    SEEDS,
)
def test_phases(h: int, blocks: int, kernel: int, low: int, high: int, dilation: int, op: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = (1, h, (blocks + kernel) * dilation, 2)
    x, weights, bias, zero_point = drawn(rng, op, shape, (1, kernel), 2)
    attributes = {"stride": (1, 1), "dilation": (1, dilation), "pad": (0, 0, low * dilation, high * dilation)}
    s = ConstantConvolution(op, shape, weights, bias, attributes).phased()
    assert s is not None and s.attributes["dilation"] == (1, 1)
    np.testing.assert_array_equal(
        spelled(s, x, zero_point, rng), convolve(op, x, weights, bias, zero_point, attributes)
    )


@settings(max_examples=60, deadline=None)
@given(
    *[st.integers(1, 4)] * 2,
    *[st.integers(0, 2)] * 2,
    st.integers(2, 4),
    st.integers(0, 3),
    st.sampled_from(["conv2d", "depthwise_conv2d"]),
    SEEDS,
)
def test_phases_in_columns(
    blocks: int, kernel: int, low: int, high: int, dilation: int, more: int, op: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    shape = (1, 1, (blocks + kernel) * dilation + more, 2)
    x, weights, bias, zero_point = drawn(rng, op, shape, (1, kernel), 2)
    attributes = {"stride": (1, 1), "dilation": (1, dilation), "pad": (0, 0, low * dilation, high * dilation)}
    s = ConstantConvolution(op, shape, weights, bias, attributes).in_columns()
    assert s is not None and s.attributes["dilation"] == (1, 1)
    assert s.read.is_view and s.write.is_view and s.appended == (0, -shape[2] % dilation)
    np.testing.assert_array_equal(
        spelled(s, x, zero_point, rng), convolve(op, x, weights, bias, zero_point, attributes)
    )


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(
        *[st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(0, 2), st.integers(0, 2), st.integers(1, 3))] * 2
    ),
    st.sampled_from(["conv2d", "depthwise_conv2d"]),
    SEEDS,
)
def test_images_below_each_other(axes: tuple[tuple[int, ...], ...], op: str, seed: int) -> None:
    """Per axis: elements of a phase beside those that the kernel needs, taps, padding, dilation."""
    rng = np.random.default_rng(seed)
    (_, taps, top, bottom, down), (_, columns, left, right, across) = axes
    assume(down * across > 1 and taps > 1 and max(top, bottom) < taps)
    height, width = ((blocks + kernel) * dilation for blocks, kernel, _, _, dilation in axes)
    x, weights, bias, zero_point = drawn(rng, op, (1, height, width, 2), (taps, columns), 2)
    pad = (top * down, bottom * down, left * across, right * across)
    attributes = {"stride": (1, 1), "dilation": (down, across), "pad": pad}
    s = ConstantConvolution(op, x.shape, weights, bias, attributes).stacked()
    assert s is not None and s.attributes["dilation"] == (1, 1)
    np.testing.assert_array_equal(
        spelled(s, x, zero_point, rng), convolve(op, x, weights, bias, zero_point, attributes)
    )


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4), st.integers(1, 3), SEEDS)
def test_parts_of_channels_as_taps(parts: int, depth: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = (1, 1, 1, parts * depth)
    x, weights, bias, zero_point = drawn(rng, "conv2d", shape, (1, 1), 3)
    attributes = {"stride": (1, 1), "dilation": (1, 1), "pad": (0, 0, 0, 0)}
    expected = convolve("conv2d", x, weights, bias, zero_point, attributes)
    s = ConstantConvolution("conv2d", shape, weights, bias, attributes).divided(parts)
    assert s is not None and s.read.is_view and s.write.is_identity and not s.has_surplus
    np.testing.assert_array_equal(spelled(s, x, zero_point, rng), expected)


def test_channels_of_several_places_stay_together() -> None:
    """Blocks of parts of blocks would have no end."""
    rng = np.random.default_rng(0)
    attributes = {"stride": (1, 1), "dilation": (1, 1), "pad": (0, 0, 0, 0)}
    for shape in ((1, 1, 2, 4), (1, 2, 1, 4), (2, 1, 1, 4)):
        _, weights, bias, _ = drawn(rng, "conv2d", shape, (1, 1), 3)
        assert ConstantConvolution("conv2d", shape, weights, bias, attributes).divided(2) is None


def test_what_has_no_such_spelling() -> None:
    weights, bias = np.ones((2, 1, 3, 2), np.int8), np.zeros(2, np.int32)
    plain = {"stride": (1, 1), "dilation": (1, 2), "pad": (0, 0, 0, 0)}
    assert (
        ConstantConvolution("conv2d", (1, 1, 7, 2), weights, bias, plain).phased() is None
    )  # the dilation does not divide W
    assert ConstantConvolution("conv2d", (1, 1, 8, 2), weights, bias, {**plain, "pad": (0, 0, 1, 1)}).phased() is None
    assert ConstantConvolution("conv2d", (1, 1, 8, 2), weights, bias, {**plain, "dilation": (1, 1)}).phased() is None
    assert ConstantConvolution("conv2d", (1, 2, 8, 2), weights, bias, plain).in_columns() is None  # several rows
    assert (
        ConstantConvolution("conv2d", (1, 1, 8, 2), weights, bias, {**plain, "pad": (0, 0, 1, 1)}).in_columns() is None
    )
    assert ConstantConvolution("conv2d", (1, 1, 8, 2), weights, bias, plain).stacked() is None  # a flat kernel
    assert (
        ConstantConvolution("conv2d", (1, 1, 8, 2), weights, bias, {**plain, "dilation": (1, 3)}).undilated((1, 2))
        is None
    )
    assert (
        ConstantConvolution("conv2d", (1, 1, 8, 2), weights, bias, {**plain, "stride": (1, 3)}).blocked((1, 2)) is None
    )
    one = {**plain, "dilation": (1, 1)}
    pointwise = np.ones((2, 1, 1, 2), np.int8)
    assert ConstantConvolution("conv2d", (1, 1, 1, 2), pointwise, bias, one).divided(2) is not None
    assert ConstantConvolution("conv2d", (1, 1, 3, 2), weights, bias, one).divided(2) is None  # several taps along W
    assert ConstantConvolution("conv2d", (1, 1, 4, 2), pointwise, bias, one).divided(2) is None  # several places
    assert (
        ConstantConvolution("conv2d", (1, 1, 1, 2), pointwise, bias, one).divided(4) is None
    )  # two channels in four parts
    assert (
        ConstantConvolution("depthwise_conv2d", (1, 1, 1, 2), np.ones((1, 1, 2, 1), np.int8), bias, one).divided(2)
        is None
    )
