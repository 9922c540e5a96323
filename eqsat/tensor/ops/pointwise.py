"""Pointwise operators but for RESCALE: each element of the result depends on one element of each operand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from eqsat.tensor.allowed import Allowed
from eqsat.tensor.dtypes import DType
from eqsat.tensor.ops.op import (
    ZERO_POINTS,
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
from eqsat.tensor.types import Array, GraphError, Type

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
    if shift:  # halved before, as INT64 has no room for the largest product and the rounding term of a shift of 63
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
