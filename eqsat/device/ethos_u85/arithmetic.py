"""The processing of scaled accumulators of Ethos-U85: clamping and tables."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from eqsat.device.core.arithmetic import table_bytes
from eqsat.device.core.commands import Activation, Output
from eqsat.device.core.errors import DeviceError
from eqsat.device.core.machine import Machine, V
from eqsat.device.core.operands import ByteRange, Element
from eqsat.device.core.state import number
from eqsat.device.ethos_u85.registers import ActivationClipRange, ActivationFunction

_BYTE, _BYTE_UNSIGNED, _SHORT = Element(True, 8), Element(False, 8), Element(True, 16)
#: The types of the values that choose an entry of a table, and of its results.
TABLES: Mapping[IntEnum, tuple[Element, Element]] = {
    ActivationFunction.LUT_U8_U8: (_BYTE_UNSIGNED, _BYTE_UNSIGNED),
    ActivationFunction.LUT_S8_S8: (_BYTE, _BYTE),
    ActivationFunction.LUT_S8_S16: (_BYTE, _SHORT),
    ActivationFunction.LUT_S8_S32: (_BYTE, Element(True, 32)),
    ActivationFunction.LUT_S16_S16: (_SHORT, _SHORT),
    ActivationFunction.LUT_S16_S32: (_SHORT, Element(True, 32)),
}


def _clamp(activation: Activation, chosen: Element) -> tuple[int, int]:
    """Returns the limits of results, or of what is looked up. Raises DeviceError for a clamp that leaves none."""
    low, high = (number(b, chosen.signed) for b in (activation.minimum, activation.maximum))
    if low > high:
        raise DeviceError(f"a clamp to {low} to {high}")
    return low, high


def table_place(o: Output, _: int) -> ByteRange | None:
    """Returns the bytes of the table that is looked up, None if none is. Raises DeviceError."""
    function = o.activation.function
    if function == ActivationFunction.LUT_NONE:
        return None
    if function not in TABLES:
        raise DeviceError(f"the model does not know the activation {function.name}")
    size = table_bytes(*TABLES[function])
    return ByteRange(None, (o.activation.table or 0) * size, size)


def activate(machine: Machine[V], values: V, activation: Activation, element: Element, table: bytes | None) -> V:
    """Clamps results and looks them up in `table`.

    values: scaled accumulators, zero point added.
    Returns them as `element`.
    Raises DeviceError.
    """
    chosen, result = TABLES.get(activation.function, (element, element))
    if result != element:
        raise DeviceError(f"{activation.function.name} with results of {element.dtype}")
    if activation.clip_range == ActivationClipRange.B16:
        values = machine.clip(values, chosen, *_clamp(activation, chosen))
    if table is not None:
        values = machine.look_up(values, chosen, element, table)
    return machine.fitting(values, element)
