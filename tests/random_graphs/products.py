"""Blocks of convolutions, matrix products and pools."""

from __future__ import annotations

from math import prod
from typing import Any

from eqsat.tensor import makers
from eqsat.tensor.dtypes import DType
from tests.random_graphs.builder import Builder, Unfit, block
from tests.random_graphs.moving import shuffle

#: (transpose before, transpose after) an operator on NHWC.
#: They are none, from and to NCHW, or swap height and width.
_LAYOUTS = (
    ((), ()),
    ((), ()),
    ((0, 2, 3, 1), (0, 3, 1, 2)),
    ((0, 2, 3, 1), (0, 3, 1, 2)),
    ((0, 2, 1, 3), (0, 2, 1, 3)),
)
#: Weights of an operator, at most.
_MOST_WEIGHTS = 1200


def _sums(b: Builder, y: int, dtype: str) -> int:
    """Adds what follows a convolution: a RESCALE per channel or tensor, perhaps an activation."""
    n = b.shape(y)[-1]
    out = b.narrow(y, 9 if b.dtype(y) == "INT32" else 8, dtype, n if b.chance(0.6) else 1)
    return b.unary(out) if b.chance(0.3) else out


def _bias(b: Builder, channels: int, dtype: str) -> int:
    return b.const((channels if b.chance(0.8) else 1,), DType.of(dtype).accumulator, -3000, 3000)


def _fitting(b: Builder, size: int, most: int, below: bool) -> tuple[int, int, int, int, int]:
    """Returns (kernel, stride, dilation, pad before, pad after) that fit `size` without a rest.

    below: whether pads must be smaller than the kernel; the dilation is 1 then. Raises Unfit.
    """
    for _ in range(20):
        kernel, stride, dilation = b.between(1, most), b.of(1, 1, 2), b.of(1, 1, 1, 2)
        if below:
            dilation = 1
        before, after = (b.of(0, (kernel - 1) // 2, kernel - 1) for _ in range(2))
        free = size - 1 + before + after - (kernel - 1) * dilation
        if free >= 0 and free % stride == 0:
            return kernel, stride, dilation, before, after
    raise Unfit


def _zero_points(b: Builder, dtype: str) -> dict[str, Any]:
    return {"in_zp": b.zero(dtype), "w_zp": 0 if b.chance(0.9) else b.zero(dtype)}


@block(5)
def convolution(b: Builder, x: int) -> list[int]:
    """Adds a CONV2D or DEPTHWISE_CONV2D, in NHWC or between transposes from and to NCHW."""
    b.want_activation(x)
    dtype, (into, back) = b.dtype(x), b.of(*_LAYOUTS)
    y, zps = b.four(x), _zero_points(b, dtype)
    if into:
        y = b.transpose(y, *into)
    before = b.of("", "", "", "pad", "shuffle", "slice")
    if before == "pad":
        y = b.pad(y, (0, 0, *(b.between(0, 1) for _ in range(4)), 0, 0), zps["in_zp"])
    elif before == "shuffle":
        y = shuffle(b, y)[0]
    elif before == "slice" and b.shape(y)[3] > 1:
        y = b.slice(y, 3, b.of(0, 1), b.shape(y)[3] - 1)
    _, h, w, c = b.shape(y)
    wide = 1 if b.chance(0.5) and before != "pad" else 3
    (ky, sy, dy, top, bottom), (kx, sx, dx, left, right) = (_fitting(b, n, wide, False) for n in (h, w))
    deep, m = b.chance(0.3), b.of(4, 6, 8, b.between(1, 8))
    if deep:
        m = b.of(1, 1, 2)
    weights, out = ((ky, kx, c, m), c * m) if deep else ((m, ky, kx, c), m)
    b.want(prod(weights) <= _MOST_WEIGHTS and b.shape(y)[0] * h * w * out <= 2 * b.largest)
    sums = b.make(
        "depthwise_conv2d" if deep else "conv2d",
        y,
        b.const(weights),
        _bias(b, out, dtype),
        attrs=makers.conv(dtype, pad=(top, bottom, left, right), stride=(sy, sx), dilation=(dy, dx), **zps),
    )
    result = _sums(b, sums, dtype)
    if b.chance(0.25) and out % 2 == 0 and out > 2:
        result = shuffle(b, result)[0]
    return [b.transpose(result, *back)] if back and b.chance(0.8) else [result]


@block(0.7)
def siblings(b: Builder, x: int) -> list[int]:
    """Adds two convolutions over one input, concatenated along the channels."""
    b.want(b.dtype(x) == "INT8")
    y = b.four(x)
    _n, _h, _w, c = b.shape(y)
    b.want(c <= 64)
    zp = b.zero("INT8")
    out = []
    scales, zero = b.chance(0.5), b.zero("INT8")
    for m in (b.of(2, 4), b.of(2, 4)):
        sums = b.make(
            "conv2d",
            y,
            b.const((m, 1, 1, c)),
            b.const((m,), "INT32", -900, 900),
            attrs=makers.conv("INT8", in_zp=zp),
        )
        count = m if scales else 1
        out.append(b.rescale(sums, "INT8", (1 << 30,) * count, (39,) * count, out_zp=zero))
    return [b.concat(3, *out)]


@block(0.3)
def twins(b: Builder, x: int) -> list[int]:
    """Adds one convolution computed twice, for readers that scale it differently."""
    b.want_activation(x)
    y = b.four(x)
    m, c = b.between(1, 4), b.shape(y)[3]
    weights, bias, zps = b.const((m, 1, 1, c)), _bias(b, m, b.dtype(x)), _zero_points(b, b.dtype(x))
    sums = [b.make("conv2d", y, weights, bias, attrs=makers.conv(b.dtype(x), **zps)) for _ in range(2)]
    return [_sums(b, s, b.dtype(x)) for s in sums]


@block(0.7)
def upsampling(b: Builder, x: int) -> list[int]:
    """Adds a TRANSPOSE_CONV2D."""
    b.want_activation(x)
    y = b.four(x)
    n, h, w, c = b.shape(y)
    (ky, sy), (kx, sx) = ((b.between(1, 3), b.between(1, 2)) for _ in range(2))
    m, pads = b.between(1, 6), [b.between(1 - k, 1) if b.chance(0.3) else 0 for k in (ky, ky, kx, kx)]
    if b.chance(0.4):  # windows that do not overlap
        ky = kx = sy = sx = 2
        pads = [0, 0, 0, 0]
    oh, ow = (h - 1) * sy + pads[0] + pads[1] + ky, (w - 1) * sx + pads[2] + pads[3] + kx
    b.want(oh > 0 and ow > 0 and n * oh * ow * m <= b.largest and m * ky * kx * c <= _MOST_WEIGHTS)
    sums = b.make(
        "transpose_conv2d",
        y,
        b.const((m, ky, kx, c)),
        _bias(b, m, b.dtype(x)),
        attrs=makers.transpose_conv(b.dtype(x), out_pad=pads, stride=(sy, sx), **_zero_points(b, b.dtype(x))),
    )
    return [_sums(b, sums, b.dtype(x))]


@block(0.7)
def linear(b: Builder, x: int) -> list[int]:
    """Adds a linear layer after a flatten, as ExecuTorch writes it: a 1x1 CONV2D."""
    b.want(b.dtype(x) == "INT8")
    rows = b.of(1, b.shape(x)[0])
    k, m = b.size(x) // rows, b.between(1, 5)
    b.want(k * m <= _MOST_WEIGHTS)
    sums = b.make(
        "conv2d",
        b.reshape(x, 1, 1, rows, k),
        b.const((m, 1, 1, k)),
        _bias(b, m, "INT8"),
        attrs=makers.conv("INT8", **_zero_points(b, "INT8")),
    )
    return [b.reshape(_sums(b, sums, "INT8"), rows, m)]


@block(2)
def product(b: Builder, x: int) -> list[int]:
    """Adds a MATMUL with a constant, a value that fits, or x itself transposed."""
    b.want_activation(x)
    y = b.three(x)
    n, h, c = b.shape(y)
    if b.chance(0.4):
        columns = b.of(2, 4, b.between(1, 6))
        b.want(n * c * columns <= _MOST_WEIGHTS)
        other = b.const((n, c, columns), b.dtype(x), -100, 100)
    else:
        fits = [
            v
            for v in b.values
            if b.dtype(v) == b.dtype(x) and len(b.shape(v)) == 3 and b.shape(v)[0] == n and c in b.shape(v)[1:]
        ]
        other = b.of(*fits, y)
        if b.shape(other)[1] != c or (b.shape(other)[2] == c and b.chance(0.5)):
            other = b.transpose(other, 0, 2, 1)
    b.want(n * h * b.shape(other)[2] <= b.largest)
    operands = (y, other)
    if b.chance(0.15):
        operands = (b.transpose(other, 0, 2, 1), b.transpose(y, 0, 2, 1))
    sums = b.make("matmul", *operands, attrs=makers.matmul(b.zero(b.dtype(x)), b.zero(b.dtype(x))))
    return [b.narrow(sums, 8, b.dtype(x))]


@block(1.5)
def pool(b: Builder, x: int) -> list[int]:
    b.want_activation(x)
    y = b.four(x)
    into, back = b.of(*_LAYOUTS)
    if into:
        y = b.transpose(y, *into)
    _, h, w, _ = b.shape(y)
    (ky, sy, _, top, bottom), (kx, sx, _, left, right) = (_fitting(b, n, 3, True) for n in (h, w))
    kernel, window = (ky, kx), {"stride": (sy, sx), "pad": (top, bottom, left, right)}
    if b.chance(0.5):
        if b.chance(0.3):  # the same padding by a PAD
            y = b.pad(y, (0, 0, top, bottom, left, right, 0, 0), DType.of(b.dtype(x)).limits[0])
            window["pad"] = (0, 0, 0, 0)
        result = b.make("max_pool2d", y, attrs=makers.max_pool(kernel, **window))
    else:
        zp = b.zero(b.dtype(x))
        out_zp = b.of(zp, b.zero(b.dtype(x)))
        result = b.make("avg_pool2d", y, attrs=makers.avg_pool(kernel, in_zp=zp, out_zp=out_zp, **window))
    return [b.transpose(result, *back)] if back else [result]
