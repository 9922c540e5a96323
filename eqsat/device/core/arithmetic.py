"""The arithmetic on accumulators of every family: range, scaling, rounding, result types, tables.

Roundings are those by which Vela folds constants (`ethosu/regor/compiler/graphir_optimiser.cpp`, Scale).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eqsat.device.core.errors import DeviceError
from eqsat.device.core.operands import Element
from eqsat.device.core.registers import Rounding
from eqsat.tensor.types import Array

#: Magnitude below which a product plus its rounding term is computed in int64 directly.
_PLAIN = 1 << 62


@dataclass(frozen=True)
class Scales:
    """The bias, multiplier and shift of each output channel, all int64."""

    bias: Array
    multiplier: Array
    shift: Array


def scale(values: Array, multiplier: Array | int, shift: Array | int, rounding: Rounding, double: int = 0) -> Array:
    """Returns values * multiplier / 2**shift, rounded, as int64.

    multiplier: below 2**32. double: see `InputScale`.
    Raises DeviceError if the result is too large.
    """
    shift, multiplier = np.asarray(shift, np.int64), np.asarray(multiplier, np.int64)
    positive, negative = rounding_terms(shift, rounding, double)
    added = positive if positive is negative else np.where(values < 0, negative, positive)
    return multiply_and_shift(values, multiplier, shift, added)


def rounding_terms(shift: Array, rounding: Rounding, double: int) -> tuple[Array, Array]:
    """Returns what is added before the shift: to values from 0 on, and to those below. double: see `InputScale`."""
    half, zero = halves(shift), np.zeros_like(shift)
    extra = np.where(shift > 31 - double, np.int64(1) << 30 - double, 0)
    both = half + extra
    terms = {
        Rounding.NATURAL: (half, half),
        Rounding.DOUBLE_SYMMETRIC: (both, half - extra),
        Rounding.DOUBLE_ASYMMETRIC: (both, both),
        Rounding.SYMMETRIC: (half, half - (shift > 0)),
        Rounding.TRUNCATE_TO_ZERO: (zero, (np.int64(1) << shift) - 1),
        Rounding.TRUNCATE_TO_LOWER: (zero, zero),
    }
    return terms[rounding]


def halves(shift: Array) -> Array:
    """Returns half of the unit of the last place after the shift; 0 without a shift."""
    return np.where(shift > 0, np.int64(1) << np.maximum(shift - 1, 0), 0)


def multiply_and_shift(values: Array, multiplier: Array, shift: Array, added: Array) -> Array:
    """Returns (values * multiplier + added) >> shift, int64; multiplier < 2**32. Raises DeviceError beyond 62 bits."""
    largest = int(np.abs(values).max(initial=0))
    if largest * int(multiplier.max(initial=0)) + int(np.abs(added).max(initial=0)) < _PLAIN:
        return (values * multiplier + added) >> shift
    if largest >= _PLAIN:
        raise DeviceError("an accumulator beyond 62 bits")
    exact = (values.astype(object) * multiplier + added) >> shift  # in Python's integers, as int64 has no room
    if (np.abs(exact) >= _PLAIN).any():
        raise DeviceError("a scaled value beyond 62 bits")
    return exact.astype(np.int64)


def fitting(values: Array, element: Element) -> Array:
    """Returns values unchanged if the type can hold them, else raises DeviceError."""
    least, most = element.limits
    if values.size and (values.min() < least or values.max() > most):
        raise DeviceError(f"a result that {element.dtype} has no room for")
    return values


def table_bytes(chosen: Element, result: Element) -> int:
    """Returns the bytes of a table of results that values of the type `chosen` choose."""
    return 256 * result.bytes if chosen.bits == 8 else 2048


def look_up(values: Array, chosen: Element, result: Element, table: bytes) -> Array:
    """Looks values up in a table and returns int64.

    8 bits choose one of 256 entries of the result's size.
    The upper 9 of 16 bits choose a base and a slope of 16 bits each.
    The lower 7 interpolate between them; a result of 32 bits keeps them as a fraction.
    """
    place = values - chosen.limits[0]
    if chosen.bits == 8:
        return np.frombuffer(table, result.dtype).astype(np.int64)[place]
    entries = np.frombuffer(table, np.int16).astype(np.int64).reshape(-1, 2)
    base, slope = entries[place >> 7, 0], entries[place >> 7, 1]
    fine = (base << 7) + slope * (place & 127)
    return fine if result.bits == 32 else (fine + 64) >> 7
