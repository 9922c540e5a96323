"""Pointwise operators and RESCALE: each element of the result depends on one element of each operand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from eqsat.tensor.ops.op import (
    ZERO_POINTS,
    Along,
    Attributes,
    Infer,
    alike,
    always,
    broadcast,
    but_the_lowest,
    define,
    same,
    wide,
    with_dtype,
)
from eqsat.tensor.types import ANY, Allowed, Array, DType, GraphError, Shape, Type

_pointwise = partial(define, "pointwise")


def _infer_joined(dtype: str | None = None) -> Infer:
    """Returns the inference for operands of one dtype that broadcast; the result has `dtype` or, for None, theirs."""

    def infer(attrs: Attributes, xs: Sequence[Type]) -> Type:
        alike(xs)
        return Type(broadcast([x.shape for x in xs]), dtype or xs[0].dtype)

    return infer


# ---- one operand --------------------------------------------------------------------------------


def _clz(attrs: Attributes, xs: Sequence[Array], t: Type) -> Array:
    unsigned = wide(xs[0]) & 0xFFFFFFFF
    return 32 - wide(np.ceil(np.log2(unsigned.astype(np.float64) + 1)))


_pointwise("abs", 1, same, lambda attrs, xs, t: np.abs(wide(xs[0])), allowed=but_the_lowest)
_pointwise("bitwise_not", 1, same, lambda attrs, xs, t: ~xs[0])
_pointwise("clz", 1, same, _clz)
_pointwise("logical_not", 1, same, lambda attrs, xs, t: ~xs[0])


def _negate(attrs: Attributes, xs: Sequence[Array], t: Type) -> Array:
    return np.asarray(np.clip(attrs["out_zp"][0] - (wide(xs[0]) - attrs["in_zp"][0]), *DType.of(t.dtype).limits))


_pointwise("negate", 1, same, _negate, folded=ZERO_POINTS, allowed=but_the_lowest)


def _clamp(attrs: Attributes, xs: Sequence[Type]) -> Type:
    dtype = DType.of(xs[0].dtype)
    if dtype.is_integral and dtype.from_bytes(attrs["min_val"]) > dtype.from_bytes(attrs["max_val"]):
        raise GraphError("the lowest value is above the highest one")
    return xs[0]


def _evaluate_clamp(attrs: Attributes, xs: Sequence[Array], t: Type) -> Array:
    low, high = (DType.of(t.dtype).from_bytes(attrs[k]) for k in ("min_val", "max_val"))
    return np.asarray(np.clip(xs[0], low, high))


def _clamp_text(attrs: Attributes) -> str:
    low, high = (int.from_bytes(attrs[k], "little", signed=True) for k in ("min_val", "max_val"))
    return f"clamp[{low}..{high}]"


_pointwise("clamp", 1, _clamp, _evaluate_clamp, shown=_clamp_text)


def _table(attrs: Attributes, xs: Sequence[Type]) -> Type:
    lookup = DType.of(xs[0].dtype).lookup
    if lookup is None:
        raise GraphError(f"no table takes {xs[0].dtype}")
    if len(attrs["table"]) != lookup.entries:
        raise GraphError(f"a table of {len(attrs['table'])} entries for {xs[0].dtype}, expected {lookup.entries}")
    return Type(xs[0].shape, lookup.result)


def _look_up(attrs: Attributes, xs: Sequence[Array], t: Type) -> Array:
    entries = np.asarray(attrs["table"], np.int64)
    value = wide(xs[0]) - np.iinfo(xs[0].dtype).min
    if len(entries) == 1 << 8 * xs[0].itemsize:
        return np.asarray(entries[value])
    # INT16 has 513 entries, between which 7 bits interpolate (TOSA 1.0, TABLE).
    index, fraction = value >> 7, value & 0x7F
    base, following = entries[index], entries[index + 1]
    return np.asarray((base << 7) + (following - base) * fraction)


def _gentle(attrs: Attributes, xs: Sequence[Type]) -> Mapping[int, Allowed]:
    """Allows INT16 values between entries whose difference INT16 holds (TOSA 1.0, TABLE)."""
    slopes, (least, most) = np.diff(np.asarray(attrs["table"], np.int64)), DType.of("INT16").limits
    steep = np.flatnonzero((slopes < least) | (slopes > most))
    if xs[0].dtype != "INT16" or not len(steep):
        return {}
    return {0: Allowed(never=tuple((least + 128 * steep[:, None] + np.arange(128)).reshape(-1).tolist()))}


_pointwise("table", 1, _table, _look_up, folded=(("table", "table"),), allowed=_gentle)


def _cast(attrs: Attributes, xs: Sequence[Array], t: Type) -> Array:
    return xs[0] != 0 if t.dtype == "BOOL" else xs[0]


_pointwise("cast", 1, with_dtype, _cast, shown=("dtype",), declared=True)


# ---- two and three operands ---------------------------------------------------------------------


def _shift_right(attrs: Attributes, xs: Sequence[Array], t: Type) -> Array:
    value, amount = wide(xs[0]), wide(xs[1])
    result = value >> amount
    if attrs["round"]:
        result = result + np.where((amount > 0) & (((value >> np.maximum(amount - 1, 0)) & 1) != 0), 1, 0)
    return result


def _as_unsigned(x: Array) -> Array:
    return wide(x.view(np.dtype(f"u{x.dtype.itemsize}")))


def _divide(attrs: Attributes, xs: Sequence[Array], t: Type) -> Array:
    n, d = wide(xs[0]), wide(xs[1])
    quotient: Array = np.sign(n) * np.sign(d) * (np.abs(n) // np.maximum(np.abs(d), 1))
    return quotient


_pointwise("add", 2, _infer_joined(), lambda attrs, xs, t: wide(xs[0]) + wide(xs[1]), overflows=always)
_pointwise("sub", 2, _infer_joined(), lambda attrs, xs, t: wide(xs[0]) - wide(xs[1]), overflows=always)


def _ufunc(name: str, function: np.ufunc, dtype: str | None = None) -> None:
    """Adds an operator that is a numpy function."""
    _pointwise(name, 2, _infer_joined(dtype), lambda attrs, xs, t: np.asarray(function(*xs)))


_ufunc("maximum", np.maximum)
_ufunc("minimum", np.minimum)
_ufunc("equal", np.equal, "BOOL")
_ufunc("greater", np.greater, "BOOL")
_ufunc("greater_equal", np.greater_equal, "BOOL")
for _name, _function in (("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)):
    _ufunc(f"bitwise_{_name}", _function)
    _ufunc(f"logical_{_name}", _function)


def _below_the_bits(attrs: Attributes, xs: Sequence[Type]) -> Mapping[int, Allowed]:
    """Allows amounts to shift by from 0 up to the bits of the dtype less one."""
    return {1: Allowed(0, DType.of(xs[0].dtype).bits - 1)}


_pointwise("arithmetic_right_shift", 2, _infer_joined(), _shift_right, allowed=_below_the_bits)
_pointwise(
    "logical_left_shift", 2, _infer_joined(), lambda attrs, xs, t: wide(xs[0]) << wide(xs[1]), allowed=_below_the_bits
)
_pointwise(
    "logical_right_shift",
    2,
    _infer_joined(),
    lambda attrs, xs, t: _as_unsigned(xs[0]) >> wide(xs[1]),
    allowed=_below_the_bits,
)
# The lowest value divided by -1 overflows.
_pointwise("intdiv", 2, _infer_joined(), _divide, allowed=lambda attrs, xs: {1: Allowed(never=(0,))}, overflows=always)


def _mul(attrs: Attributes, xs: Sequence[Type]) -> Type:
    alike(xs)
    integer, shift = DType.of(xs[0].dtype).kind == "integer", attrs["shift"][0]
    if not 0 <= shift <= (63 if xs[0].dtype == "INT32" else 0):
        raise GraphError(f"a shift of {shift} for products of {xs[0].dtype}: TOSA takes 0 to 63 for INT32, else 0")
    return Type(broadcast([x.shape for x in xs]), "INT32" if integer else xs[0].dtype)


def _multiply(attrs: Attributes, xs: Sequence[Array], t: Type) -> Array:
    shift = attrs["shift"][0]
    product: Array = wide(xs[0]) * wide(xs[1])
    if shift:  # halved first: the largest product and the rounding term of a shift of 63 do not fit in INT64
        half: Array = (product >> shift - 1) + 1
        product = half >> 1
    return product


_pointwise("mul", 2, _mul, _multiply, folded=(("shift", "INT8"),), overflows=lambda attrs: attrs["shift"][0] > 0)


def _select(attrs: Attributes, xs: Sequence[Type]) -> Type:
    alike(xs[1:])
    if xs[0].dtype != "BOOL":
        raise GraphError(f"the condition is {xs[0].dtype}, not BOOL")
    return Type(broadcast([x.shape for x in xs]), xs[1].dtype)


_pointwise("select", 3, _select, lambda attrs, xs, t: np.where(xs[0], xs[1], xs[2]), copies=True)


#: Values of RoundingMode in the TOSA schema.
SINGLE_ROUND, INEXACT_ROUND, DOUBLE_ROUND = 1, 2, 3


def _rescale(attrs: Attributes, xs: Sequence[Type]) -> Type:
    channels = xs[0].shape[-1] if attrs["per_channel"] else 1
    multipliers, shifts = attrs["multiplier"], attrs["shift"]
    if not len(multipliers) == len(shifts) == channels:
        raise GraphError(f"{len(multipliers)} multipliers and {len(shifts)} shifts for {channels} channels")
    if min(shifts) < 2 or max(shifts) > 62:
        raise GraphError(f"shifts from {min(shifts)} to {max(shifts)}: TOSA takes 2 to 62")
    most = (1 << (31 if attrs["scale32"] else 15)) - 1
    if min(multipliers) < 0 or max(multipliers) > most:
        raise GraphError(f"multipliers from {min(multipliers)} to {max(multipliers)}: TOSA takes 0 to {most}")
    if attrs["rounding_mode"] not in (SINGLE_ROUND, INEXACT_ROUND, DOUBLE_ROUND):
        raise GraphError(f"rounding mode {attrs['rounding_mode']}: TOSA has 1 to 3")
    if not attrs["scale32"] and attrs["rounding_mode"] == DOUBLE_ROUND:
        raise GraphError("double rounding takes multipliers of 32 bits")
    if attrs["scale32"] and xs[0].dtype == "INT48":
        raise GraphError("INT48 takes multipliers of 16 bits")
    if attrs["input_unsigned"] and attrs["output_unsigned"]:
        raise GraphError("unsigned values are rescaled to signed ones only")
    for side, dtype, is_unsigned in (("in", xs[0].dtype, "input_unsigned"), ("out", attrs["dtype"], "output_unsigned")):
        zero_point = attrs[f"{side}_zp"][0]
        if attrs[is_unsigned] and dtype not in ("INT8", "INT16"):
            raise GraphError(f"{is_unsigned} with {dtype}: TOSA takes INT8 and INT16")
        if zero_point and dtype != "INT8" and not (attrs[is_unsigned] and zero_point in (-(1 << 15), 1 << 15)):
            raise GraphError(f"{side}_zp {zero_point} of {dtype}: only INT8 and unsigned INT16 have zero points")
    return with_dtype(attrs, xs)


def _scales(attrs: Attributes) -> tuple[Array, Array]:
    """Returns multipliers and shifts: arrays per channel, or scalars, with which a tensor without axes stays one."""
    keep = slice(None) if attrs["per_channel"] else 0
    return np.asarray(attrs["multiplier"], np.int64)[keep], np.asarray(attrs["shift"], np.int64)[keep]


def _zero_points(attrs: Attributes, bits: int) -> tuple[int, int]:
    """Returns the zero points of an operand of so many bits and of the result; unsigned ones are stored as signed."""
    in_zp, out_zp = attrs["in_zp"][0], attrs["out_zp"][0]
    if attrs["input_unsigned"] and in_zp < 0:
        in_zp += 1 << bits
    if attrs["output_unsigned"] and out_zp < 0:
        out_zp += 1 << DType.of(attrs["dtype"]).bits
    return in_zp, out_zp


def _twice(attrs: Attributes, shift: Array | int) -> Array:
    """Returns what double rounding adds to positive values before they are shifted, and takes from negative ones."""
    is_double = attrs["rounding_mode"] == DOUBLE_ROUND and attrs["scale32"]
    return np.where(is_double and np.asarray(shift) > 31, 1 << 30, 0)


def rescale(attrs: Attributes, xs: Sequence[Array], t: Type) -> Array:
    """Returns the value of RESCALE on integers (TOSA 1.0). Raises GraphError for INEXACT_ROUND, which is left open."""
    if attrs["rounding_mode"] == INEXACT_ROUND:
        raise GraphError("rescale may round inexactly: TOSA leaves its results open; use the reference model")
    value, bits, dtype = wide(xs[0]), 8 * xs[0].dtype.itemsize, DType.of(t.dtype)
    in_zp, out_zp = _zero_points(attrs, bits)
    if attrs["input_unsigned"]:
        value &= (1 << bits) - 1
    value = value - in_zp
    multiplier, shift = _scales(attrs)
    rounding = np.left_shift(np.int64(1), shift - 1) + np.where(value >= 0, 1, -1) * _twice(attrs, shift)
    result: Array = ((value * multiplier + rounding) >> shift) + out_zp
    if attrs["output_unsigned"]:
        result = np.clip(result, 0, (1 << dtype.bits) - 1)
        return np.where(result >= 1 << (dtype.bits - 1), result - (1 << dtype.bits), result)
    return np.clip(result, *dtype.limits)


def _scalable(attrs: Attributes, xs: Sequence[Type]) -> Mapping[int, Allowed]:
    """Returns the values that TOSA allows: those of which INT32 holds the scaled value, with and without zero point.

    With a multiplier of 32 bits a value less its zero point is from -2**(shift - 1) up to 2**(shift - 1) - 1, too
    (TOSA 1.0, RESCALE, apply_scale_32 and apply_scale_16).
    The result is empty if these are all values of the dtype.
    """
    dtype = DType.of(xs[0].dtype)
    if not dtype.is_integral:
        return {}
    scales = list(zip(attrs["multiplier"], attrs["shift"], strict=True))
    known = {scale: _scalable_by(*scale, attrs, dtype) for scale in dict.fromkeys(scales)}
    return {0: Allowed.by_channel([known[scale] for scale in scales])} if set(known.values()) != {ANY} else {}


def _scalable_by(multiplier: int, shift: int, attrs: Attributes, dtype: DType) -> Allowed:
    """Returns the values that one scale allows."""
    in_zp, out_zp = _zero_points(attrs, dtype.bits)
    lowest, highest = (0, (1 << dtype.bits) - 1) if attrs["input_unsigned"] else dtype.limits
    low, high = lowest - in_zp, highest - in_zp
    if attrs["scale32"]:
        low, high = max(low, -(1 << shift - 1)), min(high, (1 << shift - 1) - 1)
    if multiplier:
        least, most = DType.of("INT32").limits
        least, most = least - min(out_zp, 0), most - max(out_zp, 0)
        half, twice = 1 << shift - 1, int(_twice(attrs, shift))
        low = max(low, -((half - twice - (least << shift)) // multiplier))
        high = min(high, ((most + 1 << shift) - half - twice - 1) // multiplier)
    low, high = low + in_zp, high + in_zp
    if (low, high) == (lowest, highest):
        return ANY
    if not attrs["input_unsigned"]:
        return Allowed(low, high)
    codes = np.arange(dtype.limits[0], dtype.limits[1] + 1)
    return Allowed(never=tuple(codes[(codes & highest < low) | (codes & highest > high)].tolist()))


def _axes(attrs: Attributes, shape: Shape) -> tuple[int, ...]:
    return (len(shape) - 1,) if attrs["per_channel"] else ()


define(
    "pointwise",
    "rescale",
    1,
    _rescale,
    rescale,
    shown=("dtype",),
    folded=(("multiplier", "scale"), ("shift", "INT8"), *ZERO_POINTS),
    declared=True,
    along=Along(_axes, lambda attrs, p: {}, following=("multiplier", "shift")),
    allowed=_scalable,
)
