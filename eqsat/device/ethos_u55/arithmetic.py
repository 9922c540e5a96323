"""What happens to accumulators: scaling, rounding, clamping, tables.

Roundings as Vela describes them (`ethosu/vela/api.py`: TFL, towards zero, and to the nearest with x.5 towards plus
infinity) and as it maps TOSA's RESCALE to them (`graphir_optimiser.cpp`: double rounding is DBL, single rounding is
NATURAL).
"""

from __future__ import annotations

import numpy as np

from eqsat.device.core.errors import DeviceError, DeviceFault
from eqsat.device.core.operands import Element
from eqsat.device.core.registers import ActivationClipRange, ActivationFunction, RoundMode
from eqsat.device.ethos_u55.commands import Activation

#: The type that a result is clipped to, where that is not the output's.
CLIPPED = {
    ActivationClipRange.FORCE_UINT8: Element(False, 8),
    ActivationClipRange.FORCE_INT8: Element(True, 8),
    ActivationClipRange.FORCE_INT16: Element(True, 16),
}
#: Values, multipliers and what is added for rounding stay below this where one multiplication in int64 is enough.
_PLAIN = 1 << 62
_LOW = 32


def held(sums: np.ndarray, bits: int) -> np.ndarray:
    """Sums that accumulators of so many bits hold. Raises DeviceFault."""
    limit = 1 << bits - 1
    if sums.size and not (-limit <= sums.min() and sums.max() < limit):
        raise DeviceFault(f"sums that accumulators of {bits} bits have no room for")
    return sums


def scaled(
    values: np.ndarray, multiplier: np.ndarray | int, shift: np.ndarray | int, rounding: RoundMode
) -> np.ndarray:
    """int64: values * multiplier / 2**shift, rounded. Multipliers are below 2**32. Raises DeviceError where the result
    has no room."""
    shift, multiplier = np.asarray(shift, np.int64), np.asarray(multiplier, np.int64)
    half = np.where(shift > 0, np.int64(1) << np.maximum(shift - 1, 0), 0)
    match rounding:
        case RoundMode.NATURAL:
            added = half
        case RoundMode.DBL:
            extra = np.where(shift > 31, np.int64(1) << 30, 0)
            added = half + np.where(values >= 0, extra, -extra)
        case RoundMode.TRUNCATE:
            added = np.where(values >= 0, 0, (np.int64(1) << shift) - 1)
    return shifted(values, multiplier, shift, added)


def shifted(values: np.ndarray, multiplier: np.ndarray, shift: np.ndarray, added: np.ndarray) -> np.ndarray:
    """int64: (values * multiplier + added) >> shift, of multipliers below 2**32. Raises DeviceError where the result
    has no room."""
    largest = int(np.abs(values).max(initial=0))
    if largest * int(multiplier.max(initial=0)) + int(np.abs(added).max(initial=0)) < _PLAIN:
        return (values * multiplier + added) >> shift
    return _wide(values, multiplier, shift, added, largest)


def _wide(values: np.ndarray, multiplier: np.ndarray, shift: np.ndarray, added: np.ndarray, largest: int) -> np.ndarray:
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


def activated(values: np.ndarray, activation: Activation, element: Element, table: np.ndarray | None) -> np.ndarray:
    """Results (int64, zero point added) clamped, looked up in `table` (bytes, of a TABLE activation) and as `element`
    has them.
    Raises DeviceError."""
    clipped = CLIPPED.get(activation.clip_range, element)
    if clipped.bits <= 16:
        low, high = (bound(b, clipped.signed) for b in (activation.minimum, activation.maximum))
        least, most = clipped.limits
        values = np.clip(values, max(low, least), min(high, most))
    if table is not None:
        values = looked_up(values, clipped, element, table)
    elif activation.function != ActivationFunction.RELU:
        raise DeviceError(f"the model does not know the activation {activation.function.name}")
    least, most = element.limits
    if values.size and (values.min() < least or values.max() > most):
        raise DeviceError(f"a result that {element.dtype} has no room for")
    return values.astype(element.dtype)


def bound(bits: int, signed: bool) -> int:
    """A limit of a clamp as a number."""
    return bits - (1 << 16) if signed and bits >> 15 else bits


def table_bytes(activation: Activation, element: Element) -> int:
    """Bytes of the table that an activation looks up."""
    clipped = CLIPPED.get(activation.clip_range, element)
    return 256 * element.bytes if clipped.bits == 8 else 2048


def looked_up(values: np.ndarray, clipped: Element, element: Element, table: np.ndarray) -> np.ndarray:
    """8 bits choose one of 256 entries of the result's size; of 16 bits the upper nine choose a base and a slope of 16
    bits each, and the lower seven how far to go."""
    if not clipped.signed and clipped.bits == 16:
        raise DeviceError("the model does not know tables of UINT16")
    start = clipped.limits[0]
    if clipped.bits == 8:
        return table.view(element.dtype).astype(np.int64)[values - start]
    if element.bits != 16:
        raise DeviceError(f"the model does not know tables of 16 bits with results of {element.bits}")
    entries = table.view(np.int16).astype(np.int64).reshape(-1, 2)
    place = values - start
    base, slope = entries[place >> 7, 0], entries[place >> 7, 1]
    return base + ((slope * (place & 127) + 64) >> 7)
