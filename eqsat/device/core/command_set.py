"""What a family does with its commands: one record for each set of commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from eqsat.device.core.block_order import Blocks, Reading
from eqsat.device.core.commands import Command, Computation, Convolution, Elementwise, Pooling, Resize
from eqsat.device.core.decoding import Decoder
from eqsat.device.core.execution import Execution
from eqsat.device.core.instructions import instructions
from eqsat.device.core.operands import ByteRange, Dma, FeatureMap
from eqsat.device.core.registers import Layouts, PoolingMode
from eqsat.device.core.touched import Accesses, of_copy, of_kernel
from eqsat.target.family import Core, Family


@dataclass(frozen=True, slots=True, eq=False)
class CommandSet:
    """A set of commands.

    Its functions take a command that is neither a wait nor the end, and raise DeviceError.

    layouts: the instructions of the set.
    decoder: makes the commands from instructions.
    execution: a run on a machine.
    buffers: the part of the NPU's own memory that a kernel's blocks take, where tables can lie in it, too.
    input_channels: how many channels are read at a time, None if each result reads those of its own place alone.
    no_room: why the blocks are impossible, empty if they are possible.
    dependency: the largest BLOCKDEP.
    tables: KiB of the memory of tables.
    0: tables lie in the shared memory, whose size is in a stream's header.
    """

    layouts: Layouts
    decoder: type[Decoder]
    execution: type[Execution[Any]]
    buffers: Callable[[Computation, int], tuple[ByteRange, ...]]
    input_channels: Callable[[Convolution | Pooling, Core], int | None]
    no_room: Callable[[Computation, Family, Core], str]
    dependency: int
    tables: int = 0

    def decode(self, stream: Sequence[int]) -> Iterator[Any]:
        """Returns the commands of a stream's words, including waits and the end.

        Raises DeviceError, also for words behind the end.
        """
        return self.decoder().decode(list(instructions(stream, self.layouts)))

    def accesses(self, c: Command, internal: int) -> Accesses:
        """Returns the bytes that a command reads and writes; `internal`: bytes of the NPU's own memory."""
        match c:
            case Dma():
                return of_copy(c)
            case Convolution():
                read: tuple[object, ...] = (c.ifm, c.ifm2, *c.weights, *c.scales)
            case Pooling():
                read = (c.ifm if c.mode != PoolingMode.NONE else None, c.ifm2, *c.scales)
            case Elementwise():
                read = c.operands
            case Resize():
                read = (c.ifm,)
        return of_kernel(
            (*read, self.execution.table_place(c.output, internal)), c.output.map, self.buffers(c, internal)
        )

    def blocks(self, c: Command, core: Core) -> Blocks | None:
        """Returns the blocks of a kernel, None for a copy."""
        match c:
            case Dma():
                return None
            case Convolution() | Pooling():
                is_product = isinstance(c, Convolution) and c.matrices
                readings = [] if c.ifm2 is None else [Reading(c.ifm2, whole=is_product)]
                if isinstance(c, Convolution) or c.mode != PoolingMode.NONE:
                    readings.append(Reading(c.ifm, c.kernel, c.upscale.factor, self.input_channels(c, core)))
            case Elementwise():
                readings = [Reading(m) for m in c.operands if isinstance(m, FeatureMap)]
            case Resize():
                readings = [Reading(c.ifm, resized=(c.y, c.x))]
        out = c.output
        written = out.map if isinstance(out.map, FeatureMap) and not out.is_turned else None
        return Blocks(out.shape, c.block.shape, c.block.dependency, written, tuple(readings))
