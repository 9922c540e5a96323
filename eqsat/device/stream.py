"""A command stream's words: the driver's header, and one instruction after the other.

>>> from eqsat.device.stream import instructions
>>> [str(i) for i in instructions([0x0005_0100, 0x0000_4010, 0x1f40, 0xffff_0000])]
['SET_IFM_PAD_TOP pad=5', 'SET_OFM_BASE0 addr=0x1f40', 'OP_STOP mask=65535']
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from eqsat.device.core.errors import DeviceError
from eqsat.device.core.registers import ADDRESS, LAYOUTS, CommandLayout
from eqsat.device.ethos_u85.registers import LAYOUTS_U85
from eqsat.target import FAMILIES, Family
from eqsat.target.family import Core

_FOURCC = b"COP1"
#: Driver actions (`ethosu/vela/driver_actions.py`): the low byte of a word.
_CONFIG, _COMMANDS, _NOP = 1, 2, 5
#: By the set of commands (`eqsat.target.Family`).
_LAYOUTS = {1: LAYOUTS, 2: LAYOUTS_U85}
#: KiB of tables in U85 (`ethos_u85.cpp`).
_TABLES = 2


@dataclass(frozen=True, slots=True)
class Instruction:
    """One command. offset: its first byte in the stream; parameter: 16 bits; payload: 32 bits, None of a short one."""

    offset: int
    layout: CommandLayout
    parameter: int
    payload: int | None
    fields: Mapping[str, int]

    @property
    def name(self) -> str:
        return self.layout.name

    def shown(self) -> dict[str, str]:
        """Fields by name, readable: enumerations by name, addresses hexadecimal."""
        address = self.layout.fields is ADDRESS
        return {
            k: v.name if isinstance(v, IntEnum) else f"{v:#x}" if address else str(int(v))
            for k, v in self.fields.items()
        }

    def __str__(self) -> str:
        return " ".join([self.name, *(f"{k}={v}" for k, v in self.shown().items())])


@dataclass(frozen=True, slots=True)
class Config:
    """The NPU that a stream is for, as its header says. product: 0 U55, 1 U65, 2 U85; macs: per cycle, of all cores;
    shram: KiB of shared memory, of all cores (of U85 that of its tables)."""

    product: int
    macs: int
    shram: int

    @property
    def accelerator(self) -> str:
        return f"ethos-u{ {0: 55, 1: 65, 2: 85}[self.product] }-{self.macs}"

    @property
    def family(self) -> Family:
        """Raises DeviceError."""
        for family in FAMILIES:
            if self.accelerator in family.cores:
                return family
        raise DeviceError(f"there is no {self.accelerator}")

    @property
    def core(self) -> Core:
        """Raises DeviceError."""
        return self.family.cores[self.accelerator]

    @property
    def internal(self) -> int:
        """Bytes of one core's shared memory, or of the tables that all cores have. Raises DeviceError."""
        return self.shram * 1024 // (self.core.cores if self.family.split_outputs else 1)


def read_header(data: bytes) -> tuple[Config, list[int]]:
    """(configuration, words of the command stream) of a driver payload. Raises DeviceError."""
    if data[:4] != _FOURCC:
        raise DeviceError(f"no Ethos-U command stream: it begins with {data[:4]!r}, not {_FOURCC!r}")
    if len(data) % 4:
        raise DeviceError(f"a command stream of {len(data)} bytes, which are no whole words")
    words = struct.unpack(f"<{len(data) // 4}I", data)
    config, at = None, 1
    while at < len(words):
        action, word = words[at] & 0xFF, words[at]
        if action == _CONFIG and at + 2 < len(words):
            config = _config(words[at + 1])
            at += 3
        elif action == _NOP:
            at += 1
        elif action == _COMMANDS:
            length = (word >> 8 & 0xFF) << 16 | word >> 16
            stream = list(words[at + 1 : at + 1 + length])
            if config is None:
                raise DeviceError("the command stream's header names no configuration")
            if len(stream) != length:
                raise DeviceError(f"a command stream of {length} words, of which there are {len(stream)}")
            return config, stream
        else:
            raise DeviceError(f"unknown driver action {word:#010x} in the header")
    raise DeviceError("no command stream behind the header")


def with_commands(data: bytes, words: Sequence[int]) -> bytes:
    """A driver payload with other words behind its header. Raises DeviceError."""
    _, before = read_header(data)
    start = len(data) - 4 * len(before)
    header = struct.pack("<I", _COMMANDS | (len(words) >> 16 & 0xFF) << 8 | (len(words) & 0xFFFF) << 16)
    return data[: start - 4] + header + struct.pack(f"<{len(words)}I", *words)


def decoded(data: bytes) -> list[Instruction]:
    """The instructions of a driver payload. Raises DeviceError."""
    config, words = read_header(data)
    return list(instructions(words, _LAYOUTS[config.family.commands]))


def _config(word: int) -> Config:
    """Register CONFIG: log2 of the MACs in bits 0-3, KiB of SHRAM in bits 8-15 (of U85 ports are there), the product in
    bits 28-31."""
    product = word >> 28
    if product > 2:
        raise DeviceError(f"unknown product {product} in the command stream's header")
    return Config(product, 1 << (word & 0xF), _TABLES if product == 2 else word >> 8 & 0xFF)


def instructions(
    words: Sequence[int], layouts: Mapping[tuple[bool, int], CommandLayout] = LAYOUTS
) -> Iterator[Instruction]:
    """The instructions, by default of U55 and U65. Raises DeviceError at one that there is not, or a value without a
    meaning."""
    at = 0
    while at < len(words):
        word = words[at]
        long = bool(word >> 14 & 1)
        layout = layouts.get((long, word & 0x3FF))
        if layout is None or word >> 15 & 1 or word >> 10 & 0xF:
            raise DeviceError(f"unknown command {word:#010x} at byte {4 * at}")
        if long and at + 1 == len(words):
            raise DeviceError(f"the command stream ends inside {layout.name}")
        payload = words[at + 1] if long else None
        yield Instruction(4 * at, layout, word >> 16, payload, _fields(layout, word >> 16, payload, 4 * at))
        at += 2 if long else 1


def _fields(layout: CommandLayout, parameter: int, payload: int | None, offset: int) -> dict[str, int]:
    if layout.fields is ADDRESS:
        return {"addr": (parameter & 0xFF) << 32 | (payload or 0)}
    bits = parameter | (payload or 0) << 16
    out: dict[str, int] = {}
    for f in layout.fields:
        value = bits >> f.first & (1 << f.bits) - 1
        if f.values is not None:
            try:
                value = f.values(value)
            except ValueError as e:
                raise DeviceError(f"{layout.name} at byte {offset}: unknown {f.name} {value}") from e
        out[f.name] = value
    return out
