"""Products and poolings over windows in TOSA's fixed layouts (convolutions, MATMUL, pools), reductions and ARGMAX.

Activations are [N, H, W, C].
Weights of CONV2D and TRANSPOSE_CONV2D are [OC, KH, KW, IC], those of DEPTHWISE_CONV2D are [KH, KW, C, M].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from eqsat.tensor.ops.op import (
    ALONG_AXIS,
    ZERO_POINTS,
    Attributes,
    Evaluate,
    Infer,
    NotModelled,
    always,
    axis_of,
    define,
    infer_reduced,
    wide,
)
from eqsat.tensor.ops.pointwise import rescale
from eqsat.tensor.types import Array, DType, GraphError, Shape, Type

_PRODUCT_ZERO_POINTS = (("in_zp", "in0"), ("w_zp", "in1"))
_mac = partial(define, "mac")


# ---- inference ----------------------------------------------------------------------------------


def _window(size: int, before: int, after: int, kernel: int, stride: int, dilation: int = 1) -> int:
    if min(kernel, stride, dilation) < 1 or min(before, after) < 0:
        raise GraphError(
            f"a window of {kernel} with stride {stride}, dilation {dilation} and pads {before}, {after}: "
            "pads are at least 0, the others 1"
        )
    return (size - 1 + before + after - (kernel - 1) * dilation) // stride + 1


def _channels(x: int, weights: int, bias: Shape, out: int) -> None:
    if x != weights or bias not in ((out,), (1,)):
        raise GraphError(
            f"{x} channels meet weights for {weights}; the bias of shape {bias} is for {out} output channels"
        )


def _sums(x: Type) -> str:
    return DType.of(x.dtype).accumulator


def _conv(kernel_axis: int, in_axis: int, channels: Callable[[Shape], int]) -> Infer:
    """Returns the inference of a convolution.

    kernel_axis: the axis of the weights for the kernel's height; that for its width follows.
    in_axis: the axis of the weights for the input's channels.
    channels: returns the number of output channels for the shape of the weights.
    """

    def infer(attrs: Attributes, xs: Sequence[Type]) -> Type:
        (n, h, w, c), k = xs[0].shape, xs[1].shape
        _channels(c, k[in_axis], xs[2].shape, channels(k))
        top, bottom, left, right = attrs["pad"]
        (sy, sx), (dy, dx) = attrs["stride"], attrs["dilation"]
        height = _window(h, top, bottom, k[kernel_axis], sy, dy)
        width = _window(w, left, right, k[kernel_axis + 1], sx, dx)
        return Type((n, height, width, channels(k)), _sums(xs[0]))

    return infer


def _transpose_conv(attrs: Attributes, xs: Sequence[Type]) -> Type:
    (n, h, w, c), (oc, kh, kw, ic) = xs[0].shape, xs[1].shape
    _channels(c, ic, xs[2].shape, oc)
    top, bottom, left, right = attrs["out_pad"]
    sy, sx = attrs["stride"]
    if min(sy, sx) < 1:
        raise GraphError(f"strides {sy}, {sx} below 1")
    return Type((n, (h - 1) * sy + top + bottom + kh, (w - 1) * sx + left + right + kw, oc), _sums(xs[0]))


def _matmul(attrs: Attributes, xs: Sequence[Type]) -> Type:
    (n, h, c), (m, d, w) = xs[0].shape, xs[1].shape
    if (n, c) != (m, d):
        raise GraphError(f"cannot multiply {xs[0].shape} by {xs[1].shape}")
    return Type((n, h, w), _sums(xs[0]))


def _matmul_rows(attrs: Attributes, xs: Sequence[Type]) -> Type:
    (n, rows, c), (m, columns, d) = xs[0].shape, xs[1].shape
    if (n, c) != (m, d):
        raise GraphError(f"cannot multiply {xs[0].shape} by the transpose of {xs[1].shape}")
    return Type((rows, n, columns), attrs["dtype"])


def _pool(attrs: Attributes, xs: Sequence[Type]) -> Type:
    if DType.of(xs[0].dtype).kind == "boolean":
        raise GraphError("a pooling of BOOL: use REDUCE_ANY or REDUCE_ALL")
    n, h, w, c = xs[0].shape
    top, bottom, left, right = attrs["pad"]
    (ky, kx), (sy, sx) = attrs["kernel"], attrs["stride"]
    return Type((n, _window(h, top, bottom, ky, sy), _window(w, left, right, kx, sx), c), xs[0].dtype)


# ---- semantics ----------------------------------------------------------------------------------


def _taps(
    x: Array, attrs: Attributes, kernel: Sequence[int], out: Shape, fill: float
) -> Iterator[tuple[int, int, Array]]:
    """Yields (ky, kx, the elements of the padded input under that kernel tap), NHWC."""
    (ky, kx), (_, oh, ow, _) = kernel, out
    top, bottom, left, right = attrs["pad"]
    (sy, sx), (dy, dx) = attrs["stride"], attrs.get("dilation", (1, 1))
    xp = np.pad(x, ((0, 0), (top, max(bottom, 0)), (left, max(right, 0)), (0, 0)), constant_values=fill)
    for i in range(ky):
        for j in range(kx):
            yield i, j, xp[:, i * dy : i * dy + (oh - 1) * sy + 1 : sy, j * dx : j * dx + (ow - 1) * sx + 1 : sx]


def _factors(attrs: Attributes, xs: Sequence[Array]) -> tuple[Array, Array]:
    """Returns both operands less their zero points, in float64.

    Numpy multiplies floats many times as fast as integers; they are exact to 2**53, accumulators have at most 48 bits.
    """
    return xs[0].astype(np.float64) - attrs["in_zp"][0], xs[1].astype(np.float64) - attrs["w_zp"][0]


def _conv2d(attrs: Attributes, xs: Sequence[Array], t: Type) -> Array:
    data, w = _factors(attrs, xs)
    out = np.zeros(t.shape) + xs[2]
    for i, j, view in _taps(data, attrs, w.shape[1:3], t.shape, 0):
        out += view @ w[:, i, j].T
    return wide(out)


def _depthwise_conv2d(attrs: Attributes, xs: Sequence[Array], t: Type) -> Array:
    data, w = _factors(attrs, xs)
    out = np.zeros(t.shape) + xs[2]
    for i, j, view in _taps(data, attrs, w.shape[:2], t.shape, 0):
        out += (view[..., None] * w[i, j]).reshape(t.shape)
    return wide(out)


def _transpose_conv2d(attrs: Attributes, xs: Sequence[Array], t: Type) -> Array:
    data, w = _factors(attrs, xs)
    (n, h, wide_, _), (oc, kh, kw, _) = data.shape, w.shape
    (sy, sx), (top, _, left, _) = attrs["stride"], attrs["out_pad"]
    oy, ox = max(-top, 0), max(-left, 0)
    height = max(t.shape[1], (h - 1) * sy + kh + max(top, 0)) + kh + oy
    width = max(t.shape[2], (wide_ - 1) * sx + kw + max(left, 0)) + kw + ox
    out = np.zeros((n, height, width, oc))
    for i in range(kh):
        for j in range(kw):
            y0, x0 = i + top + oy, j + left + ox
            out[:, y0 : y0 + (h - 1) * sy + 1 : sy, x0 : x0 + (wide_ - 1) * sx + 1 : sx] += data @ w[:, i, j].T
    return wide(out[:, oy : oy + t.shape[1], ox : ox + t.shape[2]] + xs[2])


def _product(attrs: Attributes, xs: Sequence[Array], t: Type) -> Array:
    lhs, rhs = _factors(attrs, xs)
    return wide(lhs @ rhs)


def _product_by_rows(attrs: Attributes, xs: Sequence[Array], t: Type) -> Array:
    """Returns MATMUL and RESCALE in one, of the right operand's transpose, with the rows outermost."""
    sums = _product(attrs, (xs[0], xs[1].swapaxes(1, 2)), t).swapaxes(0, 1)
    return rescale({**attrs, "in_zp": (0,)}, (sums,), t)


def _max_pool2d(attrs: Attributes, xs: Sequence[Array], t: Type) -> Array:
    fill = -np.inf if xs[0].dtype.kind == "f" else np.iinfo(xs[0].dtype).min
    taps = [view for _, _, view in _taps(xs[0], attrs, attrs["kernel"], t.shape, fill)]
    largest: Array = np.max(np.stack(taps), axis=0)
    return largest


def reciprocal(count: Array) -> tuple[Array, Array]:
    """Returns multipliers and shifts that divide by counts (TOSA 1.0, reciprocal_scale)."""
    k = np.where(count > 1, wide(np.ceil(np.log2(np.maximum(count, 1)))), 0)
    return (((1 << 30) + 1) << k) // count, 30 + k


def _total_and_count(x: Array, attrs: Attributes, t: Type) -> tuple[Array, Array]:
    """Returns the sum of each window's elements, and their number."""
    total, count = (
        np.sum([view for _, _, view in _taps(y, attrs, attrs["kernel"], t.shape, 0)], axis=0)
        for y in (x, np.ones(x.shape, np.int64))
    )
    return total, count


def _avg_pool2d(attrs: Attributes, xs: Sequence[Array], t: Type) -> Array:
    total, count = _total_and_count(wide(xs[0]) - attrs["in_zp"][0], attrs, t)
    multiplier, shift = reciprocal(count)
    result = (total * multiplier + (np.int64(1) << (shift - 1))) >> shift
    return np.asarray(np.clip(result + attrs["out_zp"][0], *DType.of(t.dtype).limits))


_mac(
    "conv2d",
    3,
    _conv(1, -1, lambda k: k[0]),
    _conv2d,
    shown=("stride",),
    folded=_PRODUCT_ZERO_POINTS,
    overflows=always,
    macs=lambda xs, t: t.elements * prod(xs[1].shape[1:]),
    roles="nHWc,oKLc,o->nHWo",
)
_mac(
    "depthwise_conv2d",
    3,
    _conv(0, 2, lambda k: k[2] * k[3]),
    _depthwise_conv2d,
    shown=("stride",),
    folded=_PRODUCT_ZERO_POINTS,
    overflows=always,
    macs=lambda xs, t: t.elements * prod(xs[1].shape[:2]),
    roles="nHWc,KLc1,c->nHWc",
)
_mac(
    "transpose_conv2d",
    3,
    _transpose_conv,
    _transpose_conv2d,
    folded=_PRODUCT_ZERO_POINTS,
    overflows=always,
    macs=lambda xs, t: xs[0].elements * prod(xs[1].shape[:3]),
    roles="nHWc,oKLc,o->nHWo",
)
_mac(
    "matmul",
    2,
    _matmul,
    _product,
    folded=_PRODUCT_ZERO_POINTS,
    overflows=always,
    macs=lambda xs, t: t.elements * xs[0].shape[-1],
    roles="nhc,ncw->nhw",
)
_mac(
    "matmul_rows",
    2,
    _matmul_rows,
    _product_by_rows,
    shown=("step",),
    tosa=False,
    macs=lambda xs, t: t.elements * xs[0].shape[-1],
)
_mac("max_pool2d", 1, _pool, _max_pool2d, shown=("kernel",), roles="nHWc->nHWc")
_mac(
    "avg_pool2d",
    1,
    _pool,
    _avg_pool2d,
    shown=("kernel",),
    folded=ZERO_POINTS,
    running=lambda attrs, xs, t: _total_and_count(wide(xs[0]) - attrs["in_zp"][0], attrs, t)[0],
    roles="nHWc->nHWc",
)


def _along(function: Callable[..., Any]) -> Evaluate:
    return lambda attrs, xs, t: np.asarray(function(xs[0], attrs["axis"], keepdims=True))


_reducing = partial(define, "axial", operands=1, shown=("axis",), along=ALONG_AXIS)
_FLOATS = NotModelled("is defined for floats only, which the reference model computes")

_reducing(
    "reduce_sum",
    infer=infer_reduced,
    integer=lambda attrs, xs, t: np.asarray(np.sum(wide(xs[0]), attrs["axis"], keepdims=True)),
    overflows=always,
    running=lambda attrs, xs, t: np.asarray(np.cumsum(wide(xs[0]), attrs["axis"])),
)
for _name, _function in (("max", np.max), ("min", np.min), ("any", np.any), ("all", np.all)):
    _reducing(f"reduce_{_name}", infer=infer_reduced, integer=_along(_function))
_reducing("reduce_product", infer=infer_reduced, integer=_FLOATS)


def _argmax(attrs: Attributes, xs: Sequence[Type]) -> Type:
    axis = axis_of(attrs, len(xs[0].shape))
    return Type(xs[0].shape[:axis] + xs[0].shape[axis + 1 :], "INT32")


_reducing("argmax", infer=_argmax, integer=lambda attrs, xs, t: np.asarray(np.argmax(xs[0], attrs["axis"])))
