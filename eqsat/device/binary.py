"""A compiled model: its command stream, its constants and its map of memory.

It is read from Vela's raw output, which `ethosu/vela/rawdata_writer.py` writes with `np.savez`,
or from an ExecuTorch delegate's payload, whose blocks `backends/arm/arm_vela.py` writes.
"""

from __future__ import annotations

import io
import math
import struct
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from eqsat.device.core.errors import DeviceError
from eqsat.device.core.execution import CommandSet
from eqsat.device.core.registers import Instruction, instructions
from eqsat.device.ethos_u55.command_set import ETHOS_U55
from eqsat.device.ethos_u85.command_set import ETHOS_U85
from eqsat.ground.packed import unpack_arrays
from eqsat.ground.worker import Pool, Worker
from eqsat.target import FAMILIES, Family, Target
from eqsat.target.family import Core
from eqsat.vela.compile import compile_tosa
from eqsat.vela.regor import RawOutput

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


#: Region numbers of Vela's binaries.
READ_ONLY, SCRATCH, SCRATCH_FAST = 0, 1, 2
_BLOCK = struct.Struct("<16sIB11s")
_FIRST, _LAST = "vela_bin_stream", "vela_end_stream"
#: Arrays of a raw output that describe the model; the pickled quantization of inputs and outputs is not read.
_ARRAYS = ("cmd_data", "weight_data", "scratch_size", "scratch_fast_size")
_OF_TENSORS = ("shape", "elem_size", "region", "offset")
_TENSORS = tuple(f"{which}_{name}" for which in ("input", "output") for name in _OF_TENSORS)
#: Bytes of fast scratch memory if a binary does not say how many it needs.
_FAST = 1 << 24
#: Number of regions, which commands name by 3 bits.
_REGIONS = 8
#: Bytes that a command can address: 40 bits, 32 on U55.
_ADDRESSES = 1 << 40


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output of a binary, and its place in memory.

    shape: six axes in Vela's raw output; a program may have others.
    element: bytes of an element.
    address: bytes from the start of the region.
    Raises DeviceError if no memory can hold it.
    """

    shape: tuple[int, ...]
    element: int
    region: int
    address: int

    def __post_init__(self) -> None:
        if min((*self.shape, self.element)) < 1 or self.address < 0 or not 0 <= self.region < _REGIONS:
            raise DeviceError(f"a tensor of {list(self.shape)} at {self.address} of region {self.region}")
        if self.address + self.bytes > _ADDRESSES:
            raise DeviceError(f"a tensor that ends at {self.address + self.bytes:#x}, which no command can address")

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.element


@dataclass(frozen=True)
class Binary:
    """A compiled model.

    stream: the driver's header and the words of the command stream.
    scratch, scratch_fast: bytes of scratch memory; None if the latter is unknown.
    operators: the source of an operation by the offset of its last command, where it is known.
    Raises DeviceError for sizes that no memory has.
    """

    stream: bytes = field(repr=False)
    read_only: bytes = field(repr=False)
    scratch: int
    scratch_fast: int | None
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    operators: Mapping[int, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for size in (self.scratch, self.scratch_fast or 0):
            if not 0 <= size <= _ADDRESSES:
                raise DeviceError(f"scratch memory of {size} bytes")

    @cached_property
    def config(self) -> Config:
        """The NPU that the stream is for. Raises DeviceError."""
        return read_header(self.stream)[0]

    @property
    def regions(self) -> dict[int, int]:
        """Bytes of each region that the binary names."""
        fast = _FAST if self.scratch_fast is None else self.scratch_fast
        sizes = {READ_ONLY: len(self.read_only), SCRATCH: self.scratch, SCRATCH_FAST: fast}
        for t in (*self.inputs, *self.outputs):
            if t.region not in (READ_ONLY, SCRATCH, SCRATCH_FAST):
                sizes[t.region] = max(sizes.get(t.region, 0), t.address + t.bytes)
        return sizes

    def differences(self, other: Binary) -> list[str]:
        """Returns the names of the parts that differ, among those that decide what is computed.

        Vela writes one zero byte if there are no constants (rawdata_writer.py).
        """
        equal = {
            "commands": self.stream == other.stream,
            "constants": (self.read_only or b"\0") == (other.read_only or b"\0"),
            "places of inputs and outputs": (self.inputs, self.outputs) == (other.inputs, other.outputs),
        }
        return [name for name, same in equal.items() if not same]

    def instructions(self) -> list[Instruction]:
        """Returns the instructions of the stream. Raises DeviceError."""
        config, words = read_header(self.stream)
        return list(instructions(words, config.commands.layouts))

    def commands(self) -> list[Any]:
        """Returns the commands of the stream. Raises DeviceError."""
        config, words = read_header(self.stream)
        return list(config.commands.decode(words))


def read_binary(data: bytes, external: Mapping[str, bytes] | None = None) -> Binary:
    """Reads Vela's raw output (.npz) or a delegate's payload.

    external: blocks that a payload keeps outside (named data), by key.
    Raises DeviceError.
    """
    if data[: len(_FIRST)] == _FIRST.encode():
        return _from_payload(data, external or {})
    if zipfile.is_zipfile(io.BytesIO(data)):
        return _from_npz(data)
    if data[4:8] == b"TFL3":
        raise DeviceError("a .tflite file, which is not read: let Vela write --output-format=raw")
    raise DeviceError("neither Vela's raw output (.npz) nor a delegate's payload")


def _from_npz(data: bytes) -> Binary:
    try:
        found = unpack_arrays(data, lambda name: name in _ARRAYS or name in _TENSORS)
        return Binary(
            stream=found["cmd_data"].tobytes(),
            read_only=found["weight_data"].tobytes(),
            scratch=int(found["scratch_size"]),
            scratch_fast=int(found["scratch_fast_size"]),
            inputs=_tensors(found, "input"),
            outputs=_tensors(found, "output"),
        )
    except DeviceError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError) as e:
        raise DeviceError(f"no raw output of Vela: {type(e).__name__}: {e}") from e


def _tensors(arrays: Mapping[str, Any], prefix: str) -> tuple[Tensor, ...]:
    keys = (f"{prefix}_{k}" for k in _OF_TENSORS)
    return tuple(
        Tensor(tuple(int(n) for n in shape), int(element), int(region), int(offset))
        for shape, element, region, offset in zip(*(arrays[k] for k in keys), strict=True)
    )


def _from_payload(data: bytes, external: Mapping[str, bytes]) -> Binary:
    blocks = _blocks(data, external)
    if missing := {"cmd_data", "weight_data", "scratch_size", "inputs", "outputs"} - blocks.keys():
        raise DeviceError(f"a payload without {', '.join(sorted(missing))}")
    return Binary(
        stream=blocks["cmd_data"],
        read_only=blocks["weight_data"],
        scratch=int.from_bytes(blocks["scratch_size"], "little"),
        scratch_fast=None,
        inputs=_unpack(blocks["inputs"]),
        outputs=_unpack(blocks["outputs"]),
    )


def _blocks(data: bytes, elsewhere: Mapping[str, bytes]) -> dict[str, bytes]:
    blocks: dict[str, bytes] = {}
    at = 0
    while at + _BLOCK.size <= len(data):
        raw, length, external, _ = _BLOCK.unpack_from(data, at)
        name = raw.rstrip(b"\0").decode("ascii", "replace")
        at += _BLOCK.size
        if at + length > len(data):
            raise DeviceError(f"the payload ends inside {name!r}")
        block = data[at : at + length]
        if external:
            key = block.decode("ascii", "replace")
            if key not in elsewhere:
                where = f"elsewhere, under the key {key[:64]}"
                raise DeviceError(f"the payload keeps {name!r} {where}: give the .ptd file that has it with --data")
            block = elsewhere[key]
        blocks[name] = block
        # an empty block is padded to 16 bytes too
        at += length + 15 - (length - 1) % 16
        if name == _LAST:
            return blocks
    raise DeviceError("the payload has no end")


def _unpack(data: bytes) -> tuple[Tensor, ...]:
    """Unpacks their number and, of each, six axes, bytes of an element, address and region, all of 32 bits."""
    count = struct.unpack_from("<i", data)[0] if len(data) >= 4 else -1
    if len(data) != 4 + 36 * count:
        raise DeviceError(f"{count} tensors in {len(data)} bytes")
    rows = struct.iter_unpack("<9i", data[4:])
    return tuple(Tensor(tuple(shape), element, region, address) for *shape, element, address, region in rows)


def compile_binary(buffer: bytes, target: Target, via: Pool | Worker) -> Binary:
    """Compiles a graph. Raises WorkerError with Vela's reason; `refused` is set if Vela rejected the graph."""
    return binary_of(compile_tosa(buffer, target, via).raw)


def binary_of(raw: RawOutput) -> Binary:
    """Returns the binary of Vela's raw output."""
    return Binary(
        stream=raw["stream"],
        read_only=raw["read_only"],
        scratch=raw["scratch"],
        scratch_fast=raw["scratch_fast"],
        inputs=_tensors_of(raw["inputs"]),
        outputs=_tensors_of(raw["outputs"]),
        operators=dict(raw["operators"]),
    )


def _tensors_of(rows: Iterable[Any]) -> tuple[Tensor, ...]:
    return tuple(Tensor(tuple(shape), element, region, address) for shape, element, region, address in rows)
