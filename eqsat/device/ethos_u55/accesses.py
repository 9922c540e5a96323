"""The bytes that a command of Ethos-U55 or U65 reads and writes, and its blocks."""

from __future__ import annotations

from eqsat.device.core.block_order import Blocks, Reading, rounded_up
from eqsat.device.core.operands import ByteRange, Dma, FeatureMap
from eqsat.device.core.registers import WeightOrder
from eqsat.device.core.touched import Accesses, of_copy, of_kernel
from eqsat.device.ethos_u55.arithmetic import table_place
from eqsat.device.ethos_u55.commands import Command, Convolution, Elementwise, Pooling
from eqsat.device.ethos_u55.registers import AccFormat, PoolingMode
from eqsat.device.ethos_u55.weights import DEEP, SHALLOW

#: Bytes of a bank of shared memory.
BANK = 1024
#: Most banks of an NPU that reserves none for tables.
MANY = 16


def accesses(c: Command, shared: int) -> Accesses:
    """Returns the bytes that a command reads and writes.

    shared: bytes of the shared memory.
    Raises DeviceError.
    """
    match c:
        case Convolution():
            read: tuple[FeatureMap | ByteRange | None, ...] = (c.ifm, *c.weights, *c.scales)
        case Pooling():
            read = (c.ifm, *c.scales)
        case Elementwise():
            read = (c.ifm, c.ifm2)
        case Dma():
            return of_copy(c)
    return of_kernel((*read, table_place(c.output, shared)), c.output.map, _buffers(c, shared))


def _buffers(c: Convolution | Pooling | Elementwise, shared: int) -> tuple[ByteRange, ...]:
    """Returns the shared memory up to the last bank that a kernel's blocks take.

    It is empty for an NPU that reserves banks for tables.
    """
    if shared > MANY * BANK:
        return ()
    banks = c.block.inputs_end
    if not isinstance(c, Elementwise):
        banks = max(banks, c.block.accumulators_start + 2 * -(-accumulator_bytes(c, c.block.shape[0]) // BANK))
    return (ByteRange(None, 0, banks * BANK),)


def accumulator_bytes(c: Convolution | Pooling, rows: int) -> int:
    """Returns the bytes of the accumulators of a block with this number of rows."""
    _, width, depth = c.block.shape
    return rows * width * rounded_up(depth, 8) * (5 if c.block.accumulators == AccFormat.I40 else 4)


def blocks(c: Command) -> Blocks | None:
    """Returns the blocks of a kernel, None for other commands."""
    match c:
        case Convolution():
            readings = [Reading(c.ifm, c.kernel, c.upscale.factor, None if c.depthwise else input_channels(c))]
        case Pooling():
            channels = input_channels(c) if c.mode == PoolingMode.REDUCE_SUM else None
            readings = [Reading(c.ifm, c.kernel, c.upscale.factor, channels)]
        case Elementwise():
            readings = [Reading(m) for m in (c.ifm, c.ifm2) if m is not None]
        case _:
            return None
    return Blocks(c.output.shape, c.block.shape, c.block.dependency, c.output.map, tuple(readings))


def input_channels(c: Convolution | Pooling) -> int:
    """Returns the number of input channels that are read at a time if each result reads all of them."""
    part_kernel = isinstance(c, Convolution) and c.order == WeightOrder.PART_KERNEL_FIRST
    return SHALLOW if part_kernel or c.ifm.element.bits == 16 else DEEP
