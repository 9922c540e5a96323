"""The words of a command stream, one instruction after the other.

>>> from eqsat.device.core.instructions import instructions
>>> from eqsat.device.ethos_u55.registers import LAYOUTS
>>> [str(i) for i in instructions([0x0005_0100, 0x0000_4010, 0x1f40, 0xffff_0000], LAYOUTS)]
['SET_IFM_PAD_TOP pad=5', 'SET_OFM_BASE0 addr=0x1f40', 'OP_STOP mask=65535']
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from eqsat.device.core.errors import DeviceError
from eqsat.device.core.registers import ADDRESS, CommandLayout, Layouts


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction of a command stream.

    offset: of its first byte in the stream.
    parameter: 16 bits.
    payload: 32 bits, None for a short one.
    """

    offset: int
    layout: CommandLayout
    parameter: int
    payload: int | None
    fields: Mapping[str, int]

    @property
    def name(self) -> str:
        return self.layout.name

    def describe(self) -> dict[str, str]:
        """Returns the fields by name, as text: enumerations by name, addresses hexadecimal."""
        address = self.layout.fields == (ADDRESS,)
        return {
            k: v.name if isinstance(v, IntEnum) else f"{v:#x}" if address else str(int(v))
            for k, v in self.fields.items()
        }

    def __str__(self) -> str:
        return " ".join([self.name, *(f"{k}={v}" for k, v in self.describe().items())])


def instructions(words: Sequence[int], layouts: Layouts) -> Iterator[Instruction]:
    """Yields the instructions of a stream's words.

    Raises DeviceError for an unknown instruction and for a value without a meaning.
    """
    at = 0
    while at < len(words):
        word = words[at]
        layout = layouts.get(word & 0xFFFF)
        if layout is None:
            raise DeviceError(f"unknown command {word:#010x} at byte {4 * at}")
        if layout.long and at + 1 == len(words):
            raise DeviceError(f"the command stream ends inside {layout.name}")
        payload = words[at + 1] if layout.long else None
        yield Instruction(4 * at, layout, word >> 16, payload, _fields(layout, word >> 16, payload, 4 * at))
        at += 1 + layout.long


def _fields(layout: CommandLayout, parameter: int, payload: int | None, offset: int) -> dict[str, int]:
    if layout.fields == (ADDRESS,):
        if parameter >> 8:
            raise DeviceError(f"{layout.name} at byte {offset}: unknown bits {parameter >> 8 << 8:#x}")
        return {"addr": (parameter & 0xFF) << 32 | (payload or 0)}
    bits = left = parameter | (payload or 0) << 16
    out: dict[str, int] = {}
    for f in layout.fields:
        value = bits >> f.first & (1 << f.bits) - 1
        left &= ~((1 << f.bits) - 1 << f.first)
        if f.values is not None:
            try:
                value = f.values(value)
            except ValueError as e:
                raise DeviceError(f"{layout.name} at byte {offset}: unknown {f.name} {value}") from e
        out[f.name] = value
    if left:
        raise DeviceError(f"{layout.name} at byte {offset}: unknown bits {left:#x}")
    return out
