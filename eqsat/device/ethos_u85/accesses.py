"""The bytes and blocks of a command of Ethos-U85, and whether the blocks have room in the NPU."""

from __future__ import annotations

import itertools
import math

from eqsat.device.core.block_order import Blocks, Reading
from eqsat.device.core.block_size import no_block, rounded_up
from eqsat.device.core.errors import DeviceError
from eqsat.device.core.operands import ByteRange, FeatureMap
from eqsat.device.core.touched import Accesses, around, of_kernel
from eqsat.device.ethos_u85.arithmetic import table_place
from eqsat.device.ethos_u85.commands import Command, Convolution, Dma, DmaSide, Elementwise, Pooling, Resize
from eqsat.device.ethos_u85.execution import order_of
from eqsat.device.ethos_u85.registers import ActivationReverse, ActivationTranspose, PoolingMode
from eqsat.target.family import Core, Family, SplitMemory

#: Input channels that a sum over the depth reads at a time.
_SUMMED = 16
#: Input channels that a product of matrices reads at a time.
_MULTIPLIED = 64
#: Channels of a brick of accumulators.
_BRICK = 16
#: Bytes of an accumulator.
_ACCUMULATOR = 4


def accesses(c: Command) -> Accesses:
    """Returns the bytes that a command reads and writes. Raises DeviceError."""
    match c:
        case Convolution():
            read: tuple[object, ...] = (c.ifm, c.ifm2, *c.weights, c.scales)
        case Pooling():
            read = (c.ifm if c.mode != PoolingMode.NONE else None, c.ifm2, c.scales)
        case Elementwise():
            read = c.operands
        case Resize():
            read = (c.ifm,)
        case Dma():
            return _copy(c)
    return of_kernel((*read, table_place(c.output.activation)), c.output.map)


def _copy(c: Dma) -> Accesses:
    if min(c.sizes) < 1:
        raise DeviceError("a copy of nothing")
    reads = [_side(c, c.source)]
    if c.indices is not None:
        rows, columns = c.sizes
        step = columns * 4 + c.indices.skip
        reads.append(around(c.indices.region, (c.indices.address, c.indices.address + (rows - 1) * step), columns * 4))
    return Accesses(tuple(reads), (_side(c, c.destination),))


def _side(c: Dma, side: DmaSide) -> ByteRange:
    """Returns the bytes of one side of a copy; with indices, all that they can choose."""
    most = c.indices.most if side.indexed and c.indices is not None else c.sizes[1] - 1
    corners = itertools.product((0, c.sizes[0] - 1), (0, most))
    return around(side.region, (side.address + a * side.strides[0] + b * side.strides[1] for a, b in corners), c.length)


def blocks(c: Command, core: Core) -> Blocks | None:
    """Returns the blocks of a kernel, None for other commands. Raises DeviceError."""
    match c:
        case Convolution():
            readings = [Reading(c.ifm, c.kernel, c.upscale.factor, _channels(c, core))]
            readings += [Reading(c.ifm2, whole=c.matrices)] if c.ifm2 is not None else []
        case Pooling():
            channels = _SUMMED if c.mode == PoolingMode.REDUCE_SUM else None
            readings = [] if c.mode == PoolingMode.NONE else [Reading(c.ifm, c.kernel, c.upscale.factor, channels)]
            readings += [Reading(c.ifm2)] if c.ifm2 is not None else []
        case Elementwise():
            readings = [Reading(m) for m in c.operands if isinstance(m, FeatureMap)]
        case Resize():
            y, x = ((a.offset, a.step * a.scale + a.rest, a.scale) for a in (c.y, c.x))
            readings = [Reading(c.ifm, resized=(y, x))]
        case _:
            return None
    out = c.output
    in_place = (out.transpose, out.reverse) == (ActivationTranspose.HWC, ActivationReverse.NONE)
    written = out.map if isinstance(out.map, FeatureMap) else None
    return Blocks(out.shape, c.block.shape, c.block.dependency, written, in_place, tuple(readings))


def _channels(c: Convolution, core: Core) -> int | None:
    if c.depthwise:
        return None
    return _MULTIPLIED if c.matrices else order_of(c, core).deep


def no_room(c: Command, family: Family, core: Core) -> str:
    """Returns why the blocks of a convolution or pooling are impossible.

    Empty if they are possible, and for other commands.
    Accumulators have a memory of their own for two blocks (`ethosu85/ethos_u85.cpp`, Apache-2.0).
    """
    if not isinstance(c, Convolution | Pooling):
        return ""
    micro = next((m for m in core.micro if m[:2] == c.block.micro), None)
    if micro is None:
        return f"no micro blocks of {c.block.micro}"
    assert isinstance(core.memory, SplitMemory)
    block, room = c.block.shape, core.memory.accumulators
    needed = math.prod(block[:2]) * rounded_up(block[2], _BRICK) * _ACCUMULATOR
    beyond = f"blocks of {block}, whose accumulators take {needed} of {room} bytes" if needed > room else ""
    return no_block(block, micro, family) or beyond
