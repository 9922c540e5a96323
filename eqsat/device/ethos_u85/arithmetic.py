"""What happens to accumulators of Ethos-U85: scaling, rounding, clamping, tables.

Roundings are those by which Vela computes constants in advance (`ethosu/regor/compiler/graphir_optimiser.cpp`, Scale).
"""

from __future__ import annotations

import numpy as np

from eqsat.device.core.errors import DeviceError
from eqsat.device.core.operands import Element, FixedPointScale
from eqsat.device.core.state import number
from eqsat.device.ethos_u55.arithmetic import shifted
from eqsat.device.ethos_u85.commands import Activation, InputScale
from eqsat.device.ethos_u85.registers import ActivationClipRange, ActivationFunction, RoundModeIfm, RoundModeOfm

_SAME = FixedPointScale(1, 0)
_BYTE, _BYTE_UNSIGNED, _SHORT = Element(True, 8), Element(False, 8), Element(True, 16)
#: Of the tables: what chooses an entry, and what a result is.
TABLES = {
    ActivationFunction.LUT_U8_U8: (_BYTE_UNSIGNED, _BYTE_UNSIGNED),
    ActivationFunction.LUT_S8_S8: (_BYTE, _BYTE),
    ActivationFunction.LUT_S8_S16: (_BYTE, _SHORT),
    ActivationFunction.LUT_S8_S32: (_BYTE, Element(True, 32)),
    ActivationFunction.LUT_S16_S16: (_SHORT, _SHORT),
    ActivationFunction.LUT_S16_S32: (_SHORT, Element(True, 32)),
}


def scaled(
    values: np.ndarray, multiplier: np.ndarray | int, shift: np.ndarray | int, rounding: RoundModeOfm, double: int = 0
) -> np.ndarray:
    """int64: values * multiplier / 2**shift, rounded. double: by how many bits the first of two roundings lies lower.
    Raises DeviceError where the result has no room."""
    shift, multiplier = np.asarray(shift, np.int64), np.asarray(multiplier, np.int64)
    half = np.where(shift > 0, np.int64(1) << np.maximum(shift - 1, 0), 0)
    extra = np.where(shift > 31 - double, np.int64(1) << 30 - double, 0)
    negative = values < 0
    match rounding:
        case RoundModeOfm.NATURAL:
            added = half
        case RoundModeOfm.DOUBLE_SYMMETRIC:
            added = half + np.where(negative, -extra, extra)
        case RoundModeOfm.DOUBLE_ASYMMETRIC:
            added = half + extra
        case RoundModeOfm.SYMMETRIC:
            added = np.where(negative, half - (shift > 0), half)
        case RoundModeOfm.TRUNCATE_TO_ZERO:
            added = np.where(negative, (np.int64(1) << shift) - 1, 0)
        case RoundModeOfm.TRUNCATE_TO_LOWER:
            added = np.zeros_like(shift)
    return shifted(values, multiplier, shift, added)


def scaled_by(values: np.ndarray, scale: FixedPointScale, rounding: RoundModeOfm) -> np.ndarray:
    return values if scale == _SAME else scaled(values, scale.multiplier, scale.shift, rounding)


def scaled_input(values: np.ndarray, how: InputScale) -> np.ndarray:
    if how.scale == _SAME:
        return values
    natural = how.rounding == RoundModeIfm.NATURAL
    rounding = RoundModeOfm.NATURAL if natural else RoundModeOfm.DOUBLE_SYMMETRIC
    return scaled(values, how.scale.multiplier, how.scale.shift, rounding, how.double)


def table_place(activation: Activation) -> tuple[int, int] | None:
    """(address, bytes) in the memory of tables of the one that is looked up, None if none is. Raises DeviceError."""
    if activation.function == ActivationFunction.LUT_NONE:
        return None
    if activation.function not in TABLES:
        raise DeviceError(f"the model does not know the activation {activation.function.name}")
    chosen, result = TABLES[activation.function]
    size = 256 * result.bytes if chosen.bits == 8 else 2048
    return activation.table * size, size


def activated(values: np.ndarray, activation: Activation, element: Element, table: bytes | None) -> np.ndarray:
    """Results (int64, zero point added) clamped, looked up in `table` and as `element` has them. Raises DeviceError."""
    chosen, result = TABLES.get(activation.function, (element, element))
    if result != element:
        raise DeviceError(f"{activation.function.name} with results of {element.dtype}")
    if activation.clip_range == ActivationClipRange.B16:
        low, high = (number(b, chosen.signed) for b in (activation.minimum, activation.maximum))
        if low > high:
            raise DeviceError(f"a clamp to {low} to {high}")
        values = np.clip(values, low, high)
    if table is not None:
        values = looked_up(_fitting(values, chosen), chosen, element, table)
    return _fitting(values, element).astype(element.dtype)


def _fitting(values: np.ndarray, element: Element) -> np.ndarray:
    least, most = element.limits
    if values.size and (values.min() < least or values.max() > most):
        raise DeviceError(f"a result that {element.dtype} has no room for")
    return values


def looked_up(values: np.ndarray, chosen: Element, element: Element, table: bytes) -> np.ndarray:
    """8 bits choose one of 256 entries; of 16 bits the upper nine choose a base and a slope of 16 bits each, and the
    lower seven how far to go, which a result of 32 bits keeps as a fraction."""
    place = values - chosen.limits[0]
    if chosen.bits == 8:
        return np.frombuffer(table, element.dtype).astype(np.int64)[place]
    entries = np.frombuffer(table, np.int16).astype(np.int64).reshape(-1, 2)
    base, slope = entries[place >> 7, 0], entries[place >> 7, 1]
    fine = (base << 7) + slope * (place & 127)
    return fine if element.bits == 32 else (fine + 64) >> 7
