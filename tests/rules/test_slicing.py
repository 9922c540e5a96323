"""Concat, slice and pad: each rule fires on what it is for, is exact there, and leaves its near misses alone."""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from tests.rules import cases
from tests.rules.cases import Drawn, axis_of, cut, resized, siblings
from tests.rules.checks import check, of_inputs, ops_of_output, slices
from tests.term import Term, graph

flags, strides = st.booleans(), st.tuples(st.integers(1, 2), st.integers(1, 2))


def joined(x: Drawn, count: int, of: Callable[[Any, int], Any] = lambda v, k: v) -> Any:
    """A concat of so many tensors: x and its like, or of(each, its number)."""
    axis = axis_of(x)
    first, *more = [of(v, k) for k, v in enumerate([x, *siblings(x, axis, count - 1)])]
    return first.concat(*more, axis=axis)


def stack(x: Drawn, axis: int, others: int) -> Any:
    return x.concat(*siblings(x, axis, others), axis=axis)


def spanning(x: Drawn, count: int, before: int, after: int) -> Drawn:
    """A slice that takes of so many operands of a concat, with others before and after them."""
    whole = joined(x, before + count + after)
    node = whole.g.nodes[whole.n]
    axis = node.attr("axis")
    ends = [0, *np.cumsum([x.g.nodes[i].shape[axis] for i in node.inputs]).tolist()]
    first, last = ends[before], ends[before + count]
    start = x.number(first, ends[before + 1] - 1)
    end = x.number(max(start + 1, ends[before + count - 1] + 1), last)
    s, n = x.draw(slices(whole.shape))
    return cut(whole, resized(s, axis, start), resized(n, axis, end - start))


def neighbours(x: Drawn, gap: int = 0, swap: bool = False, shift: int = 0) -> Any:
    """concat of slices of x: `gap` between them (negative: overlap), swapped, or off by `shift` along another axis."""
    a, b = cut(x, (0, 1, 0), (3, 3, 2)), cut(x, (shift, 4 + gap, 0), (3, 2, 2))
    others = [a.clamp(-3, 3)] if x.draw(flags) else []
    pair = [b, a] if swap else [a, b]
    first, *more = x.pick([*others, *pair], [*pair, *others])
    return first.concat(*more, axis=1)


def pads_of(x: Drawn) -> list[int]:
    return [x.number(0, 2) for _ in range(2 * len(x.shape))]


def in_pads(x: Drawn) -> Drawn:
    """A slice of a pad, long enough that x is in it along each axis."""
    pads = pads_of(x)
    y: Any = x.pad(pads, 5)
    size = [x.number(1 + max(pads[2 * d : 2 * d + 2]), n) for d, n in enumerate(y.shape)]
    return cut(y, [x.number(0, n - s) for n, s in zip(y.shape, size, strict=True)], size)


def some_pads(x: Drawn) -> tuple[int, ...]:
    return (0, 0, x.number(0, 2), 1, x.number(0, 2), x.number(0, 1), 0, 0)


def window(x: Term, *pads: int, value: int = 3, dilation: tuple[int, int], depthwise: bool, pad: Any = (0,) * 4) -> Any:
    """A convolution of a pad."""
    y = x.pad(pads, value)
    return cases.convolved(y, 4, 3, 3, in_zp=3, pad=pad, dilation=dilation, depthwise=depthwise)


def exact(x: Any, op: str, weights: np.ndarray, bias: Any, **more: Any) -> Any:
    """A convolution of as many rows and columns of x as TOSA wants: its strides must come out even."""
    kernel = weights.shape[1:3] if op == "conv2d" else weights.shape[:2]
    a = {"pad": (0,) * 4, "dilation": (1, 1), **more}
    n, *sizes, c = x.shape
    kept = [
        size - (size - 1 + sum(a["pad"][2 * k : 2 * k + 2]) - (kernel[k] - 1) * a["dilation"][k]) % a["stride"][k]
        for k, size in enumerate(sizes)
    ]
    return cut(x, (0,) * 4, (n, *kept, c)).conv(weights, bias, op=op, **a)


def sliced_window(x: Drawn, channels: int, first: int = 0) -> Drawn:
    """Some of the images, rows and columns of the results of a convolution that makes many channels of two."""
    attrs = {"stride": x.draw(strides), "dilation": x.draw(strides), "pad": [x.number(0, 1) for _ in range(4)]}
    weights = np.arange(channels * 2 * 3 * 2).reshape(channels, 2, 3, 2) % 7 - 3
    y = exact(x, "conv2d", weights, np.arange(channels), in_zp=-3, **attrs)
    size = (1, max(1, y.shape[1] - 1), y.shape[2])  # the windows of all columns and of most rows
    start = (x.number(0, 1), x.number(0, y.shape[1] - size[1]), 0)
    return cut(y, (*start, first), (*size, channels - first))


def product_of_slice(x: Drawn, size: Any = (1, 1, 3, 4), kernel: Any = (1, 1), **more: Any) -> Any:
    """A convolution of 6 channels of a part of a tensor."""
    start = [x.number(0, n - k) for n, k in zip(x.shape, size, strict=True)]
    weights = np.arange(6 * prod(kernel) * size[3]).reshape(6, *kernel, size[3]) % 7 - 3
    return cut(x, start, size).conv(weights, np.arange(6), in_zp=2, **more)


def larger_kernel(x: Drawn, dilation: int = 1, stride: int = 1) -> Any:
    """A kernel of 5x3, with as much padding as keeps the size of the image along H."""
    depthwise = x.draw(flags)
    weights = np.arange(60).reshape((5, 3, 2, 2) if depthwise else (2, 5, 3, 2)) % 11 - 5
    high = 2 * dilation + (stride - (x.shape[1] - 1) % stride - 1 if stride > 1 else 0)
    attrs = {"pad": (2 * dilation, high, 1, 1), "dilation": (dilation, 1), "stride": (stride, 1), "in_zp": -3}
    op = "depthwise_conv2d" if depthwise else "conv2d"
    return exact(x, op, weights, np.arange(4 if depthwise else 2) * 10, **attrs)


edge = (0, 0, 1, 0, 0, 1, 0, 0)
TABLE = """
slice-slice            INT8[shapes]         cut(cut(x))
axial-nothing          INT8[shapes]         x.part(0, x.shape[0]).clamp(-7, 7)
axial-nothing          INT8[shapes]         x.pad([0] * 2 * len(x.shape), 0).clamp(-7, 7)
axial-nothing          INT8[2,3]            x.part(0, 2)  ops == {'input'}               # no e-node reads its own class
- axial-nothing        INT8[3,*shapes]      x.part(start, 2)
- axial-nothing        INT8[3,*shapes]      x.pad([0, 1] + [0] * 2 * (len(x.shape) - 1), 0)
slice-const            INT8[shapes]         cut(counted(x)).clamp(-7, 7)
slice-const            INT8[shapes]         counted(x).pad([1] * 2 * len(x.shape), -3).clamp(-7, 7)
slice-unary            INT8[shapes]         cut(pointwise(x, widened))
slice-binary           INT8[shapes]         cut(either(x, broadcast(x)))
slice-select           INT8[shapes]         (lambda y: cut((x > y)('select', y, x)))(broadcast(x))
slice-unary            INT8[shapes]         cut(x.reduce('max', axis_of(x)))
slice-unary            INT8[shapes]         cut(narrowed(x, 30))
slice-unary            INT8[4,6]            x.reverse().part(0, 5, 1)
slice-unary            INT8[4,6]            x('tile', multiples=(2, 1)).part(0, 5, 1)
- slice-unary          INT8[4,6]            x.reverse().part(0, 3)
- slice-unary          INT8[4,6]            x('tile', multiples=(2, 1)).part(0, 7)

slice-concat           INT8[shapes]         spanning(x, span, x.number(0, 1), x.number(0, 1))
slice-concat           INT8[size,3]         stack(x, 0, x.number(0, 5)).part(start, 2, 1)

concat-single          INT8[shapes]         x.concat(axis=axis_of(x)).clamp(-7, 7)
- concat-single        INT8[shapes]         x.concat(x, axis=axis_of(x))
concat-slices          INT8[4,7,2]          neighbours(x)
- concat-slices        INT8[4,7,2]          neighbours(x, gap=x.pick(-1, 1))
- concat-slices        INT8[4,7,2]          neighbours(x, swap=True)
- concat-slices        INT8[4,7,2]          neighbours(x, shift=1)
- concat-slices        INT8[4,6] INT8[4,6]  x.rows(0, 3).concat(y.rows(3, 3), axis=1)

push-concat-unary      INT8[shapes]         pointwise(joined(x, x.number(2, 5)))
- push-concat-unary    INT8[shapes]         joined(x, 2).rescale('INT32')
push-concat-unary      INT8[2,3]            stack(x, 0, 2).reduce('max', 1)
push-concat-unary      INT8[2,3]            stack(x, 0, 2).reverse(1)
- push-concat-unary    INT8[2,3]            stack(x, 0, 2).reduce('max', 0)
- push-concat-unary    INT8[2,3]            stack(x, 0, 2).reverse(0)

slice-pad              INT8[shapes]         in_pads(x)
- slice-pad            INT8[3,4]            x.pad((0, 0, 2, 2), 5).part(x.pick(0, 6), 2, 1)
pad-pad                INT8[shapes]         x.pad(pads_of(x), 5).pad(pads_of(x), 5)
- pad-pad              INT8[shapes]         x.pad(pads_of(x), 5).pad(pads_of(x), 4)
pad-unary              INT8[shapes]         pointwise(x.pad(pads_of(x), x.number(-128, 127)), widened)
pad-conv               INT8[1,5,6,2]        window(x, *some_pads(x), **how)
pad-conv               INT8[1,5,6,2]        window(x, 0, 0, 1, 1, 1, 1, 0, 0, pad=(1, 0, 0, 1), **how)
- pad-conv             INT8[1,5,6,2]        window(x, *some_pads(x), value=0, **how)
- pad-conv             INT8[1,5,6,2]        window(x, 0, 0, 1, 1, 0, 0, 1, 0, **how)
- pad-conv             INT8[1,5,6,2]        window(x, 0, 1, 1, 1, 0, 0, 0, 0, **how)
- pad-conv             INT8[1,5,6,2]        window(x, 0, 0, 1, 1, 3, 0, 0, 0, **how)
- pad-conv             INT8[1,5,6,2]        window(x, 0, 0, 0, 0, 2, 0, 0, 0, pad=(0, 0, 1, 0), **how)
pad-pool               INT8[1,5,5,2]        x.pad(edge, -128).largest(2, 2)
- pad-pool             INT8[1,5,5,2]        x.pad(edge, -127).largest(2, 2)
- pad-pool             INT8[1,5,5,2]        x.pad((0, 0, 2, 0, 0, 0, 0, 0), -128).largest(2, 2)
- pad-pool             INT8[1,5,5,2]        x.pad(edge, -128).average(2, 2, in_zp=-128, out_zp=-128)

slice-conv-window      INT8[2,6,7,2]        sliced_window(x, 96)
- slice-conv-window    INT8[2,6,7,2]        sliced_window(x, 24, first=1)
- slice-conv-window    INT8[2,6,7,2]        sliced_window(x, 2)
product-of-slice       INT8[2,3,5,4]        product_of_slice(x)
product-of-slice       INT8[2,3,5,4]        product_of_slice(x, (1, 2, 5, 4))
- product-of-slice     INT8[2,3,5,4]        product_of_slice(x, (2, 3, 5, 2))
- product-of-slice     INT8[2,3,5,4]        product_of_slice(x, kernel=(1, 2))
- product-of-slice     INT8[2,3,5,4]        product_of_slice(x, pad=(0, 0, 1, 0))
- product-of-slice     INT8[2,3,5,4]        product_of_slice(x, stride=(1, 2))
conv-unseen-taps       INT8[2,2,9,2] | INT8[2,1,9,2]  larger_kernel(x)               # larger than the image
conv-unseen-taps       INT8[2,3,9,2]        larger_kernel(x, 4)                      # or spread beyond it
conv-unseen-taps       INT8[2,2,9,2]        larger_kernel(x, 2, x.pick(1, 2))
- conv-unseen-taps     INT8[2,4,9,2] | INT8[2,9,5,2]  larger_kernel(x)               # every tap sees the image
"""
test_fires_and_is_exact, test_spares_near_misses = cases.of_table(
    globals(),
    TABLE,
    fires_on=8,
    spares=4,
    how=st.fixed_dictionaries({"dilation": st.sampled_from([(1, 1), (2, 1)]), "depthwise": flags}),
    size=st.integers(1, 4),
    span=[1, 2, 6],
    start=[0, 1],
)


def test_streaming_state_is_a_slice_of_the_frame():
    """state' = the last columns of concat(state, frame): the concat is not needed for it."""
    frozen = check(graph("state:INT8[1,1,4,8] frame:INT8[1,1,6,8]", lambda s, f: s.concat(f, axis=2).part(6, 4, 2)))
    assert "concat" not in ops_of_output(frozen) and "slice" in of_inputs(frozen)


@pytest.mark.parametrize("merged", ["slices", "constants", "concats"])
def test_wide_concats_stay_in_hand(merged: str) -> None:
    """To merge any two neighbours took a concat for each way to divide the operands, 2^11."""

    def wide(x: Term) -> Term:
        part = {
            "slices": lambda n: x.part(2 * n, 2, 2).clamp(-9, 9),
            "constants": lambda n: x.const(np.full((1, 2, 2), n)),
            "concats": lambda n: x.part(n, 1, 2).concat(x.part(23 - n, 1, 2), axis=2),
        }[merged]
        return part(0).concat(*map(part, range(1, 12)), x, axis=2).clamp(-50, 50)

    frozen = check(graph("x:INT8[1,2,24]", wide))
    assert frozen.saturation.stop == "saturated" and frozen.n_nodes < 180
