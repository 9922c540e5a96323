"""What every family does to accumulators: room, scaling, rounding, the types of results, tables.

Roundings are those by which Vela computes constants in advance (`ethosu/regor/compiler/graphir_optimiser.cpp`, Scale).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eqsat.device.core.errors import DeviceError, DeviceFault
from eqsat.device.core.operands import SAME, Element, FixedPointScale
from eqsat.device.core.registers import Rounding
from eqsat.tensor.types import Array

#: Values, multipliers and what is added for rounding stay below this where one multiplication in int64 is enough.
_PLAIN = 1 << 62
_LOW = 32
#: Operations on two operands that are numpy's, by the names of their modes.
BINARY = {
    "ADD": np.add,
    "SUB": np.subtract,
    "MUL": np.multiply,
    "MIN": np.minimum,
    "MAX": np.maximum,
    "AND": np.bitwise_and,
    "OR": np.bitwise_or,
    "XOR": np.bitwise_xor,
}


@dataclass(frozen=True)
class Scales:
    """Of each output channel: bias (int64), multiplier (int64) and shift (int64)."""

    bias: Array
    multiplier: Array
    shift: Array


def held(sums: Array, bits: int) -> Array:
    """Sums that accumulators of so many bits hold. Raises DeviceFault."""
    limit = 1 << bits - 1
    if sums.size and not (-limit <= sums.min() and sums.max() < limit):
        raise DeviceFault(f"sums that accumulators of {bits} bits have no room for")
    return sums


def scaled(values: Array, multiplier: Array | int, shift: Array | int, rounding: Rounding, double: int = 0) -> Array:
    """int64: values * multiplier / 2**shift, rounded. Multipliers are below 2**32. double: by how many bits the first
    of two roundings lies lower. Raises DeviceError where the result has no room."""
    shift, multiplier = np.asarray(shift, np.int64), np.asarray(multiplier, np.int64)
    half = np.where(shift > 0, np.int64(1) << np.maximum(shift - 1, 0), 0)
    extra = np.where(shift > 31 - double, np.int64(1) << 30 - double, 0)
    negative = values < 0
    match rounding:
        case Rounding.NATURAL:
            added = half
        case Rounding.DOUBLE_SYMMETRIC:
            added = half + np.where(negative, -extra, extra)
        case Rounding.DOUBLE_ASYMMETRIC:
            added = half + extra
        case Rounding.SYMMETRIC:
            added = np.where(negative, half - (shift > 0), half)
        case Rounding.TRUNCATE_TO_ZERO:
            added = np.where(negative, (np.int64(1) << shift) - 1, 0)
        case Rounding.TRUNCATE_TO_LOWER:
            added = np.zeros_like(shift)
    return shifted(values, multiplier, shift, added)


def scaled_by(values: Array, scale: FixedPointScale, rounding: Rounding) -> Array:
    """The same with one factor for all. Raises DeviceError."""
    return values if scale == SAME else scaled(values, scale.multiplier, scale.shift, rounding)


def shifted(values: Array, multiplier: Array, shift: Array, added: Array) -> Array:
    """int64: (values * multiplier + added) >> shift, of multipliers below 2**32. Raises DeviceError where the result
    has no room."""
    largest = int(np.abs(values).max(initial=0))
    if largest * int(multiplier.max(initial=0)) + int(np.abs(added).max(initial=0)) < _PLAIN:
        return (values * multiplier + added) >> shift
    return _wide(values, multiplier, shift, added, largest)


def _wide(values: Array, multiplier: Array, shift: Array, added: Array, largest: int) -> Array:
    """The same where the product has no room in int64: from the two halves of the values."""
    if largest >= _PLAIN:
        raise DeviceError("an accumulator beyond 62 bits")
    high, low = values >> _LOW, values & ((1 << _LOW) - 1)
    # low * multiplier is below 2**63 for multipliers below 2**31 only: the rest is split once more
    carry, rest = np.divmod(low * (multiplier & 0xFFFF) + ((low * (multiplier >> 16) & 0xFFFF) << 16), 1 << _LOW)
    carry += low * (multiplier >> 16) >> 16
    top, rounded = high * multiplier + carry, rest + (added & ((1 << _LOW) - 1))
    top += (added >> _LOW) + (rounded >> _LOW)
    rounded &= (1 << _LOW) - 1
    up = np.maximum(_LOW - shift, 0)
    if (np.abs(top) >= _PLAIN >> up).any():
        raise DeviceError("a scaled value beyond 62 bits")
    return np.where(
        shift >= _LOW, top >> np.maximum(shift - _LOW, 0), (top << up) + (rounded >> np.minimum(shift, _LOW))
    )


def leading_zeros(values: Array) -> Array:
    """Of numbers of 32 bits."""
    # frexp counts the bits of a number; below zero there is no leading zero
    return np.where(values < 0, 0, 32 - np.frexp(np.maximum(values, 0).astype(np.float64))[1])


def fitting(values: Array, element: Element) -> Array:
    """The same. Raises DeviceError where the type has no room for them."""
    least, most = element.limits
    if values.size and (values.min() < least or values.max() > most):
        raise DeviceError(f"a result that {element.dtype} has no room for")
    return values


def table_bytes(chosen: Element, result: Element) -> int:
    """Bytes of a table by what chooses an entry and what a result is."""
    return 256 * result.bytes if chosen.bits == 8 else 2048


def looked_up(values: Array, chosen: Element, result: Element, table: bytes) -> Array:
    """int64: 8 bits choose one of 256 entries of the result's size; of 16 bits the upper nine choose a base and a slope
    of 16 bits each, and the lower seven how far to go, which a result of 32 bits keeps as a fraction."""
    place = values - chosen.limits[0]
    if chosen.bits == 8:
        return np.frombuffer(table, result.dtype).astype(np.int64)[place]
    entries = np.frombuffer(table, np.int16).astype(np.int64).reshape(-1, 2)
    base, slope = entries[place >> 7, 0], entries[place >> 7, 1]
    fine = (base << 7) + slope * (place & 127)
    return fine if result.bits == 32 else (fine + 64) >> 7
