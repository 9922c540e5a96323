"""The banks of shared memory that the blocks of a command of Ethos-U55 or U65 take, and whether there are enough.

Sizes are computed as in Vela (`ethosu55/ethos_u55.cpp`, TryBlockConfig, Apache-2.0).
Blocks of inputs and accumulators are held twice: one is filled while the other is used.
"""

from __future__ import annotations

from eqsat.device.core.block_order import no_block, round_up
from eqsat.device.core.operands import Banks, ByteRange, Computation, Convolution, Elementwise, FeatureMap, Pooling
from eqsat.device.core.registers import PoolingMode
from eqsat.device.ethos_u55.execution import deep_channels
from eqsat.device.ethos_u55.registers import AccFormat, ActivationFunction
from eqsat.target.family import Core, Family, SharedMemory

#: Bytes of a bank of shared memory.
_BANK = 1024
#: Most banks of an NPU that reserves none for tables.
_MANY = 16
#: Banks of the output.
_OUTPUT = 2
#: Banks of tables.
_TABLES = 2
#: Most elements of a dilated kernel along an axis in one pass.
_WINDOW = 8


def buffers(c: Computation, shared: int) -> tuple[ByteRange, ...]:
    """Returns the part of `shared` bytes of shared memory that blocks take, none if tables have banks of their own."""
    if shared > _MANY * _BANK:
        return ()
    banks = _banks(c)
    end = banks.inputs_end
    if isinstance(c, Convolution | Pooling):
        end = max(end, banks.accumulators_start + _accumulators(c, c.block.shape[0]))
    return (ByteRange(None, 0, end * _BANK),)


def no_room(c: Computation, family: Family, core: Core) -> str:
    """Returns why the blocks of a command are impossible, empty if they are possible."""
    return no_block(c.block.shape, core.micro[0], family) or _no_banks(c, core)


def input_channels(c: Convolution | Pooling, _: Core) -> int | None:
    """Returns the input channels that are read at a time; None if each result reads its own channel."""
    if c.depthwise if isinstance(c, Convolution) else c.mode != PoolingMode.REDUCE_SUM:
        return None
    return deep_channels(c)


def _no_banks(c: Computation, core: Core) -> str:
    memory, banks = core.memory, _banks(c)
    assert isinstance(memory, SharedMemory)
    height, width, depth, bits = _input_block(c, core)
    size = height * width * round_up(depth * bits // 8, 8)
    inputs = round_up(_twice(size), memory.granule * (2 if bits == 32 else 1))
    # Vela counts no banks for a second input of one element (`ElementwiseUsage::Scalar`)
    is_one = isinstance(c, Elementwise) and any(_is_one(m) for m in c.operands[1:])
    second = 0 if banks.second_start is None or is_one else inputs
    has_table = c.output.activation.function >= ActivationFunction.TABLE_0
    end = memory.banks - (_TABLES if memory.banks > _MANY or has_table else 0)
    first_end = banks.inputs_end if banks.second_start is None else banks.second_start
    if _OUTPUT + inputs > first_end or first_end + second > banks.inputs_end:
        return f"banks up to {banks.inputs_end} for blocks of {(height, width, depth)} of its inputs"
    if not isinstance(c, Convolution | Pooling):
        return "" if banks.inputs_end <= end else f"inputs up to bank {banks.inputs_end} of {end}"
    # a micro block's second row has none where there is one row of results
    rows = 1 if c.output.shape[0] == c.kernel.height == 1 and core.micro[0][0] == 2 else c.block.shape[0]
    if not banks.inputs_end <= banks.accumulators_start <= end - _accumulators(c, rows):
        return f"accumulators of blocks of {c.block.shape} from bank {banks.accumulators_start} on, up to {end}"
    return ""


def _banks(c: Computation) -> Banks:
    assert c.block.banks is not None
    return c.block.banks


def _twice(size: int) -> int:
    """Returns the banks that two buffers of `size` bytes take."""
    return 2 * -(-size // _BANK)


def _accumulators(c: Convolution | Pooling, rows: int) -> int:
    """Returns the banks of the accumulators of blocks with this number of rows."""
    _, width, depth = c.block.shape
    return _twice(rows * width * round_up(depth, 8) * (5 if c.accumulators.format == AccFormat.I40 else 4))


def _is_one(o: object) -> bool:
    return isinstance(o, FeatureMap) and o.height * o.width * o.depth == 1


def _input_block(c: Computation, core: Core) -> tuple[int, int, int, int]:
    """Returns (height, width, depth, bits) of the inputs that a block of the output reads in one pass."""
    height, width, depth = c.block.shape
    if not isinstance(c, Convolution | Pooling):
        bits = c.operands[0].element.bits if isinstance(c, Elementwise) else c.ifm.element.bits
        return height, width, depth, bits
    taps, bits = (c.kernel.height, c.kernel.width), c.ifm.element.bits
    height, width = (
        round_up(-(-((n - 1) * stride + min((t - 1) * dilation + 1, _WINDOW)) // c.upscale.factor), micro)
        for n, stride, t, dilation, micro in zip(
            (height, width), c.kernel.stride, taps, c.kernel.dilation, core.micro[0][:2], strict=True
        )
    )
    channels = input_channels(c, core)
    depth = depth if channels is None else round_up(min(c.ifm.depth, channels), 4 if bits == 16 else 8)
    return height, width, depth, bits
