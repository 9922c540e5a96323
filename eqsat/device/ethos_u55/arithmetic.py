"""The processing of scaled accumulators of Ethos-U55 and U65: clamping and tables."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from eqsat.device.core import arithmetic
from eqsat.device.core.commands import Activation, Output
from eqsat.device.core.errors import DeviceError
from eqsat.device.core.machine import Machine, V
from eqsat.device.core.operands import ByteRange, Element
from eqsat.device.core.state import number
from eqsat.device.ethos_u55.registers import ActivationClipRange, ActivationFunction

#: The type that a result is clipped to, if it is not the output's.
_CLIPPED: Mapping[IntEnum, Element] = {
    ActivationClipRange.FORCE_UINT8: Element(False, 8),
    ActivationClipRange.FORCE_INT8: Element(True, 8),
    ActivationClipRange.FORCE_INT16: Element(True, 16),
}
#: Bytes of the tables, which lie in the last two banks of shared memory.
_TABLES = 2048
#: Bytes of a slot for a table.
_SLOT = 256


def activate(machine: Machine[V], values: V, activation: Activation, element: Element, table: bytes | None) -> V:
    """Clamps results and looks them up in the table of a TABLE activation.

    values: scaled accumulators, zero point added.
    Returns them as `element`.
    Raises DeviceError for an activation or a table that the model does not know.
    """
    clipped = _CLIPPED.get(activation.clip_range, element)
    if clipped.bits <= 16:
        values = machine.clip(values, clipped, *_clamp(activation, clipped))
    if table is not None:
        if not clipped.signed and clipped.bits == 16:
            raise DeviceError("the model does not know tables of UINT16")
        if clipped.bits != 8 and element.bits != 16:
            raise DeviceError(f"the model does not know tables of 16 bits with results of {element.bits}")
        values = machine.look_up(values, clipped, element, table)
    elif activation.function != ActivationFunction.RELU:
        raise DeviceError(f"the model does not know the activation {activation.function.name}")
    return machine.fitting(values, element)


def _clamp(activation: Activation, clipped: Element) -> tuple[int, int]:
    """Returns the limits of results of up to 16 bits. Raises DeviceError for a clamp that leaves none."""
    low, high = (number(b, clipped.signed) for b in (activation.minimum, activation.maximum))
    low, high = max(low, clipped.limits[0]), min(high, clipped.limits[1])
    if low > high:
        raise DeviceError(f"a clamp to {low} to {high}")
    return low, high


def table_place(o: Output, shared: int) -> ByteRange | None:
    """Returns the bytes of the table that is looked up, None if none is.

    shared: bytes of the shared memory.
    """
    function = o.activation.function
    if o.map is None or function < ActivationFunction.TABLE_0:
        return None
    chosen = _CLIPPED.get(o.activation.clip_range, o.map.element)
    at = shared - _TABLES + (function - ActivationFunction.TABLE_0) * _SLOT
    return ByteRange(None, at, arithmetic.table_bytes(chosen, o.map.element))
