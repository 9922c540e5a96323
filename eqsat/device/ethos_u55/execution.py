"""Executes commands of Ethos-U55 and U65 in order, on the memory of the model."""

from __future__ import annotations

from dataclasses import replace

from eqsat.device.core.arithmetic import Scales, held
from eqsat.device.core.errors import DeviceError
from eqsat.device.core.memory import Constants, MemoryMap
from eqsat.device.core.operands import SAME, Dma, FixedPointScale
from eqsat.device.core.registers import IfmUpscaleMode, KernelDecomposition, WeightOrder
from eqsat.device.core.state import number
from eqsat.device.ethos_u55.arithmetic import activated, table_place
from eqsat.device.ethos_u55.commands import Command, Convolution, Elementwise, Output, Pooling
from eqsat.device.ethos_u55.operations import averaged, combined, output, pooled, window
from eqsat.device.ethos_u55.registers import AccFormat, ActivationClipRange, ActivationFunction, PoolingMode
from eqsat.device.ethos_u55.weights import Order, scales, weights
from eqsat.target.family import Core
from eqsat.tensor.types import Array

#: Bits of an accumulator.
ACCUMULATORS = {AccFormat.I32: 32, AccFormat.I40: 40}
#: Factors of one that Vela writes. The second rounds to one for all values of up to 16 bits.
_ONE = (SAME, FixedPointScale((1 << 31) + 1, 31))


class Execution:
    """One run of a command stream."""

    def __init__(self, core: Core, memory: MemoryMap) -> None:
        self._core, self._memory = core, memory

    def step(self, c: Command) -> None:
        """Executes one command. Raises DeviceError."""
        memory = self._memory
        match c:
            case Dma():
                memory.copy(c)
            case Convolution():
                weights = weights_of(c, self._core, memory)
                sums = window(c).convolved(memory.read(c.ifm), weights, c.depthwise)
                values = held(sums, ACCUMULATORS[c.block.accumulators])
                streams = tuple(memory.constant(s) for s in c.scales)
                _store(c.output, values, scales(streams, c.output.map.depth), memory)
            case Pooling():
                _pool(c, memory)
            case Elementwise():
                if c.upscale != IfmUpscaleMode.NONE:
                    raise DeviceError("the model does not know upscaled elementwise operations")
                second = c.scalar if c.ifm2 is None else memory.read(c.ifm2)
                _store(c.output, combined(c, memory.read(c.ifm), second), None, memory)


def weights_of(c: Convolution, core: Core, memory: Constants) -> Array:
    """Returns the weights of a convolution, int16 [out, height, width, in]. Raises DeviceError."""
    if c.decomposition != KernelDecomposition.D8X8 or c.block.accumulators == AccFormat.F16:
        raise DeviceError(f"the model does not know {c.decomposition.name} or {c.block.accumulators.name}")
    order = Order(
        shape=(c.output.map.depth, c.kernel.height, c.kernel.width, 1 if c.depthwise else c.ifm.depth),
        depthwise=c.depthwise,
        part_kernel=not c.depthwise and c.order == WeightOrder.PART_KERNEL_FIRST,
        dilation=c.kernel.dilation,
        block=c.block.shape[2],
        micro=core.micro[0][2],
        bits=c.ifm.element.bits,
        cores=core.cores,
    )
    return weights(tuple(memory.constant(s) for s in c.weights), order)


def copies(c: Pooling) -> bool:
    """Whether an average over 1x1 only copies its input.

    Vela builds transposes from thousands of these.
    """
    a, element = c.output.activation, c.output.map.element
    bounds = tuple(number(b, element.signed) for b in (a.minimum, a.maximum))
    return (
        c.mode == PoolingMode.AVERAGE
        and (c.kernel.height, c.kernel.width, c.kernel.stride) == (1, 1, (1, 1))
        and not c.kernel.padded
        and c.upscale == IfmUpscaleMode.NONE
        and c.output.scale in _ONE
        and (c.ifm.element, c.ifm.zero_point) == (element, c.output.map.zero_point)
        and (a.function, a.clip_range) == (ActivationFunction.RELU, ActivationClipRange.OFM_PRECISION)
        and bounds == element.limits
    )


def check_reduced(o: Output) -> None:
    """Raises DeviceError for a REDUCE_SUM that the model does not know."""
    if o.map.depth != 1 or o.scale is None:
        raise DeviceError("the model does not know REDUCE_SUM to several channels, or with a scale for each")


def _pool(c: Pooling, memory: MemoryMap) -> None:
    if copies(c):
        return memory.write(c.output.map, memory.read(c.ifm))
    if c.block.accumulators not in ACCUMULATORS:
        raise DeviceError(f"the model does not know {c.block.accumulators.name}")
    values = held(pooled(c, memory.read(c.ifm)), ACCUMULATORS[c.block.accumulators])
    out, own = c.output, None
    if c.mode == PoolingMode.MAX:
        # Vela 5.1 set a scale behind a maximum, which 5.2's changelog calls incorrect
        # its older generator never set one
        out = replace(out, scale=SAME)
    elif c.mode == PoolingMode.REDUCE_SUM:
        check_reduced(out)
    elif c.kernel.padded:
        values, out = averaged(c, values), replace(out, scale=SAME)
    elif out.scale is None:
        own = scales(tuple(memory.constant(s) for s in c.scales), out.map.depth)
    _store(out, values, own, memory)


def _store(o: Output, values: Array, own: Scales | None, memory: MemoryMap) -> None:
    table = table_of(o, memory.region(None).shape[1], memory)
    memory.write(o.map, activated(output(o, values, own), o.activation, o.map.element, table))


def table_of(o: Output, shared: int, memory: Constants) -> bytes | None:
    """Returns the table that is looked up, None if none is.

    shared: bytes of the shared memory.
    Raises DeviceError.
    """
    place = table_place(o, shared)
    return None if place is None else memory.constant(place)
