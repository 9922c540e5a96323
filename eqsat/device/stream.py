"""A driver payload: the header and the words of the command stream behind it."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from eqsat.device.core.command_set import CommandSet
from eqsat.device.core.errors import DeviceError
from eqsat.device.ethos_u55.command_set import ETHOS_U55
from eqsat.device.ethos_u85.command_set import ETHOS_U85
from eqsat.target import FAMILIES, Family
from eqsat.target.family import Core

#: Every set of commands, by `Family.commands`; a new one has a folder beside the others.
COMMAND_SETS = {1: ETHOS_U55, 2: ETHOS_U85}
_FOURCC = b"COP1"
#: Driver actions, the low byte of a word (`ethosu/vela/driver_actions.py`).
_CONFIG, _COMMANDS, _NOP = 1, 2, 5


@dataclass(frozen=True, slots=True)
class Config:
    """The NPU that a stream is for, from its header.

    shram: KiB of shared memory of all cores, or of tables if these have a memory of their own.
    """

    family: Family
    accelerator: str
    shram: int

    @property
    def core(self) -> Core:
        return self.family.cores[self.accelerator]

    @property
    def commands(self) -> CommandSet:
        return COMMAND_SETS[self.family.commands]

    @property
    def internal(self) -> int:
        """Bytes of one core's shared memory, or of the tables that all cores share."""
        return self.shram * 1024 // (1 if self.commands.tables else self.core.cores)


def read_header(data: bytes) -> tuple[Config, list[int]]:
    """Returns (configuration, words of the command stream) of a driver payload. Raises DeviceError."""
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


def _config(word: int) -> Config:
    """Decodes the register CONFIG.

    Bits 0-3: log2 of the MACs; 8-15: KiB of shared memory, or ports if there is none; 28-31: the product.
    """
    product, accelerator = word >> 28, ""
    for family in (f for f in FAMILIES if f.product == product):
        accelerator = f"ethos-{family.name}-{1 << (word & 0xF)}"
        if accelerator in family.cores:
            return Config(family, accelerator, COMMAND_SETS[family.commands].tables or word >> 8 & 0xFF)
    missing = f"there is no {accelerator}" if accelerator else f"unknown product {product}"
    raise DeviceError(f"{missing}, which the command stream's header names")
