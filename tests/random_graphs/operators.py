"""Blocks of operators that compute: elementwise ones, reductions, products, and those with positions."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from eqsat.tensor import makers
from eqsat.tensor.dtypes import DType
from eqsat.tensor.ops.indexing import BILINEAR, NEAREST
from tests.random_graphs.builder import BOTH, Builder, Unfit, block
from tests.random_graphs.movement import part, shuffle
from tests.term import Term


def _partner(b: Builder, x: Term) -> Term:
    """Returns a second operand for x.

    It is a value of its shape, one that broadcasts, a constant, or x itself.
    """
    shape, rank = x.shape, len(x.shape)
    alike = [v for v in b.values if v.dtype == x.dtype and len(v.shape) == rank]
    broadcast = [v for v in alike if all(m in (1, n) for m, n in zip(v.shape, shape, strict=True))]
    kind = b.between(0, 9)
    if kind <= 3 and broadcast:
        return b.of(*broadcast)
    if kind == 4:
        return x
    if kind == 5:
        return b.unary(x)
    axis = b.between(0, rank - 1)
    row = [n if d == axis else 1 for d, n in enumerate(shape)]
    return b.const(b.of((1,) * rank, (1,) * rank, row, shape), x.dtype, -100, 100)


@block(4)
def unary(b: Builder, x: Term) -> list[Term]:
    return [b.unary(x)]


@block(1, BOTH)
def chain(b: Builder, x: Term) -> list[Term]:
    """Adds several pointwise operators of one value, or its product with itself after them.

    A hard-swish is such a product: x * clamp(x + 3).
    """
    y = b.unary(b.unary(x))
    return [b.narrow(b.widen(x) * b.widen(y), 8, x.dtype) if b.chance(0.5) else y]


@block(4, BOTH)
def arithmetic(b: Builder, x: Term) -> list[Term]:
    """Adds RESCALEs to INT32, an operator of two operands, and a RESCALE back."""
    op = b.of("add", "add", "sub", "mul", "mul", "maximum", "minimum")
    up = 0 if op == "mul" else b.of(0, 0, 4, 10) if x.dtype == "INT16" else b.of(0, 0, 10, 20)
    operands = [b.widen(x, up), b.widen(_partner(b, x), up)]
    if b.chance(0.5):
        operands.reverse()
    attrs = {"mul": makers.mul(), "maximum": makers.extremum(), "minimum": makers.extremum()}.get(op, ())
    down = up if op != "mul" else 16 if x.dtype == "INT16" else 7
    return [b.narrow(operands[0].made(op, attrs, operands[1]), down, x.dtype)]


@block(0.6, BOTH)
def scaled(b: Builder, x: Term) -> list[Term]:
    """Adds a product with a constant, and perhaps a sum, which one table could replace."""
    rank = len(x.shape)
    shape = b.of((1,) * rank, (*(1,) * (rank - 1), x.shape[-1]))
    factor = b.const(shape, "INT32", -100, 100)
    if b.chance(0.3):
        factor = factor - b.const(shape, "INT32", -9, 9)
    operands = [b.widen(x), factor]
    if b.chance(0.5):
        operands.reverse()
    y = operands[0] * operands[1]
    if b.chance(0.5):
        y = b.const(shape, "INT32", -5000, 5000) + y
    return [b.narrow(y, 14 if x.dtype == "INT16" else 6, x.dtype)]


@block(0.6, BOTH)
def integers(b: Builder, x: Term) -> list[Term]:
    """Adds operators of INT32 that are rare in quantized networks."""
    wide, ones = b.widen(x), (1,) * len(x.shape)
    op = b.of("abs", "clz", "arithmetic_right_shift", "logical_right_shift", "logical_left_shift", "intdiv")
    if op in ("abs", "clz"):
        y = wide(op)
    elif op == "intdiv":
        y = wide(op, b.const(ones, "INT32", 1, 9))
    else:
        y = wide(op, b.const(ones, "INT32", 0, 5), **({"round": b.chance(0.5)} if op[0] == "a" else {}))
    return [b.narrow(y & b.const(ones, "INT32", 255, 255) if op == "logical_right_shift" else y, 1, x.dtype)]


@block(0.5, (*BOTH, "INT32"))
def bits(b: Builder, x: Term) -> list[Term]:
    alike = [v for v in b.values if (v.shape, v.dtype) == (x.shape, x.dtype)]
    other = b.of(*alike) if alike and b.chance(0.5) else b.const((1,) * len(x.shape), x.dtype)
    return [x(b.of("bitwise_and", "bitwise_or", "bitwise_xor"), other)]


@block(1, BOTH)
def choose(b: Builder, x: Term) -> list[Term]:
    """Adds a comparison and a SELECT by it. The mask may be combined, inverted, reduced, or kept."""
    y = _partner(b, x)
    op = b.of("equal", "greater", "greater_equal")
    mask = b.widen(x)(op, b.widen(y))
    if b.chance(0.4):
        masks = [v for v in b.values if (v.shape, v.dtype) == (mask.shape, "BOOL")]
        another = b.widen(y) > b.widen(b.unary(x))
        op = b.of("logical_and", "logical_or", "logical_xor")
        mask = b.of(*masks, another)(op, mask)
    if b.chance(0.3):
        mask = ~mask
    if b.chance(0.3):
        op = b.of("any", "all")
        mask = mask.reduce(op, b.between(0, len(x.shape) - 1))
    chosen = mask("select", *b.of((x, y), (y, x), (x, b.unary(x))))
    if b.chance(0.3) and max(chosen.shape) > 1:
        chosen = part(b, chosen)[0]
    return [chosen, mask] if b.chance(0.5) else [chosen]


@block(0.5)
def casts(b: Builder, x: Term) -> list[Term]:
    """Adds a CAST or RESCALE between dtypes; INT16 is sometimes the dtype of what follows."""
    if x.dtype == "BOOL":
        return [x.cast("INT8")]
    if x.dtype == "INT32":
        return [x.rescale("INT8")]
    if x.dtype == "INT16":
        return [x.rescale("INT8", shift=30 + 7, out_zp=b.zero("INT8"))]
    kind = b.of("INT16", "BOOL", "scaled")
    return [x.rescale("INT16", shift=24, in_zp=b.zero("INT8")) if kind == "scaled" else x.cast(kind)]


@block(0.8, BOTH)
def per_channel(b: Builder, x: Term) -> list[Term]:
    """Adds a RESCALE with a scale per channel, sometimes with equal ones."""
    n = x.shape[-1]
    b.want(n > 1)
    zp = b.zero(x.dtype)
    if b.chance(0.15):
        return [x.rescale(x.dtype, (1 << 30,) * n, (30,) * n, in_zp=zp, out_zp=zp)]
    if b.chance(0.2):
        x = shuffle(b, x)[0]
    multiplier, shift = [b.between(1 << 30, (1 << 31) - 1) for _ in range(n)], [b.of(30, 31) for _ in range(n)]
    return [x.rescale(x.dtype, multiplier, shift, in_zp=zp, out_zp=b.zero(x.dtype))]


# ---- reductions


@block(1.5, BOTH)
def total(b: Builder, x: Term) -> list[Term]:
    """Adds a REDUCE_SUM over one or two axes and a RESCALE, which may make it a mean."""
    y, count = b.widen(x, b.of(0, 4)), 1
    for axis in {b.between(0, len(x.shape) - 1) for _ in range(b.of(1, 1, 2))}:
        count *= y.shape[axis]
        y = y.reduce("sum", axis)
    return [b.narrow(y, 4 + count.bit_length() // 2, x.dtype)]


@block(1.5, BOTH)
def extremum(b: Builder, x: Term) -> list[Term]:
    return [x.reduce(b.of("max", "max", "min"), b.between(0, len(x.shape) - 1))]


@block(0.4, BOTH)
def most(b: Builder, x: Term) -> list[Term]:
    b.want(len(x.shape) > 1)
    return [x.argmax(b.between(0, len(x.shape) - 1))]


@block(0.8, ("INT8",))
def softmax(b: Builder, x: Term) -> list[Term]:
    """Adds a quantized softmax: x - max(x), a table, a sum, and a product with a table of the sum."""
    axis = len(x.shape) - 1
    top = x.reduce("max", axis)
    e = b.table(b.narrow(b.widen(x) - b.widen(top), 1))
    s = b.table(b.narrow(b.widen(e).reduce("sum", axis), 4))
    return [b.narrow(b.widen(e) * b.widen(s), 7)]


# ---- convolutions, products of matrices and pools

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


def _sums(b: Builder, y: Term, dtype: str) -> Term:
    """Adds what follows a convolution: a RESCALE per channel or tensor, perhaps an activation."""
    out = b.narrow(y, 9 if y.dtype == "INT32" else 8, dtype, y.shape[-1] if b.chance(0.6) else 1)
    return b.unary(out) if b.chance(0.3) else out


def _bias(b: Builder, channels: int, dtype: str) -> Term:
    return b.const((channels if b.chance(0.8) else 1,), DType.of(dtype).accumulator, -3000, 3000)


def _fitting(b: Builder, size: int, most: int, below: bool) -> tuple[int, int, int, int, int]:
    """Returns (kernel, stride, dilation, pad before, pad after) that fit `size` without a rest.

    below: whether pads must be smaller than the kernel; the dilation is 1 then. Raises Unfit.
    """
    for _ in range(20):
        kernel, stride, dilation = b.between(1, most), b.of(1, 1, 2), b.of(1, 1, 1, 2)
        dilation = 1 if below else dilation
        before, after = (b.of(0, (kernel - 1) // 2, kernel - 1) for _ in range(2))
        free = size - 1 + before + after - (kernel - 1) * dilation
        if free >= 0 and free % stride == 0:
            return kernel, stride, dilation, before, after
    raise Unfit


def _zero_points(b: Builder, dtype: str) -> dict[str, Any]:
    return {"in_zp": b.zero(dtype), "w_zp": 0 if b.chance(0.9) else b.zero(dtype)}


@block(5, BOTH)
def convolution(b: Builder, x: Term) -> list[Term]:
    """Adds a CONV2D or DEPTHWISE_CONV2D, in NHWC or between transposes from and to NCHW."""
    dtype, (into, back) = x.dtype, b.of(*_LAYOUTS)
    y, zps = b.four(x), _zero_points(b, dtype)
    y = y.transpose(*into) if into else y
    before = b.of("", "", "", "pad", "shuffle", "slice")
    if before == "pad":
        y = b.pad(y, (0, 0, *(b.between(0, 1) for _ in range(4)), 0, 0), zps["in_zp"])
    elif before == "shuffle":
        y = shuffle(b, y)[0]
    elif before == "slice" and y.shape[3] > 1:
        y = y.part(b.of(0, 1), y.shape[3] - 1, 3)
    n, h, w, c = y.shape
    wide = 1 if b.chance(0.5) and before != "pad" else 3
    (ky, sy, dy, top, bottom), (kx, sx, dx, left, right) = (_fitting(b, n, wide, False) for n in (h, w))
    deep, m = b.chance(0.3), b.of(4, 6, 8, b.between(1, 8))
    m = b.of(1, 1, 2) if deep else m
    weights, out = ((ky, kx, c, m), c * m) if deep else ((m, ky, kx, c), m)
    b.want(prod(weights) <= _MOST_WEIGHTS and n * h * w * out <= 2 * b.largest)
    operands = b.const(weights), _bias(b, out, dtype)
    attrs = makers.conv(dtype, pad=(top, bottom, left, right), stride=(sy, sx), dilation=(dy, dx), **zps)
    result = _sums(b, y.made("depthwise_conv2d" if deep else "conv2d", attrs, *operands), dtype)
    if b.chance(0.25) and out % 2 == 0 and out > 2:
        result = shuffle(b, result)[0]
    return [result.transpose(*back)] if back and b.chance(0.8) else [result]


@block(0.7, ("INT8",))
def siblings(b: Builder, x: Term) -> list[Term]:
    """Adds two convolutions over one input, concatenated along the channels."""
    y = b.four(x)
    b.want(y.shape[3] <= 64)
    attrs, out = makers.conv("INT8", in_zp=b.zero("INT8")), []
    scales, zero = b.chance(0.5), b.zero("INT8")
    for m in (b.of(2, 4), b.of(2, 4)):
        sums = y.made("conv2d", attrs, b.const((m, 1, 1, y.shape[3])), b.const((m,), "INT32", -900, 900))
        count = m if scales else 1
        out.append(sums.rescale("INT8", (1 << 30,) * count, (39,) * count, out_zp=zero, per_channel=count > 1))
    return [b.concat(3, *out)]


@block(0.3, BOTH)
def twins(b: Builder, x: Term) -> list[Term]:
    """Adds one convolution computed twice, for readers that scale it differently."""
    y = b.four(x)
    m = b.between(1, 4)
    operands, attrs = (b.const((m, 1, 1, y.shape[3])), _bias(b, m, x.dtype)), _zero_points(b, x.dtype)
    sums = [y.made("conv2d", makers.conv(x.dtype, **attrs), *operands) for _ in range(2)]
    return [_sums(b, s, x.dtype) for s in sums]


@block(0.7, BOTH)
def upsampling(b: Builder, x: Term) -> list[Term]:
    """Adds a TRANSPOSE_CONV2D."""
    y = b.four(x)
    n, h, w, c = y.shape
    (ky, sy), (kx, sx) = ((b.between(1, 3), b.between(1, 2)) for _ in range(2))
    m, pads = b.between(1, 6), [b.between(1 - k, 1) if b.chance(0.3) else 0 for k in (ky, ky, kx, kx)]
    if b.chance(0.4):  # windows that do not overlap
        ky = kx = sy = sx = 2
        pads = [0, 0, 0, 0]
    oh, ow = (h - 1) * sy + pads[0] + pads[1] + ky, (w - 1) * sx + pads[2] + pads[3] + kx
    b.want(oh > 0 and ow > 0 and n * oh * ow * m <= b.largest and m * ky * kx * c <= _MOST_WEIGHTS)
    operands = b.const((m, ky, kx, c)), _bias(b, m, x.dtype)
    attrs = makers.transpose_conv(x.dtype, out_pad=pads, stride=(sy, sx), **_zero_points(b, x.dtype))
    return [_sums(b, y.made("transpose_conv2d", attrs, *operands), x.dtype)]


@block(0.7, ("INT8",))
def linear(b: Builder, x: Term) -> list[Term]:
    """Adds a linear layer after a flatten, as ExecuTorch writes it: a 1x1 CONV2D."""
    rows = b.of(1, x.shape[0])
    k, m = prod(x.shape) // rows, b.between(1, 5)
    b.want(k * m <= _MOST_WEIGHTS)
    operands = x.reshape(1, 1, rows, k), b.const((m, 1, 1, k)), _bias(b, m, "INT8")
    sums = operands[0].made("conv2d", makers.conv("INT8", **_zero_points(b, "INT8")), *operands[1:])
    return [_sums(b, sums, "INT8").reshape(rows, m)]


@block(2, BOTH)
def product(b: Builder, x: Term) -> list[Term]:
    """Adds a MATMUL with a constant, a value that fits, or x itself transposed."""
    y = b.three(x)
    n, h, c = y.shape
    if b.chance(0.4):
        columns = b.of(2, 4, b.between(1, 6))
        b.want(n * c * columns <= _MOST_WEIGHTS)
        other = b.const((n, c, columns), x.dtype, -100, 100)
    else:
        alike = [v for v in b.values if v.dtype == x.dtype and len(v.shape) == 3]
        other = b.of(*(v for v in alike if v.shape[0] == n and c in v.shape[1:]), y)
        if other.shape[1] != c or (other.shape[2] == c and b.chance(0.5)):
            other = other.transpose(0, 2, 1)
    b.want(n * h * other.shape[2] <= b.largest)
    if b.chance(0.15):
        y, other = other.transpose(0, 2, 1), y.transpose(0, 2, 1)
    return [b.narrow(y.made("matmul", makers.matmul(b.zero(x.dtype), b.zero(x.dtype)), other), 8, x.dtype)]


@block(1.5, BOTH)
def pool(b: Builder, x: Term) -> list[Term]:
    y = b.four(x)
    into, back = b.of(*_LAYOUTS)
    y = y.transpose(*into) if into else y
    _, h, w, _ = y.shape
    (ky, sy, _, top, bottom), (kx, sx, _, left, right) = (_fitting(b, n, 3, True) for n in (h, w))
    window = {"stride": (sy, sx), "pad": (top, bottom, left, right)}
    if b.chance(0.5):
        if b.chance(0.3):  # the same padding by a PAD
            y = b.pad(y, (0, 0, top, bottom, left, right, 0, 0), DType.of(x.dtype).limits[0])
            window["pad"] = (0, 0, 0, 0)
        result = y.largest(ky, kx, **window)
    else:
        zp = b.zero(x.dtype)
        result = y.average(ky, kx, in_zp=zp, out_zp=b.of(zp, b.zero(x.dtype)), **window)
    return [result.transpose(*back)] if back else [result]


# ---- GATHER, SCATTER and RESIZE


@block(0.2, BOTH)
def picked(b: Builder, x: Term) -> list[Term]:
    """Adds a GATHER of some rows, and often a SCATTER of other values into the same rows."""
    shape = x.shape
    b.want(len(shape) > 2)
    n, k, c = shape[0], prod(shape[1:-1]), shape[-1]
    rows = np.stack([b.rng.permutation(k)[: max(1, k // 2)] for _ in range(n)])
    values, indices = x.reshape(n, k, c), x.const(rows, "INT32")
    picked = values("gather", indices)
    return [values("scatter", indices, b.unary(picked)).reshape(*shape) if b.chance(0.5) else picked]


@block(0.2, ("INT8",), rank=4)
def larger(b: Builder, x: Term) -> list[Term]:
    """Adds a RESIZE by 2, nearest or bilinear."""
    b.want(4 * prod(x.shape) <= b.largest)
    if b.chance(0.5):
        return [x.resize(NEAREST, (2, 1, 2, 1), (0, 0), (1, 1))]
    return [b.narrow(x.resize(BILINEAR, (4, 2, 4, 2), (-1, -1), (1, 1)), 4)]
