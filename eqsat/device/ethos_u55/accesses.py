"""The bytes that a command of Ethos-U55 or U65 reads and writes, and its blocks."""

from __future__ import annotations

from eqsat.device.core.block_order import Blocks, Reading
from eqsat.device.core.operands import ByteRange, Dma, FeatureMap
from eqsat.device.core.registers import WeightOrder
from eqsat.device.core.touched import Accesses, of_copy, of_kernel
from eqsat.device.ethos_u55.arithmetic import table_place
from eqsat.device.ethos_u55.commands import Command, Convolution, Elementwise, Pooling
from eqsat.device.ethos_u55.registers import PoolingMode
from eqsat.device.ethos_u55.weights import DEEP, SHALLOW


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
    return of_kernel((*read, table_place(c.output, shared)), c.output.map)


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
