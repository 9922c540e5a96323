"""A functional model of Ethos-U55, U65 and U85, without a notion of time: executes commands in order.

>>> from eqsat.device.run import run                                            # doctest: +SKIP
>>> outputs = run(read_binary(Path("model_vela.npz").read_bytes()), [x])        # doctest: +SKIP

The operations were written from Arm's register descriptions and Vela's generators.
They are validated against the TOSA reference model.
`check_commands` checks beforehand whether commands wait for each other and whether blocks have room.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsat.device.binary import READ_ONLY, Binary, Config, Tensor
from eqsat.device.core.block_order import Blocks, most_dependency
from eqsat.device.core.errors import DeviceError, DeviceFault
from eqsat.device.core.memory import Accesses, MemoryMap, copies_onto_itself, of_map, overlap
from eqsat.device.core.numbers import NumberMachine
from eqsat.device.core.operands import ByteRange, Dma, Stop, Wait
from eqsat.tensor.types import Array

# Whether commands wait for each other as they must, and overwrite nothing that is still read.
# Without a notion of time, the functional model cannot show this.
# It also reads all operands of a command before it writes the result, which the NPU does for one block at a time.
#
# The NPU works on a command while it reads the next ones.
# Kernels (convolutions, poolings, elementwise operations) have one queue, copies have another.
# Between the queues, only OP_KERNEL_WAIT and OP_DMA_WAIT say that a command is done; among kernels, BLOCKDEP says it.
# A stream whose results depend on which command is faster is faulty.
#
# Vela's MaxOutstandingKernelOps, MaxOutstandingDMAOps and MaxBlockdep say how many commands may be under way.
# They and the order of copies are from `ethosu55/ethos_u55.hpp`, `ethosu65/ethos_u65.hpp` and `ethosu85/ethos_u85.hpp`.

#: Most kernels under way at a time (Vela's MaxOutstandingKernelOps).
_KERNELS = 2

_UnderWay = list[tuple[str, Accesses]]


def check_commands(commands: Sequence[Any], config: Config) -> None:
    """Checks the blocks of all commands and the waits between them.

    Raises DeviceFault for a command
    - whose blocks have no room inside the NPU;
    - that may touch bytes that an earlier one still uses;
    - that writes to the constants, or over what it still reads itself (anything that a block reads, if its results
      are transposed or reversed, as their blocks have no order);
    - that looks up a table that the buffers of another one have overwritten.
    """
    for c in commands:
        reason = "" if isinstance(c, Wait | Stop | Dma) else config.commands.no_room(c, config.family, config.core)
        if reason:
            raise DeviceFault(f"{_name(c)}: {reason}", c.offset)
    works = [_Work.of(c, config) for c in commands]
    _check_queues(works, config)
    _check_dependencies(works, config)
    _check_writes(works)


@dataclass(frozen=True, slots=True)
class _Work:
    """A command with the bytes that it touches and its blocks, None if it has none."""

    command: Any
    accesses: Accesses | None
    blocks: Blocks | None

    @staticmethod
    def of(c: Any, config: Config) -> _Work:
        if isinstance(c, Wait | Stop):
            return _Work(c, None, None)
        return _Work(c, config.commands.accesses(c, config.internal), config.commands.blocks(c, config.core))

    @property
    def is_chained(self) -> bool:
        """Whether the next kernel takes the results block by block, before they reach memory."""
        return bool(self.blocks and self.accesses and self.command.output.map and not self.accesses.writes)


def _name(c: Any) -> str:
    return f"{type(c).__name__} at byte {c.offset:#x}"


def _check_queues(works: Sequence[_Work], config: Config) -> None:
    kernels: _UnderWay = []
    copies: _UnderWay = []
    chained: Accesses | None = None  # of the kernels before in a chain, none of which is done before its last one
    for work in works:
        c, mine = work.command, work.accesses
        if isinstance(c, Wait):
            queue = kernels if c.kernel else copies
            del queue[: max(0, len(queue) - c.outstanding)]
            continue
        if mine is None:
            continue
        is_copy = isinstance(c, Dma)
        for other, theirs in kernels if is_copy else copies:
            if mine.conflicts(theirs):
                raise DeviceFault(f"{_name(c)} does not wait for {other}, which touches the same bytes", c.offset)
        queue, limit = (copies, config.family.outstanding_copies) if is_copy else (kernels, _KERNELS)
        if not is_copy:
            if chained is not None:
                mine = chained.join(mine)
                del kernels[-1:]
            chained = mine if work.is_chained else None
        queue.append((_name(c), mine))
        del queue[: max(0, len(queue) - limit)]


def _check_dependencies(works: Sequence[_Work], config: Config) -> None:
    before: _Work | None = None
    dependency = 0  # of all kernels of a chain, which begin together
    for work in works:
        c, blocks = work.command, work.blocks
        if isinstance(c, Wait) and c.kernel and not c.outstanding:
            before = None
        if blocks is None:
            continue
        dependency = max(dependency, blocks.dependency)
        if before is not None and dependency > (allowed := _allow(before, work, config)):
            raise DeviceFault(
                f"{_name(c)} may begin {dependency} blocks before the kernel before it is done, "
                f"of which it reads what is written {allowed} blocks before its end",
                c.offset,
            )
        if not work.is_chained:
            before, dependency = work, 0


def _allow(before: _Work, after: _Work, config: Config) -> int:
    """Returns the largest BLOCKDEP of a kernel after another one."""
    assert before.blocks and after.blocks and before.accesses and after.accesses
    # where blocks are written is not known if they are transposed or reversed; Vela sets 0, too
    if before.blocks.written is None and overlap(before.accesses.writes, after.accesses.reads):
        return 0
    if overlap(before.accesses.reads, after.accesses.buffers):  # a table that is looked up until the last block
        return 0
    return most_dependency(before.blocks, after.blocks, config.commands.dependency)


def _check_writes(works: Sequence[_Work]) -> None:
    tables: list[ByteRange] = []
    lost: list[tuple[str, ByteRange]] = []
    chain: list[_Work] = []
    for work in works:
        c, mine = work.command, work.accesses
        if mine is None:
            continue
        if any(w.region == READ_ONLY for w in mine.writes):
            raise DeviceFault(f"{_name(c)} writes to the constants", c.offset)
        if isinstance(c, Dma):
            if copies_onto_itself(c, mine):
                raise DeviceFault(f"{_name(c)} copies to bytes that it reads", c.offset)
            loaded = [w for w in mine.writes if w.region is None]
            lost = [(name, t) for name, t in lost if not overlap([t], loaded)]
            tables += loaded
            continue
        lost += [(_name(c), t) for t in tables if overlap([t], mine.buffers)]
        tables = [t for t in tables if not overlap([t], mine.buffers)]
        for name, t in lost:
            if overlap(mine.reads, [t]):
                raise DeviceFault(f"{_name(c)} looks up a table that the buffers of {name} have overwritten", c.offset)
        if work.blocks is None:
            continue
        chain.append(work)
        _check_operands(chain)
        if not work.is_chained:
            chain = []


def _check_operands(chain: Sequence[_Work]) -> None:
    """Raises DeviceFault if the last kernel of a chain writes over what one of its kernels still reads."""
    last = chain[-1]
    assert last.blocks and last.accesses
    reads = {r for w in chain if w.accesses for r in w.accesses.reads}
    if not overlap(last.accesses.writes, reads):
        return
    offset, (*earlier, own) = last.command.offset, (w.blocks.readings for w in chain if w.blocks)
    # where blocks are written is not known if they are transposed or reversed
    several = any(n > b for n, b in zip(last.blocks.shape, last.blocks.block, strict=True))
    is_turned = last.blocks.written is None and several
    if is_turned or last.blocks.overwrite_operands([r for readings in earlier for r in readings]):
        raise DeviceFault(f"{_name(last.command)} writes a block to bytes that a later block reads", offset)
    maps = {place for readings in (*earlier, own) for r in readings for place in of_map(r.map)}
    if overlap(last.accesses.writes, reads - maps):
        raise DeviceFault(f"{_name(last.command)} writes over weights or scales that it reads", offset)


#: Exceptions for a binary that the model does not understand: DeviceError, which is a ValueError, and those that
#: Python and numpy raise if values do not fit together or exceed the memory.
UNKNOWN = (ArithmeticError, AssertionError, LookupError, MemoryError, TypeError, ValueError)


class Device:
    """A binary, ready to run.

    Raises DeviceError if it cannot be decoded, DeviceFault for what `check_commands` finds.
    """

    def __init__(self, binary: Binary) -> None:
        self.binary = binary
        try:
            self.commands = binary.commands()
            check_commands(self.commands, binary.config)
        except UNKNOWN as e:
            raise _locate(e, "its command stream") from e

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Returns the outputs for all samples, signed integers of their size, [samples, ...] in Vela's shapes.

        inputs: [samples, ...], of any shape and type with as many bytes as the binary's; without any, one sample runs.
        Raises DeviceError.
        """
        b = self.binary
        if len(inputs) != len(b.inputs):
            raise DeviceError(f"{len(inputs)} inputs for a binary that has {len(b.inputs)}")
        samples = len(inputs[0]) if inputs else 1
        memory = self._memory(samples)
        for k, (x, t) in enumerate(zip(inputs, b.inputs, strict=True)):
            if x.itemsize != t.element or x[0].nbytes != t.bytes:
                raise DeviceError(
                    f"input {k} is {list(t.shape)} of {t.element} byte(s), given {list(x.shape[1:])} of {x.dtype}"
                )
            memory.at(t.region, t.address, t.bytes)[...] = np.ascontiguousarray(x).reshape(samples, -1).view(np.uint8)
        execution = b.config.commands.execution(b.config.core, memory)
        for c in self.commands:
            try:
                if not isinstance(c, Wait | Stop):
                    execution.step(c)
            except UNKNOWN as e:
                raise _locate(e, f"{type(c).__name__} at byte {c.offset:#x}", c.offset) from e
        return [_result(t, memory) for t in b.outputs]

    def _memory(self, samples: int) -> NumberMachine:
        b = self.binary
        sizes = b.regions
        try:
            memory = NumberMachine(samples, sizes, b.config.internal)
        except MemoryError as e:
            raise DeviceError(f"there is no room for {samples} times {sum(sizes.values()):,} bytes of memory") from e
        memory.region(READ_ONLY)[...] = np.frombuffer(b.read_only, np.uint8)
        return memory


def run(binary: Binary, inputs: Sequence[Array]) -> list[Array]:
    """Runs a binary on one sample; inputs and outputs have no axis of samples. Raises DeviceError."""
    return [y[0] for y in Device(binary).run([np.asarray(x)[None] for x in inputs])]


def _locate(e: Exception, where: str, offset: int = -1) -> DeviceError:
    """Returns the error with its place in the binary; offset: of the command, in bytes, unless the error has it."""
    if isinstance(e, DeviceFault):
        return DeviceFault(f"{where}: {e}", max(e.offset, offset))
    if isinstance(e, DeviceError):
        return type(e)(f"{where}: {e}")
    return DeviceError(f"{where}: the model does not understand it ({type(e).__name__}: {e})")


def _result(t: Tensor, memory: MemoryMap) -> Array:
    if t.element not in (1, 2, 4, 8):
        raise DeviceError(f"the model does not know elements of {t.element} bytes")
    raw = np.ascontiguousarray(memory.at(t.region, t.address, t.bytes))
    return raw.view(f"int{8 * t.element}").reshape(-1, *t.shape)
