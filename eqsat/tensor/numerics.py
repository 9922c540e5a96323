"""Integer semantics of the TOSA operators in numpy, bit for bit.

Each function takes (attributes, operand arrays, result type) and returns the value; `eqsat.tensor.ops.OPS` refers to
them and casts the result to its storage dtype. Wide intermediates are int64.

Source: TOSA specification 1.0, pseudo-code of each operator; checked against the reference model in the tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eqsat.tensor.dtypes import DType

A = Mapping[str, Any]
X = Sequence[np.ndarray]

SINGLE_ROUND, INEXACT_ROUND, DOUBLE_ROUND = 1, 2, 3  # tosa.RoundingMode


def _wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.int64)


def identity(a: A, x: X, t) -> np.ndarray:
    return x[0]


def transpose(a: A, x: X, t) -> np.ndarray:
    return x[0].transpose(a["perms"])


def reshape(a: A, x: X, t) -> np.ndarray:
    return x[0].reshape(a["shape"])


def _clz(a: A, x: X, t) -> np.ndarray:
    unsigned = x[0].astype(np.int64) & 0xFFFFFFFF
    return 32 - np.ceil(np.log2(unsigned.astype(np.float64) + 1)).astype(np.int64)


UNARY = {
    "abs": lambda a, x, t: np.abs(_wide(x[0])),
    "bitwise_not": lambda a, x, t: ~x[0],
    "logical_not": lambda a, x, t: ~x[0],
    "clz": _clz,
}


def negate(a: A, x: X, t) -> np.ndarray:
    lo, hi = DType.of(t.dtype).limits
    return np.clip(a["out_zp"][0] - (_wide(x[0]) - a["in_zp"][0]), lo, hi)


def clamp(a: A, x: X, t) -> np.ndarray:
    return np.clip(x[0], *(DType.of(t.dtype).from_bytes(a[k]) for k in ("min_val", "max_val")))


def table(a: A, x: X, t) -> np.ndarray:
    entries = np.asarray(a["table"], np.int64)
    value = _wide(x[0]) - np.iinfo(x[0].dtype).min
    if len(entries) == 1 << 8 * x[0].itemsize:
        return entries[value]
    # int16: 513 entries, 7 bits of interpolation
    index, fraction = value >> 7, value & 0x7F
    base, following = entries[index], entries[index + 1]
    return (base << 7) + (following - base) * fraction


def cast(a: A, x: X, t) -> np.ndarray:
    if t.dtype == "BOOL":
        return x[0] != 0
    return x[0]


def rescale(a: A, x: X, t) -> np.ndarray:
    value = _wide(x[0])
    if a["input_unsigned"]:
        value &= (1 << (8 * x[0].dtype.itemsize)) - 1
    in_zp, out_zp = a["in_zp"][0], a["out_zp"][0]
    if a["input_unsigned"] and in_zp < 0:
        in_zp += 1 << (8 * x[0].dtype.itemsize)
    if a["output_unsigned"] and out_zp < 0:
        out_zp += 1 << DType.of(t.dtype).bits
    value = value - in_zp
    multiplier = np.asarray(a["multiplier"], np.int64)
    shift = np.asarray(a["shift"], np.int64)
    rounding = np.left_shift(np.int64(1), shift - 1)
    if a["rounding_mode"] == DOUBLE_ROUND and a["scale32"]:
        rounding = rounding + np.where(shift > 31, np.where(value >= 0, 1 << 30, -(1 << 30)), 0)
    result = ((value * multiplier + rounding) >> shift) + out_zp
    if a["output_unsigned"]:
        bits = DType.of(t.dtype).bits
        result = np.clip(result, 0, (1 << bits) - 1)
        return np.where(result >= 1 << (bits - 1), result - (1 << bits), result)
    lo, hi = DType.of(t.dtype).limits
    return np.clip(result, lo, hi)


def _shift_right(a: A, x: X, t) -> np.ndarray:
    value, amount = _wide(x[0]), _wide(x[1])
    result = value >> amount
    if a["round"]:
        result = result + np.where((amount > 0) & (((value >> np.maximum(amount - 1, 0)) & 1) != 0), 1, 0)
    return result


def _unsigned(x: np.ndarray) -> np.ndarray:
    return x.view(np.dtype(f"u{x.dtype.itemsize}")).astype(np.int64)


def _intdiv(a: A, x: X, t) -> np.ndarray:
    n, d = _wide(x[0]), _wide(x[1])
    return np.sign(n) * np.sign(d) * (np.abs(n) // np.maximum(np.abs(d), 1))


BINARY = {
    "add": lambda a, x, t: _wide(x[0]) + _wide(x[1]),
    "sub": lambda a, x, t: _wide(x[0]) - _wide(x[1]),
    "maximum": lambda a, x, t: np.maximum(*x),
    "minimum": lambda a, x, t: np.minimum(*x),
    "bitwise_and": lambda a, x, t: x[0] & x[1],
    "bitwise_or": lambda a, x, t: x[0] | x[1],
    "bitwise_xor": lambda a, x, t: x[0] ^ x[1],
    "logical_and": lambda a, x, t: x[0] & x[1],
    "logical_or": lambda a, x, t: x[0] | x[1],
    "logical_xor": lambda a, x, t: x[0] ^ x[1],
    "arithmetic_right_shift": _shift_right,
    "logical_left_shift": lambda a, x, t: _wide(x[0]) << _wide(x[1]),
    "logical_right_shift": lambda a, x, t: _unsigned(x[0]) >> _wide(x[1]),
    "intdiv": _intdiv,
    "equal": lambda a, x, t: np.equal(*x),
    "greater": lambda a, x, t: np.greater(*x),
    "greater_equal": lambda a, x, t: np.greater_equal(*x),
}


def mul(a: A, x: X, t) -> np.ndarray:
    shift = a["shift"][0]
    product = _wide(x[0]) * _wide(x[1])
    return (product + (1 << (shift - 1))) >> shift if shift else product


def select(a: A, x: X, t) -> np.ndarray:
    return np.where(*x)


def concat(a: A, x: X, t) -> np.ndarray:
    return np.concatenate(x, axis=a["axis"])


def slice_(a: A, x: X, t) -> np.ndarray:
    return x[0][tuple(slice(s, s + n) for s, n in zip(a["start"], a["size"], strict=True))]


def pad(a: A, x: X, t) -> np.ndarray:
    p = a["pads"]
    return np.pad(x[0], [(p[2 * i], p[2 * i + 1]) for i in range(x[0].ndim)], constant_values=a["value"][0])


def tile(a: A, x: X, t) -> np.ndarray:
    return np.tile(x[0], a["multiples"])


def reverse(a: A, x: X, t) -> np.ndarray:
    return np.flip(x[0], a["axis"])


REDUCE = {
    "reduce_sum": lambda a, x, t: _wide(x[0]).sum(a["axis"], keepdims=True),
    "reduce_max": lambda a, x, t: x[0].max(a["axis"], keepdims=True),
    "reduce_min": lambda a, x, t: x[0].min(a["axis"], keepdims=True),
    "reduce_any": lambda a, x, t: x[0].any(a["axis"], keepdims=True),
    "reduce_all": lambda a, x, t: x[0].all(a["axis"], keepdims=True),
}


def argmax(a: A, x: X, t) -> np.ndarray:
    return x[0].argmax(a["axis"])


def _taps(x: np.ndarray, a: A, kernel: tuple[int, int], out: tuple[int, ...], fill: int):
    """(ky, kx, view of the padded input under that kernel tap), NHWC."""
    (ky, kx), (_, oh, ow, _) = kernel, out
    top, bottom, left, right = a["pad"]
    (sy, sx), (dy, dx) = a["stride"], a.get("dilation", (1, 1))
    xp = np.pad(x, ((0, 0), (top, max(bottom, 0)), (left, max(right, 0)), (0, 0)), constant_values=fill)
    for i in range(ky):
        for j in range(kx):
            yield i, j, xp[:, i * dy : i * dy + (oh - 1) * sy + 1 : sy, j * dx : j * dx + (ow - 1) * sx + 1 : sx]


def _operands(a: A, x: X) -> tuple[np.ndarray, np.ndarray]:
    """In float64: numpy multiplies those many times as fast, and they are exact up to 2**53, accumulators have 48 bits at most."""
    return x[0].astype(np.float64) - a["in_zp"][0], x[1].astype(np.float64) - a["w_zp"][0]


def conv2d(a: A, x: X, t) -> np.ndarray:
    data, w = _operands(a, x)
    out = np.zeros(t.shape) + x[2]
    for i, j, view in _taps(data, a, w.shape[1:3], t.shape, 0):
        out += view @ w[:, i, j].T
    return _wide(out)


def depthwise_conv2d(a: A, x: X, t) -> np.ndarray:
    data, w = _operands(a, x)  # w: [KH, KW, C, M]
    out = np.zeros(t.shape) + x[2]
    for i, j, view in _taps(data, a, w.shape[:2], t.shape, 0):
        out += (view[..., None] * w[i, j]).reshape(t.shape)
    return _wide(out)


def transpose_conv2d(a: A, x: X, t) -> np.ndarray:
    data, w = _operands(a, x)  # w: [OC, KH, KW, IC]
    (n, h, wd, _), (oc, kh, kw, _) = data.shape, w.shape
    (sy, sx), (top, _, left, _) = a["stride"], a["out_pad"]
    full = np.zeros(
        (
            n,
            max(t.shape[1], (h - 1) * sy + kh + max(top, 0)) + kh,
            max(t.shape[2], (wd - 1) * sx + kw + max(left, 0)) + kw,
            oc,
        )
    )
    oy, ox = max(-top, 0), max(-left, 0)
    big = np.zeros((n, full.shape[1] + oy, full.shape[2] + ox, oc))
    for i in range(kh):
        for j in range(kw):
            y0, x0 = i + top + oy, j + left + ox
            big[:, y0 : y0 + (h - 1) * sy + 1 : sy, x0 : x0 + (wd - 1) * sx + 1 : sx] += data @ w[:, i, j].T
    return _wide(big[:, oy : oy + t.shape[1], ox : ox + t.shape[2]] + x[2])


def matmul(a: A, x: X, t) -> np.ndarray:
    lhs, rhs = _operands(a, x)
    return _wide(lhs @ rhs)


def max_pool2d(a: A, x: X, t) -> np.ndarray:
    fill = np.iinfo(x[0].dtype).min
    return np.max(np.stack([v for _, _, v in _taps(x[0], a, a["kernel"], t.shape, fill)]), axis=0)


def avg_pool2d(a: A, x: X, t) -> np.ndarray:
    data = _wide(x[0]) - a["in_zp"][0]
    ones = np.ones(data.shape, np.int64)
    total = sum(v for _, _, v in _taps(data, a, a["kernel"], t.shape, 0))
    count = sum(v for _, _, v in _taps(ones, a, a["kernel"], t.shape, 0))
    # reciprocal_scale(count): k = 32 - clz(count - 1); multiplier = ((1 << 30) + 1) << k / count; shift = 30 + k
    k = np.where(count > 1, np.ceil(np.log2(np.maximum(count, 1))).astype(np.int64), 0)
    multiplier = (((1 << 30) + 1) << k) // count
    shift = 30 + k
    result = (total * multiplier + (np.int64(1) << (shift - 1))) >> shift
    lo, hi = DType.of(t.dtype).limits
    return np.clip(result + a["out_zp"][0], lo, hi)
