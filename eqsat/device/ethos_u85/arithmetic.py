"""The processing of operands and scaled accumulators of Ethos-U85: scaling, clamping, tables."""

from __future__ import annotations

import numpy as np

from eqsat.device.core.arithmetic import fitting, looked_up, scaled, table_bytes
from eqsat.device.core.errors import DeviceError
from eqsat.device.core.operands import SAME, ByteRange, Element
from eqsat.device.core.state import number
from eqsat.device.ethos_u85.commands import Activation, InputScale
from eqsat.device.ethos_u85.registers import ActivationClipRange, ActivationFunction
from eqsat.tensor.types import Array

_BYTE, _BYTE_UNSIGNED, _SHORT = Element(True, 8), Element(False, 8), Element(True, 16)
#: The types of the values that choose an entry of a table, and of its results.
TABLES = {
    ActivationFunction.LUT_U8_U8: (_BYTE_UNSIGNED, _BYTE_UNSIGNED),
    ActivationFunction.LUT_S8_S8: (_BYTE, _BYTE),
    ActivationFunction.LUT_S8_S16: (_BYTE, _SHORT),
    ActivationFunction.LUT_S8_S32: (_BYTE, Element(True, 32)),
    ActivationFunction.LUT_S16_S16: (_SHORT, _SHORT),
    ActivationFunction.LUT_S16_S32: (_SHORT, Element(True, 32)),
}


def scaled_input(values: Array, how: InputScale) -> Array:
    if how.scale == SAME:
        return values
    return scaled(values, how.scale.multiplier, how.scale.shift, how.rounding.rule, how.double)


def clamp(activation: Activation, chosen: Element) -> tuple[int, int]:
    """Returns the limits of results, or of what is looked up. Raises DeviceError for a clamp that leaves none."""
    low, high = (number(b, chosen.signed) for b in (activation.minimum, activation.maximum))
    if low > high:
        raise DeviceError(f"a clamp to {low} to {high}")
    return low, high


def table_place(activation: Activation) -> ByteRange | None:
    """Returns the bytes of the table that is looked up, None if none is. Raises DeviceError."""
    if activation.function == ActivationFunction.LUT_NONE:
        return None
    if activation.function not in TABLES:
        raise DeviceError(f"the model does not know the activation {activation.function.name}")
    size = table_bytes(*TABLES[activation.function])
    return ByteRange(None, activation.table * size, size)


def activated(values: Array, activation: Activation, element: Element, table: bytes | None) -> Array:
    """Clamps results and looks them up in `table`.

    values: int64, zero point added.
    Returns them as `element`.
    Raises DeviceError.
    """
    chosen, result = TABLES.get(activation.function, (element, element))
    if result != element:
        raise DeviceError(f"{activation.function.name} with results of {element.dtype}")
    if activation.clip_range == ActivationClipRange.B16:
        values = np.clip(values, *clamp(activation, chosen))
    if table is not None:
        values = looked_up(fitting(values, chosen), chosen, element, table)
    return fitting(values, element).astype(element.dtype)
