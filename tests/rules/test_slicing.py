"""Concat, slice and pad: each rule fires on what it is for, is exact there, and leaves its near misses alone."""

from math import prod

import numpy as np
import pytest
from hypothesis import strategies as st

from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import Attrs
from tests.rules.cases import Cases
from tests.rules.checks import check, clamp, conv, cut, only, ops_of_output, pad, rescale, shapes, slices, table

CASES = Cases()


def given_input(draw, shape=None, dtype="INT8", name="x") -> tuple[TensorGraph, int]:
    g = TensorGraph()
    return g, g.add_input(name, shape or draw(shapes), dtype)


def axis_of(draw, g: TensorGraph, x: int) -> int:
    return draw(st.integers(0, len(g.nodes[x].shape) - 1))


def resized(shape, axis: int, n: int) -> tuple[int, ...]:
    return (*shape[:axis], n, *shape[axis + 1 :])


def along(g: TensorGraph, x: int, axis: int, start: int, size: int) -> int:
    """Slice of x along one axis."""
    shape = g.nodes[x].shape
    return cut(g, x, resized([0] * len(shape), axis, start), resized(shape, axis, size))


def joined(draw, k: int) -> tuple[TensorGraph, list[int], int, int]:
    """(graph, k inputs, axis, their concat)."""
    g, shape = TensorGraph(), draw(shapes)
    axis = draw(st.integers(0, len(shape) - 1))
    xs = [g.add_input(f"x{i}", resized(shape, axis, draw(st.integers(1, 4))), "INT8") for i in range(k)]
    return g, xs, axis, g.add("concat", xs, axis=axis)


# ---- slices -------------------------------------------------------------------------------------


@CASES.fires_on("slice-slice")
def _(draw):
    g, x = given_input(draw)
    inner = cut(g, x, *draw(slices(g.nodes[x].shape)))
    return g, cut(g, inner, *draw(slices(g.nodes[inner].shape)))


@CASES.fires_on("axial-nothing")
def _(draw):
    g, x = given_input(draw)
    shape = g.nodes[x].shape
    return g, clamp(
        g, cut(g, x, [0] * len(shape), shape) if draw(st.booleans()) else pad(g, x, [0] * 2 * len(shape)), -7, 7
    )


@CASES.spares("axial-nothing")
def _(draw):
    g, x = given_input(draw, (3, *draw(shapes)))
    return g, along(g, x, 0, draw(st.integers(0, 1)), 2) if draw(st.booleans()) else pad(
        g, x, resized([0] * 2 * len(g.nodes[x].shape), 1, 1)
    )


@CASES.fires_on("slice-const")
def _(draw):
    g, x = given_input(draw)
    shape = g.nodes[x].shape
    c = g.add_const(np.arange(np.prod(shape)).reshape(shape), "INT8")
    new = pad(g, c, [1] * 2 * len(shape), -3) if draw(st.booleans()) else cut(g, c, *draw(slices(shape)))
    return g, g.add("maximum", (new, new), nan_mode=1)


@CASES.fires_on("slice-unary")
def _(draw):
    g, x = given_input(draw)
    f = draw(
        st.sampled_from([lambda: clamp(g, x, -9, 50), lambda: table(g, x, 1), lambda: rescale(g, x, "INT32", in_zp=3)])
    )()
    return g, cut(g, f, *draw(slices(g.nodes[x].shape)))


@CASES.fires_on("slice-binary")
def _(draw):
    g, x = given_input(draw)
    shape = g.nodes[x].shape
    y = g.add_input("y", tuple(draw(st.sampled_from([1, n])) for n in shape), "INT8")
    return g, cut(g, g.add("maximum", draw(st.permutations([x, y])), nan_mode=1), *draw(slices(shape)))


@CASES.fires_on("slice-select")
def _(draw):
    g, x = given_input(draw)
    shape = g.nodes[x].shape
    y = g.add_input("y", tuple(draw(st.sampled_from([1, n])) for n in shape), "INT8")
    return g, cut(g, g.add("select", (g.add("greater", (x, y)), y, x)), *draw(slices(shape)))


@CASES.fires_on("slice-unary")
def _(draw):
    g, x = given_input(draw)
    shape = g.nodes[x].shape
    if draw(st.booleans()):
        f = g.add("reduce_max", (x,), axis=axis_of(draw, g, x), nan_mode=1)
    else:
        f = rescale(
            g,
            x,
            "INT8",
            [1 << 30, 1700000000, 1100000000, 1200000000, 1300000000, 2000000000][: shape[-1]],
            [31, 30, 32, 31, 30, 33][: shape[-1]],
        )
    return g, cut(g, f, *draw(slices(g.nodes[f].shape)))


def repeated(draw, axis: int) -> tuple[TensorGraph, int]:
    """A tensor [4, 6] that is repeated or reversed along its first axis, and then cut along the other one or that."""
    g = TensorGraph()
    x = g.add_input("x", (4, 6), "INT8")
    y = g.add("reverse", (x,), axis=0) if draw(st.booleans()) else g.add("tile", (x,), multiples=(2, 1))
    size = [n - 1 if d == axis else n for d, n in enumerate(g.nodes[y].shape)]
    return g, cut(g, y, (0, 0), size)


CASES.fires_on("slice-unary")(lambda draw: repeated(draw, 1))
CASES.spares("slice-unary")(lambda draw: repeated(draw, 0))


# ---- slices of concats --------------------------------------------------------------------------


def spanning(draw, k: int, before: int, after: int) -> tuple[TensorGraph, int]:
    """A slice that takes of k operands, with `before` and `after` others around them."""
    g, xs, axis, c = joined(draw, before + k + after)
    sizes = [g.nodes[x].shape[axis] for x in xs]
    first, last = sum(sizes[:before]), sum(sizes[: before + k])
    start = draw(st.integers(first, first + sizes[before] - 1))
    end = draw(st.integers(max(start + 1, last - sizes[before + k - 1] + 1), last))
    s, n = draw(slices(g.nodes[c].shape))
    return g, cut(g, c, resized(s, axis, start), resized(n, axis, end - start))


for number in (1, 2, 3, 4):
    CASES.fires_on(f"slice-concat-{number}")(
        lambda draw, k=number: spanning(draw, k, draw(st.integers(0, 1)), draw(st.integers(0, 1)))
    )
    CASES.spares(f"slice-concat-{number}")(lambda draw, k=number: spanning(draw, k + 1, draw(st.integers(0, 1)), 0))
    if number > 1:
        CASES.spares(f"slice-concat-{number}")(lambda draw, k=number: spanning(draw, k - 1, 1, 1))


@CASES.fires_on("slice-concat-beside")
def _(draw):
    g = TensorGraph()
    xs = [g.add_input(f"x{i}", (draw(st.integers(1, 4)), 3), "INT8") for i in range(draw(st.integers(1, 6)))]
    c = g.add("concat", xs, axis=0)
    return g, along(g, c, 1, draw(st.integers(0, 1)), 2)


@CASES.spares("slice-concat-beside")
def _(draw):
    g, _xs, axis, c = joined(draw, 3)
    return g, along(g, c, axis, 1, 2)


# ---- concats ------------------------------------------------------------------------------------


@CASES.fires_on("concat-single")
def _(draw):
    g, x = given_input(draw)
    return g, clamp(g, g.add("concat", (x,), axis=axis_of(draw, g, x)), -7, 7)


@CASES.spares("concat-single")
def _(draw):
    g, x = given_input(draw)
    return g, g.add("concat", (x, x), axis=axis_of(draw, g, x))


def neighbours(draw, gap: int = 0, swap: bool = False, shift: int = 0) -> tuple[TensorGraph, int]:
    """concat of slices of x: `gap` between them (negative: overlap), swapped, or off by `shift` along another axis."""
    g, x = given_input(draw, (4, 7, 2))
    a = cut(g, x, (0, 1, 0), (3, 3, 2))
    b = cut(g, x, (shift, 4 + gap, 0), (3, 2, 2))
    others = [clamp(g, a, -3, 3)] if draw(st.booleans()) else []
    pair = [b, a] if swap else [a, b]
    return g, g.add("concat", (*others, *pair) if draw(st.booleans()) else (*pair, *others), axis=1)


CASES.fires_on("concat-slices")(neighbours)
CASES.spares("concat-slices")(lambda draw: neighbours(draw, gap=draw(st.sampled_from([-1, 1]))))
CASES.spares("concat-slices")(lambda draw: neighbours(draw, swap=True))
CASES.spares("concat-slices")(lambda draw: neighbours(draw, shift=1))


@CASES.spares("concat-slices")
def _(draw):
    g, x = given_input(draw, (4, 6))
    y = g.add_input("y", (4, 6), "INT8")
    return g, g.add("concat", (along(g, x, 1, 0, 3), along(g, y, 1, 3, 3)), axis=1)


def constants(draw, apart: bool = False) -> tuple[TensorGraph, int]:
    g, x = given_input(draw)
    shape = g.nodes[x].shape
    a, b = (g.add_const(np.full(shape, v), "INT8") for v in (3, -4))
    order = [a, x, b] if apart else draw(st.sampled_from([[a, b, x], [x, a, b], [x, b, a, a]]))
    return g, g.add("concat", order, axis=axis_of(draw, g, x))


CASES.fires_on("concat-const")(constants)
CASES.spares("concat-const")(lambda draw: constants(draw, apart=True))


@CASES.fires_on("concat-flat")
def _(draw):
    g, x = given_input(draw, (2, 3))
    inner = g.add("concat", (x, clamp(g, x, -5, 5), x), axis=0)
    return g, g.add("concat", draw(st.sampled_from([[inner, x], [x, inner], [x, inner, x], [inner, inner]])), axis=0)


@CASES.spares("concat-flat")
def _(draw):
    g, x = given_input(draw, (2, 3))
    inner = g.add("concat", (x, x), axis=0)
    return g, g.add("concat", (inner, inner), axis=1)


UNARY = [
    lambda g, x: clamp(g, x, -9, 50),
    lambda g, x: table(g, x, 1),
    lambda g, x: rescale(g, x, "INT8", 1500000000, 31, 2, 9),
]


@CASES.fires_on("push-concat-unary")
def _(draw):
    g, _, _, c = joined(draw, draw(st.integers(2, 5)))
    return g, draw(st.sampled_from(UNARY))(g, c)


@CASES.spares("push-concat-unary")
def _(draw):
    g, _, _, c = joined(draw, 2)
    return g, rescale(g, c, "INT32")


def reduced_or_reversed(draw, axis: int) -> tuple[TensorGraph, int]:
    """An operator along an axis of a concat along axis 0."""
    g = TensorGraph()
    c = g.add("concat", [g.add_input(f"x{k}", (2 + k, 3), "INT8") for k in range(3)], axis=0)
    more = draw(st.sampled_from([("reduce_max", {"nan_mode": 1}), ("reverse", {})]))
    return g, g.add(more[0], (c,), axis=axis, **more[1])


CASES.fires_on("push-concat-unary")(lambda draw: reduced_or_reversed(draw, 1))
CASES.spares("push-concat-unary")(lambda draw: reduced_or_reversed(draw, 0))


@CASES.fires_on("pull-concat-unary")
def _(draw):
    g, xs, axis, _ = joined(draw, draw(st.integers(2, 5)))
    f = draw(st.sampled_from([*UNARY, lambda g, x: rescale(g, x, "INT32", in_zp=4)]))
    return g, g.add("concat", [f(g, x) for x in xs], axis=axis)


@CASES.spares("pull-concat-unary")
def _(draw):
    g, xs, axis, _ = joined(draw, 3)
    return g, g.add("concat", [table(g, x, i // 2) for i, x in enumerate(xs)], axis=axis)


@CASES.spares("pull-concat-unary")
def _(draw):
    g, xs, axis, _ = joined(draw, 3)
    wide = [g.add("add", (w, w)) for w in (rescale(g, x, "INT32") for x in xs)]
    return g, g.add("concat", [rescale(g, w, "INT8", 1 << 30, 31) for w in wide], axis=axis)


@CASES.spares("pull-concat-unary")
def _(draw):  # one and the same RESCALE, of INT8 and of INT16
    g, (x,), axis, _ = joined(draw, 1)
    y = g.add_input("y", g.nodes[x].shape, "INT16")
    return g, g.add("concat", [rescale(g, o, "INT16", 1 << 30, 29) for o in draw(st.permutations([x, y]))], axis=axis)


# ---- pads ---------------------------------------------------------------------------------------


def some_pads(draw, shape) -> list[int]:
    return [draw(st.integers(0, 2)) for _ in range(2 * len(shape))]


@CASES.fires_on("slice-pad")
def _(draw):
    g, x = given_input(draw)
    shape = g.nodes[x].shape
    pads = some_pads(draw, shape)
    size = [
        draw(st.integers(max(1, max(pads[2 * d : 2 * d + 2]) + 1), n + sum(pads[2 * d : 2 * d + 2])))
        for d, n in enumerate(shape)
    ]
    total = [n + sum(pads[2 * d : 2 * d + 2]) for d, n in enumerate(shape)]
    return g, cut(g, pad(g, x, pads, 5), [draw(st.integers(0, t - s)) for t, s in zip(total, size, strict=True)], size)


@CASES.spares("slice-pad")
def _(draw):
    g, x = given_input(draw, (3, 4))
    return g, cut(g, pad(g, x, (0, 0, 2, 2), 5), (0, draw(st.sampled_from([0, 6]))), (3, 2))


def padded_twice(draw, second: int) -> tuple[TensorGraph, int]:
    g, x = given_input(draw)
    shape = g.nodes[x].shape
    return g, pad(g, pad(g, x, some_pads(draw, shape), 5), some_pads(draw, shape), second)


CASES.fires_on("pad-pad")(lambda draw: padded_twice(draw, 5))
CASES.spares("pad-pad")(lambda draw: padded_twice(draw, 4))


@CASES.fires_on("pad-unary")
def _(draw):
    g, x = given_input(draw)
    padded = pad(g, x, some_pads(draw, g.nodes[x].shape), draw(st.integers(-128, 127)))
    return g, draw(st.sampled_from([*UNARY, lambda g, x: rescale(g, x, "INT32", in_zp=4)]))(g, padded)


def padded_conv(draw, pads=None, value: int = 3, zp: int = 3, padding=(0, 0, 0, 0)) -> tuple[TensorGraph, int]:
    g, x = given_input(draw, (1, 5, 6, 2))
    dilation = draw(st.sampled_from([(1, 1), (2, 1)]))
    pads = pads or (0, 0, draw(st.integers(0, 2)), 1, draw(st.integers(0, 2)), draw(st.integers(0, 1)), 0, 0)
    return g, conv(g, pad(g, x, pads, value), 4, (3, 3), zp, padding, depthwise=draw(st.booleans()), dilation=dilation)


CASES.fires_on("pad-conv")(padded_conv)
CASES.fires_on("pad-conv")(lambda draw: padded_conv(draw, (0, 0, 1, 1, 1, 1, 0, 0), padding=(1, 0, 0, 1)))
CASES.spares("pad-conv")(lambda draw: padded_conv(draw, value=0))
CASES.spares("pad-conv")(lambda draw: padded_conv(draw, (0, 0, 1, 1, 0, 0, 1, 0)))
CASES.spares("pad-conv")(lambda draw: padded_conv(draw, (0, 1, 1, 1, 0, 0, 0, 0)))
CASES.spares("pad-conv")(lambda draw: padded_conv(draw, (0, 0, 1, 1, 3, 0, 0, 0)))
CASES.spares("pad-conv")(lambda draw: padded_conv(draw, (0, 0, 0, 0, 2, 0, 0, 0), padding=(0, 0, 1, 0)))


def sliced_window(draw, whole_channels: bool = True, channels: int = 24) -> tuple[TensorGraph, int]:
    """Some of the images, rows and columns of the results of a convolution that makes many channels of two."""
    g, x = given_input(draw, (2, 6, 7, 2))
    stride, dilation = (draw(st.tuples(st.integers(1, 2), st.integers(1, 2))) for _ in range(2))
    attrs = makers.conv(
        "INT8", stride=stride, pad=draw(st.tuples(*[st.integers(0, 1)] * 4)), dilation=dilation, in_zp=-3
    )
    w = g.add_const(np.arange(channels * 2 * 3 * 2).reshape(channels, 2, 3, 2) % 7 - 3, "INT8")
    y = _exact(g, x, "conv2d", attrs, w, g.add_const(np.arange(channels), "INT32"))
    shape = g.nodes[y].shape
    size = (1, max(1, shape[1] - 1), shape[2])  # the windows of all columns and of most rows
    start = (draw(st.integers(0, 1)), draw(st.integers(0, shape[1] - size[1])), 0)
    first = 0 if whole_channels else 1
    return g, cut(g, y, (*start, first), (*size, channels - first))


def _exact(g: TensorGraph, x: int, op: str, attrs: Attrs, *constants: int) -> int:
    """A window on as many rows and columns of x as TOSA wants: its strides must come out even."""
    a = dict(attrs)
    weights = g.nodes[constants[0]].shape if constants else ()
    kernel = a.get("kernel") or (weights[1:3] if op == "conv2d" else weights[:2])
    dilation = a.get("dilation", (1, 1))
    rest = [
        (n - 1 + a["pad"][2 * k] + a["pad"][2 * k + 1] - (kernel[k] - 1) * dilation[k]) % a["stride"][k]
        for k, n in enumerate(g.nodes[x].shape[1:3])
    ]
    n, h, w, c = g.nodes[x].shape
    return g.add_with(op, (cut(g, x, (0, 0, 0, 0), (n, h - rest[0], w - rest[1], c)), *constants), attrs)


CASES.fires_on("slice-conv-window")(lambda draw: sliced_window(draw, channels=96))
CASES.spares("slice-conv-window")(lambda draw: sliced_window(draw, whole_channels=False))
CASES.spares("slice-conv-window")(lambda draw: sliced_window(draw, channels=2))


def product_of_slice(draw, size=(1, 1, 3, 4), kernel=(1, 1), **more: object) -> tuple[TensorGraph, int]:
    """A convolution of 6 channels of a part of a tensor."""
    g, x = given_input(draw, (2, 3, 5, 4))
    start = tuple(draw(st.integers(0, n - k)) for n, k in zip((2, 3, 5, 4), size, strict=True))
    w = g.add_const(np.arange(6 * prod(kernel) * size[3]).reshape(6, *kernel, size[3]) % 7 - 3, "INT8")
    b = g.add_const(np.arange(6), "INT32")
    return g, g.add_with("conv2d", (cut(g, x, start, size), w, b), makers.conv("INT8", in_zp=2, **more))


CASES.fires_on("product-of-slice")(product_of_slice)
CASES.fires_on("product-of-slice")(lambda draw: product_of_slice(draw, (1, 2, 5, 4)))
CASES.spares("product-of-slice")(lambda draw: product_of_slice(draw, (2, 3, 5, 2)))
CASES.spares("product-of-slice")(lambda draw: product_of_slice(draw, kernel=(1, 2)))
CASES.spares("product-of-slice")(lambda draw: product_of_slice(draw, pad=(0, 0, 1, 0)))
CASES.spares("product-of-slice")(lambda draw: product_of_slice(draw, stride=(1, 2)))


@CASES.fires_on("conv-unseen-taps")
def _(draw):  # a kernel larger than the image, or spread beyond it
    size, dilation, stride = draw(st.sampled_from([(2, 1, 1), (3, 4, 1), (2, 2, 1), (1, 1, 1), (2, 2, 2)]))
    return larger_kernel(draw, (size, 9), dilation, stride)


@CASES.spares("conv-unseen-taps")
def _(draw):  # every tap sees the image somewhere
    return larger_kernel(draw, draw(st.sampled_from([(4, 9), (9, 5)])), 1, 1)


def larger_kernel(draw, image: tuple[int, int], dilation: int, stride: int) -> tuple[TensorGraph, int]:
    """A kernel of 5x3 on an image (H, W), with as much padding as keeps its size along H."""
    depthwise = draw(st.booleans())
    g, x = given_input(draw, (2, *image, 2))
    w = g.add_const(np.arange(60).reshape((5, 3, 2, 2) if depthwise else (2, 5, 3, 2)) % 11 - 5, "INT8")
    b = g.add_const(np.arange(4 if depthwise else 2) * 10, "INT32")
    high = 2 * dilation + (stride - (image[0] - 1) % stride - 1 if stride > 1 else 0)
    attrs = makers.conv("INT8", pad=(2 * dilation, high, 1, 1), dilation=(dilation, 1), stride=(stride, 1), in_zp=-3)
    return g, _exact(g, x, "depthwise_conv2d" if depthwise else "conv2d", attrs, w, b)


def padded_pool(
    draw, pads=(0, 0, 1, 0, 0, 1, 0, 0), value: int = -128, op: str = "max_pool2d"
) -> tuple[TensorGraph, int]:
    g, x = given_input(draw, (1, 5, 5, 2))
    attrs = makers.avg_pool((2, 2), in_zp=-128, out_zp=-128) if op == "avg_pool2d" else makers.max_pool((2, 2))
    return g, g.add_with(op, (pad(g, x, pads, value),), attrs)


CASES.fires_on("pad-pool")(padded_pool)
CASES.spares("pad-pool")(lambda draw: padded_pool(draw, value=-127))
CASES.spares("pad-pool")(lambda draw: padded_pool(draw, (0, 0, 2, 0, 0, 0, 0, 0)))
CASES.spares("pad-pool")(lambda draw: padded_pool(draw, op="avg_pool2d"))


# ---- the tests ----------------------------------------------------------------------------------

test_fires_and_is_exact, test_spares_near_misses = CASES.tests(fires_on=8, spares=4)


def test_streaming_state_is_a_slice_of_the_frame():
    """state' = the last columns of concat(state, frame): the concat is not needed for it."""
    g = TensorGraph()
    state, frame = g.add_input("state", (1, 1, 4, 8), "INT8"), g.add_input("frame", (1, 1, 6, 8), "INT8")
    both = g.add("concat", (state, frame), axis=2)
    g.outputs = [along(g, both, 2, 6, 4)]
    frozen = check(g)
    assert "concat" not in ops_of_output(frozen)
    assert any(
        e.op == "slice" and e.children == (frozen.handle[frame],) for e in frozen.classes[frozen.handle[g.outputs[0]]]
    )


def test_split_and_rejoined_around_a_table_is_the_table():
    g = TensorGraph()
    x = g.add_input("x", (1, 4, 9), "INT8")
    parts = [table(g, along(g, x, 2, s, 3), 4) for s in (0, 3, 6)]
    g.outputs = [g.add("concat", parts, axis=2)]
    frozen = check(g)
    assert any(
        e.op == "table" and e.children == (frozen.handle[x],) for e in frozen.classes[frozen.handle[g.outputs[0]]]
    )


@pytest.mark.parametrize("merged", ["slices", "constants", "concats"])
def test_wide_concats_stay_in_hand(merged: str) -> None:
    """To merge any two neighbours took a concat for each way to divide the operands, 2^11."""
    g = TensorGraph()
    x = g.add_input("x", (1, 2, 24), "INT8")
    parts = {
        "slices": lambda n: clamp(g, along(g, x, 2, 2 * n, 2), -9, 9),
        "constants": lambda n: g.add_const(np.full((1, 2, 2), n), "INT8"),
        "concats": lambda n: g.add("concat", (along(g, x, 2, n, 1), along(g, x, 2, 23 - n, 1)), axis=2),
    }[merged]
    g.outputs = [clamp(g, g.add("concat", [*(parts(n) for n in range(12)), x], axis=2), -50, 50)]
    frozen = check(g)
    assert frozen.saturation.stop == "saturated" and frozen.n_nodes < 180


def test_removed_nodes_are_gone():
    """A class keeps no e-node that reads its own class, so no extraction can choose a slice of everything."""
    g = TensorGraph()
    x = g.add_input("x", (2, 3), "INT8")
    g.outputs = [cut(g, x, (0, 0), (2, 3))]
    assert ops_of_output(check(g, only("axial-nothing"))) == {"input"}
