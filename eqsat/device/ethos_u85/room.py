"""Whether the blocks of a command of Ethos-U85 have room in the NPU, and how many channels they read at a time."""

from __future__ import annotations

import math

from eqsat.device.core.block_order import no_block, round_up
from eqsat.device.core.operands import BRICK, Computation, Convolution, FeatureMap, Pooling
from eqsat.device.core.registers import AccInput, ActivationFormat, PoolingMode
from eqsat.device.ethos_u85.execution import order_of
from eqsat.target.family import Core, Family, SplitMemory

#: Input channels that a sum over the depth reads at a time.
_SUMMED = 16
#: Input channels that a product of matrices reads at a time.
_MULTIPLIED = 64
#: Bytes of an accumulator.
_ACCUMULATOR = 4


def input_channels(c: Convolution | Pooling, core: Core) -> int | None:
    """Returns the input channels that are read at a time; None if each result reads its own channel.

    Raises DeviceError.
    """
    if isinstance(c, Pooling):
        return _SUMMED if c.mode == PoolingMode.REDUCE_SUM else None
    if c.depthwise:
        return None
    return _MULTIPLIED if c.matrices else order_of(c, core).deep


def no_room(c: Computation, family: Family, core: Core) -> str:
    """Returns why the blocks of a command are impossible, empty if they are possible.

    Elementwise operations and RESIZE need no whole micro blocks, and have no accumulators in memory.
    """
    if not isinstance(c, Convolution | Pooling):
        return _refuse_turned(c, family)
    micro = next((m for m in core.micro if m[:2] == c.block.micro), None)
    if micro is None:
        return f"no micro blocks of {c.block.micro}"
    return no_block(c.block.shape, micro, family) or _refuse_turned(c, family) or _accumulators(c, core)


def _refuse_turned(c: Computation, family: Family) -> str:
    """Returns why blocks are impossible once they are transposed (Vela's GenerateBlockConfig)."""
    axes, out = c.output.transpose.axes, c.output.map
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
    needed, room = math.prod(block[:2]) * round_up(block[2], BRICK) * _ACCUMULATOR, core.memory.accumulators
    return f"blocks of {block}, whose accumulators take {needed} of {room} bytes" if needed > room else ""
