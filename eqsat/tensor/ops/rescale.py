"""RESCALE: a product with a fixed-point scale, one or one per channel, rounded, between two zero points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from eqsat.tensor.allowed import ANY, Allowed
from eqsat.tensor.dtypes import DType
from eqsat.tensor.ops.op import ZERO_POINTS, Along, Attributes, define, wide, with_dtype
from eqsat.tensor.types import Array, GraphError, Shape, Type

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
    """Returns the value of RESCALE on integers (TOSA 1.0, RESCALE).

    Raises GraphError for inexact rounding, whose results TOSA leaves open.
    """
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
    Nothing is returned if the dtype has no other values.
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
