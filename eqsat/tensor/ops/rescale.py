"""RESCALE: a product with a fixed-point scale, rounded, between two zero points.

It has one scale, or one per index of the last axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from eqsat.tensor.allowed import Allowed
from eqsat.tensor.dtypes import DType
from eqsat.tensor.ops.op import ZERO_POINTS, Along, Attributes, AxisPlacement, record, wide, with_dtype
from eqsat.tensor.types import Array, GraphError, Type

#: Values of RoundingMode in the TOSA schema.
SINGLE_ROUND, INEXACT_ROUND, DOUBLE_ROUND = 1, 2, 3


def _rescale(attrs: Attributes, xs: Sequence[Type]) -> Type:
    channels = xs[0].shape[-1] if attrs["per_channel"] else 1
    multipliers, shifts = len(attrs["multiplier"]), len(attrs["shift"])
    if not multipliers == shifts == channels:
        raise GraphError(f"{multipliers} multipliers and {shifts} shifts for {channels} channels")
    return with_dtype(attrs, xs)


def _scales(attrs: Attributes, dtype: type) -> tuple[Array, Array]:
    """Returns multipliers and shifts: arrays per channel, or scalars, with which a tensor without axes stays one."""
    keep = slice(None) if attrs["per_channel"] else 0
    return np.asarray(attrs["multiplier"], dtype)[keep], np.asarray(attrs["shift"], dtype)[keep]


def rescaled(attrs: Attributes, xs: Sequence[Array], t: Type) -> Array:
    """Returns the value of RESCALE on integers (TOSA 1.0, RESCALE).

    Raises GraphError for inexact rounding, whose results TOSA leaves open.
    """
    if attrs["rounding_mode"] == INEXACT_ROUND:
        raise GraphError("rescale may round inexactly: TOSA leaves its results open; use the reference model")
    value, bits, dtype = wide(xs[0]), 8 * xs[0].dtype.itemsize, DType.of(t.dtype)
    in_zp, out_zp = attrs["in_zp"][0], attrs["out_zp"][0]
    if attrs["input_unsigned"]:
        value &= (1 << bits) - 1
        in_zp += (1 << bits) * (in_zp < 0)
    if attrs["output_unsigned"]:
        out_zp += (1 << dtype.bits) * (out_zp < 0)
    value = value - in_zp
    multiplier, shift = _scales(attrs, np.int64)
    rounding = np.left_shift(np.int64(1), shift - 1)
    if attrs["rounding_mode"] == DOUBLE_ROUND and attrs["scale32"]:
        rounding = rounding + np.where(shift > 31, np.where(value >= 0, 1 << 30, -(1 << 30)), 0)
    result: Array = ((value * multiplier + rounding) >> shift) + out_zp
    if attrs["output_unsigned"]:
        result = np.clip(result, 0, (1 << dtype.bits) - 1)
        return np.where(result >= 1 << (dtype.bits - 1), result - (1 << dtype.bits), result)
    return np.clip(result, *dtype.limits)


def _within_the_shift(attrs: Attributes, xs: Sequence[Type]) -> Mapping[int, Allowed]:
    """Returns the values that a multiplier of 32 bits allows.

    Less its zero point, a value is from -2**(shift - 1) up to 2**(shift - 1) - 1 (TOSA 1.0, apply_scale_32).
    Nothing is returned if the dtype has no other values.
    """
    dtype, zero = DType.of(xs[0].dtype), attrs["in_zp"][0]
    limit = 1 << min(attrs["shift"]) - 1
    if not attrs["scale32"] or attrs["input_unsigned"] or not dtype.is_integral:
        return {}
    low, high = dtype.limits
    return {} if zero - limit <= low and high < zero + limit else {0: Allowed(zero - limit, zero + limit - 1)}


def on_real_numbers(attrs: Attributes, xs: Sequence[Array], t: Type) -> Array:
    """Returns the value of RESCALE on real numbers, where it does not round.

    It saturates only if its zero point is a limit of its dtype, since producers fold a ReLU into it that way.
    Raises GraphError for unsigned values.
    """
    if attrs["input_unsigned"] or attrs["output_unsigned"]:
        raise GraphError("a RESCALE of unsigned values has no interpretation in real numbers here")
    multiplier, shift = _scales(attrs, float)
    out: Array = (xs[0] - attrs["in_zp"][0]) * (multiplier * 2.0**-shift) + attrs["out_zp"][0]
    limits = DType.of(t.dtype).limits
    return np.clip(out, *limits) if attrs["out_zp"][0] in limits else out


def _across(attrs: Attributes, p: AxisPlacement) -> Attributes | None:
    """Returns no changes if the channels stay the last axis, else None."""
    (channels,) = p.to.values()
    return {} if p.alone and channels == len(p.out_shape) - 1 else None


record(
    "pointwise",
    "rescale",
    1,
    _rescale,
    rescaled,
    on_real_numbers,
    shown=("dtype",),
    folded=(("multiplier", "scale"), ("shift", "INT8"), *ZERO_POINTS),
    declared=True,
    along=Along(lambda attrs, shape: (len(shape) - 1,), _across),
    allowed=_within_the_shift,
)
