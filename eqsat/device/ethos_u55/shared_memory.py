"""Whether the blocks of a kernel of Ethos-U55 and U65 have room in the banks of shared memory.

Sizes are computed as in Vela (`ethosu55/ethos_u55.cpp`, TryBlockConfig, Apache-2.0).
Blocks of inputs and accumulators are held twice: one is filled while the other is used.
"""

from __future__ import annotations

from eqsat.device.core.block_order import no_block, rounded_up
from eqsat.device.ethos_u55.accesses import BANK, MANY, accumulator_bytes, input_channels
from eqsat.device.ethos_u55.commands import Command, Convolution, Elementwise, Pooling
from eqsat.device.ethos_u55.registers import ActivationFunction, PoolingMode
from eqsat.target.family import HWC, Core, Family, SharedMemory

#: Banks of the output.
_OUTPUT = 2
#: Banks of tables.
_TABLES = 2
#: Most elements of a dilated kernel along an axis in one pass.
_WINDOW = 8


def no_room(c: Command, family: Family, core: Core) -> str:
    """Returns why the blocks of a kernel are impossible, empty if they are possible or it is no kernel."""
    if not isinstance(c, Convolution | Pooling | Elementwise):
        return ""
    return no_block(c.block.shape, core.micro[0], family) or _banks(c, core)


def _buffers(memory: SharedMemory, size: int, bits: int) -> int:
    """Banks that two buffers of `size` bytes take."""
    return rounded_up(2 * -(-size // BANK), memory.granule * (2 if bits == 32 else 1))


def _banks(c: Convolution | Pooling | Elementwise, core: Core) -> str:
    memory, block, bits = core.memory, c.block, c.ifm.element.bits
    assert isinstance(memory, SharedMemory)
    height, width, depth = _input_block(c, core)
    inputs = _buffers(memory, height * width * rounded_up(depth * bits // 8, 8), bits)
    # Vela counts no banks for a second input of one element (`ElementwiseUsage::Scalar`)
    is_one = isinstance(c, Elementwise) and c.ifm2 is not None and c.ifm2.height * c.ifm2.width * c.ifm2.depth == 1
    second = 0 if block.second_start is None or is_one else inputs
    has_table = c.output.activation.function >= ActivationFunction.TABLE_0
    end = memory.banks - (_TABLES if memory.banks > MANY or has_table else 0)
    first_end = block.inputs_end if block.second_start is None else block.second_start
    if _OUTPUT + inputs > first_end or first_end + second > block.inputs_end:
        return f"banks up to {block.inputs_end} for blocks of {(height, width, depth)} of its inputs"
    if isinstance(c, Elementwise):
        return "" if block.inputs_end <= end else f"inputs up to bank {block.inputs_end} of {end}"
    # a micro block's second row has none where there is one row of results
    rows = 1 if c.output.map.height == c.kernel.height == 1 and core.micro[0][0] == 2 else block.shape[0]
    if not block.inputs_end <= block.accumulators_start <= end - 2 * -(-accumulator_bytes(c, rows) // BANK):
        return f"accumulators of blocks of {block.shape} from bank {block.accumulators_start} on, up to {end}"
    return ""


def _input_block(c: Convolution | Pooling | Elementwise, core: Core) -> HWC:
    """Returns (height, width, depth) of the inputs that a block of the output reads in one pass."""
    block = c.block.shape
    if isinstance(c, Elementwise):
        return block
    taps = (c.kernel.height, c.kernel.width)
    height, width = (
        rounded_up(-(-((n - 1) * stride + min((t - 1) * dilation + 1, _WINDOW)) // c.upscale.factor), micro)
        for n, stride, t, dilation, micro in zip(
            block[:2], c.kernel.stride, taps, c.kernel.dilation, core.micro[0][:2], strict=True
        )
    )
    summed = (
        isinstance(c, Convolution) and not c.depthwise or isinstance(c, Pooling) and c.mode == PoolingMode.REDUCE_SUM
    )
    if not summed:
        return height, width, block[2]
    assert not isinstance(c, Elementwise)
    return height, width, rounded_up(min(c.ifm.depth, input_channels(c)), 4 if c.ifm.element.bits == 16 else 8)
