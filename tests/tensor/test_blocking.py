"""Every spelling of a convolution equals the plain one to the bit: random shapes, strides, dilations, padding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
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


def check(
    op: str, shape: tuple[int, ...], kernel: tuple[int, int], attributes: Any, seed: int, how: str, *given: Any
) -> Spelling | None:
    """A spelling of a convolution with random values, which it equals; None if there is none."""
    rng = np.random.default_rng(seed)
    depthwise, out = op == "depthwise_conv2d", int(rng.integers(1, 4))
    weights = rng.integers(-128, 128, (*kernel, shape[-1], out) if depthwise else (out, *kernel, shape[-1]))
    bias = rng.integers(-(2**20), 2**20, out * (shape[-1] if depthwise else 1)).astype(np.int32)
    x, w, zero_point = (
        rng.integers(-128, 128, shape).astype(np.int8),
        weights.astype(np.int8),
        int(rng.integers(-128, 128)),
    )
    s: Spelling | None = getattr(ConstantConvolution(op, shape, w, bias, attributes), how)(*given)
    if s is not None and min(s.results) >= 1:
        expected = convolve(op, x, w, bias, zero_point, attributes)
        np.testing.assert_array_equal(spelled(s, x, zero_point, rng), expected)
    return s


def window(dilation: tuple[int, int], pad: tuple[int, int, int, int], stride: tuple[int, int] = (1, 1)) -> Any:
    return {"stride": stride, "dilation": dilation, "pad": pad}


OPS = st.sampled_from(["conv2d", "depthwise_conv2d"])


@settings(max_examples=200, deadline=None)
@given(axes(), axes(), st.integers(1, 3), OPS, SEEDS)
def test_on_blocks(h: Any, w: Any, channels: int, op: str, seed: int) -> None:
    attributes = window((h[3], w[3]), (h[4], h[5], w[4], w[5]), (h[2], w[2]))
    assert check(op, (1, h[0], w[0], channels), (h[1], w[1]), attributes, seed, "block", (h[6], w[6]))


@settings(max_examples=100, deadline=None)
@given(
    st.tuples(*[st.integers(1, 5)] * 4),
    st.tuples(*[st.integers(1, 4)] * 2),
    st.tuples(*[st.integers(-2, 2)] * 4),
    SEEDS,
)
def test_transposed(sizes: Any, strides: Any, pads: Any, seed: int) -> None:
    h, w, kh, kw = sizes
    results = (h - 1) * strides[0] + pads[0] + pads[1] + kh, (w - 1) * strides[1] + pads[2] + pads[3] + kw
    assume(min(results) >= 1 and min(pads[:2]) > -kh and min(pads[2:]) > -kw)
    attributes = {"stride": strides, "out_pad": pads}
    assume(check("transpose_conv2d", (1, h, w, 2), (kh, kw), attributes, seed, "block_transposed"))


@settings(max_examples=60, deadline=None)
@given(axes(), st.sampled_from([1, 2, 3, 4, 6]), OPS, SEEDS)
def test_zeros_between_taps_stand_for_dilation(w: Any, dilation: int, op: str, seed: int) -> None:
    shape = (1, 2, w[0] + (w[1] - 1) * (dilation - w[3]) if dilation > w[3] else w[0], 2)
    for smaller in (d for d in range(1, dilation) if dilation % d == 0):
        attributes = window((1, dilation), (0, 0, w[4], w[5]))
        assume(check(op, shape, (1, w[1]), attributes, seed, "reduce_dilation", (1, smaller)))


@settings(max_examples=60, deadline=None)
@given(*[st.integers(1, 4)] * 3, *[st.integers(0, 2)] * 2, st.integers(2, 4), st.integers(0, 3), OPS, SEEDS)
def test_phases(
    h: int, blocks: int, kernel: int, low: int, high: int, dilation: int, more: int, op: str, seed: int
) -> None:
    """As images, where the dilation divides W, and in the columns of one row."""
    width, attributes = (blocks + kernel) * dilation, window((1, dilation), (0, 0, low * dilation, high * dilation))
    s = check(op, (1, h, width, 2), (1, kernel), attributes, seed, "split_phases")
    assert s is not None and s.attributes["dilation"] == (1, 1)
    s = check(op, (1, 1, width + more, 2), (1, kernel), attributes, seed, "in_columns")
    assert s is not None and s.attributes["dilation"] == (1, 1)
    assert s.read.is_view and s.write.is_view and s.appended == (0, -(width + more) % dilation)


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(
        *[st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(0, 2), st.integers(0, 2), st.integers(1, 3))] * 2
    ),
    OPS,
    SEEDS,
)
def test_images_below_each_other(axes: tuple[tuple[int, ...], ...], op: str, seed: int) -> None:
    """Per axis: elements of a phase beside those that the kernel needs, taps, padding, dilation."""
    (_, taps, top, bottom, down), (_, columns, left, right, across) = axes
    assume(down * across > 1 and taps > 1 and max(top, bottom) < taps)
    height, width = ((blocks + kernel) * dilation for blocks, kernel, _, _, dilation in axes)
    attributes = window((down, across), (top * down, bottom * down, left * across, right * across))
    s = check(op, (1, height, width, 2), (taps, columns), attributes, seed, "stack_phases")
    assert s is not None and s.attributes["dilation"] == (1, 1)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4), st.integers(1, 3), SEEDS)
def test_parts_of_channels_as_taps(parts: int, depth: int, seed: int) -> None:
    attributes = window((1, 1), (0, 0, 0, 0))
    s = check("conv2d", (1, 1, 1, parts * depth), (1, 1), attributes, seed, "divide_channels", parts)
    assert s is not None and s.read.is_view and s.write.is_identity and not s.has_surplus


@pytest.mark.parametrize(
    ("shape", "kernel", "attributes", "how"),
    [
        ((1, 1, 7, 2), (1, 3), window((1, 2), (0, 0, 0, 0)), ("split_phases",)),  # the dilation does not divide W
        ((1, 1, 8, 2), (1, 3), window((1, 2), (0, 0, 1, 1)), ("split_phases",)),
        ((1, 1, 8, 2), (1, 3), window((1, 1), (0, 0, 0, 0)), ("split_phases",)),
        ((1, 2, 8, 2), (1, 3), window((1, 2), (0, 0, 0, 0)), ("in_columns",)),  # several rows
        ((1, 1, 8, 2), (1, 3), window((1, 2), (0, 0, 1, 1)), ("in_columns",)),
        ((1, 1, 8, 2), (1, 3), window((1, 2), (0, 0, 0, 0)), ("stack_phases",)),  # a flat kernel
        ((1, 1, 8, 2), (1, 3), window((1, 3), (0, 0, 0, 0)), ("reduce_dilation", (1, 2))),
        ((1, 1, 8, 2), (1, 3), window((1, 2), (0, 0, 0, 0), (1, 3)), ("block", (1, 2))),
        ((1, 1, 3, 2), (1, 3), window((1, 1), (0, 0, 0, 0)), ("divide_channels", 2)),  # several taps along W
        *(
            (s, (1, 1), window((1, 1), (0, 0, 0, 0)), ("divide_channels", 2))
            for s in ((1, 1, 2, 4), (1, 2, 1, 4), (2, 1, 1, 4))
        ),
        ((1, 1, 1, 2), (1, 1), window((1, 1), (0, 0, 0, 0)), ("divide_channels", 4)),  # two channels in four parts
    ],
)
def test_what_has_no_such_spelling(shape: Any, kernel: Any, attributes: Any, how: Any) -> None:
    """Nor channels of several places: blocks of parts of blocks would have no end."""
    assert check("conv2d", shape, kernel, attributes, 0, *how) is None


def test_channels_of_a_depthwise_convolution_are_not_divided() -> None:
    attributes = window((1, 1), (0, 0, 0, 0))
    assert check("depthwise_conv2d", (1, 1, 1, 2), (1, 1), attributes, 0, "divide_channels", 2) is None
