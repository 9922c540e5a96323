"""The bytes and blocks of a command of Ethos-U85, and whether the blocks have room in the NPU."""

from __future__ import annotations

import math

from eqsat.device.core.block_order import Blocks, Reading, no_block, rounded_up
from eqsat.device.core.memory import BRICK
from eqsat.device.core.operands import Dma, FeatureMap
from eqsat.device.core.registers import ActivationFormat
from eqsat.device.core.touched import Accesses, of_copy, of_kernel
from eqsat.device.ethos_u85.arithmetic import table_place
from eqsat.device.ethos_u85.commands import Command, Convolution, Elementwise, Pooling, Resize
from eqsat.device.ethos_u85.decoding import TRANSPOSED
from eqsat.device.ethos_u85.execution import order_of
from eqsat.device.ethos_u85.registers import AccInput, ActivationReverse, ActivationTranspose, PoolingMode
from eqsat.target.family import Core, Family, SplitMemory

#: Input channels that a sum over the depth reads at a time.
_SUMMED = 16
#: Input channels that a product of matrices reads at a time.
_MULTIPLIED = 64
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
            return of_copy(c)
    return of_kernel((*read, table_place(c.output.activation)), c.output.map)


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
    written = out.map if in_place and isinstance(out.map, FeatureMap) else None
    return Blocks(out.shape, c.block.shape, c.block.dependency, written, tuple(readings))


def _channels(c: Convolution, core: Core) -> int | None:
    if c.depthwise:
        return None
    return _MULTIPLIED if c.matrices else order_of(c, core).deep


def no_room(c: Command, family: Family, core: Core) -> str:
    """Returns why the blocks of a kernel are impossible, empty if they are possible, and for a copy.

    Elementwise operations and RESIZE need no whole micro blocks, and have no accumulators in memory.
    """
    if isinstance(c, Dma):
        return ""
    if not isinstance(c, Convolution | Pooling):
        return _turned(c, family)
    micro = next((m for m in core.micro if m[:2] == c.block.micro), None)
    if micro is None:
        return f"no micro blocks of {c.block.micro}"
    return no_block(c.block.shape, micro, family) or _turned(c, family) or _accumulators(c, core)


def _turned(c: Convolution | Pooling | Elementwise | Resize, family: Family) -> str:
    """Returns why blocks are impossible once they are transposed (Vela's GenerateBlockConfig)."""
    axes, out = TRANSPOSED[c.output.transpose], c.output.map
    in_bricks = isinstance(out, FeatureMap) and out.format == ActivationFormat.NHCWB16 and axes[2] != 2
    height, width, depth = (c.block.shape[k] for k in axes)
    return no_block((height, width, depth), (1, 1, BRICK if in_bricks else 1), family)


def _accumulators(c: Convolution | Pooling, core: Core) -> str:
    """Returns why accumulators have no room in their memory, which is for two blocks (`ethosu85/ethos_u85.cpp`)."""
    block, how = c.block.shape, c.accumulators
    is_kept = how.input == AccInput.KEEP or not how.output
    if is_kept and any(n > b for n, b in zip(c.output.shape, block, strict=True)):
        return f"accumulators that are kept of more than one of the blocks of {block}"
    assert isinstance(core.memory, SplitMemory)
    needed, room = math.prod(block[:2]) * rounded_up(block[2], BRICK) * _ACCUMULATOR, core.memory.accumulators
    return f"blocks of {block}, whose accumulators take {needed} of {room} bytes" if needed > room else ""
