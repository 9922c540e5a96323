"""Commands of Ethos-U55 and U65, executed one after the other on the memory of the model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from eqsat.device.arithmetic import activated, table_bytes
from eqsat.device.commands import Command, Convolution, Dma, Elementwise, Output, Pooling
from eqsat.device.errors import DeviceError
from eqsat.device.memory import MemoryMap
from eqsat.device.operands import FixedPointScale, Stop, Wait
from eqsat.device.operations import averaged, combined, convolved, output, pooled
from eqsat.device.registers import (
    AccFormat,
    ActivationClipRange,
    ActivationFunction,
    DmaStrideMode,
    IfmUpscaleMode,
    KernelDecomposition,
    PoolingMode,
    WeightOrder,
)
from eqsat.device.stream import Config
from eqsat.device.weights import Order, Scales, scales, weights

#: Tables lie in the last two banks of shared memory, in slots of 256 bytes.
_TABLES, _SLOT = 2048, 256
#: Factors of one as Vela writes them; the second rounds to one for all values of up to 16 bits.
_ONE = (FixedPointScale(1, 0), FixedPointScale((1 << 31) + 1, 31))


class Execution:
    """One run."""

    def __init__(self, config: Config, memory: MemoryMap) -> None:
        core = config.core
        self._cores, self._micro, self._memory = core.cores, core.micro[0][2], memory

    def step(self, c: Command) -> None:
        """Executes one command. Raises DeviceError."""
        memory = self._memory
        match c:
            case Wait() | Stop():
                pass
            case Dma():
                _copy(c, memory)
            case Convolution():
                values = convolved(c, memory.read(c.ifm), self._weights(c, memory))
                streams = tuple(memory.constant(s) for s in c.scales)
                _store(c.output, values, scales(streams, c.output.map.depth), memory)
            case Pooling():
                _pool(c, memory)
            case Elementwise():
                if c.upscale != IfmUpscaleMode.NONE:
                    raise DeviceError("the model does not know upscaled elementwise operations")
                second = c.scalar if c.ifm2 is None else memory.read(c.ifm2)
                _store(c.output, combined(c, memory.read(c.ifm), second), None, memory)

    def _weights(self, c: Convolution, memory: MemoryMap) -> np.ndarray:
        if c.decomposition != KernelDecomposition.D8X8 or c.block.accumulators == AccFormat.F16:
            raise DeviceError(f"the model does not know {c.decomposition.name} or {c.block.accumulators.name}")
        order = Order(
            shape=(c.output.map.depth, c.kernel.height, c.kernel.width, 1 if c.depthwise else c.ifm.depth),
            depthwise=c.depthwise,
            part_kernel=not c.depthwise and c.order == WeightOrder.PART_KERNEL_FIRST,
            dilation=c.kernel.dilation,
            block=c.block.shape[2],
            micro=self._micro,
            bits=c.ifm.element.bits,
            cores=self._cores,
        )
        return weights(tuple(memory.constant(s) for s in c.weights), order)


def _copies(c: Pooling) -> bool:
    """Whether an average over 1x1 hands on what it reads: what transposes are made of, by the thousand."""
    a, element = c.output.activation, c.output.map.element
    bounds = [b - (1 << 16) if element.signed and b >> 15 else b for b in (a.minimum, a.maximum)]
    return (
        c.mode == PoolingMode.AVERAGE
        and (c.kernel.height, c.kernel.width, c.kernel.stride) == (1, 1, (1, 1))
        and not c.kernel.padded
        and c.upscale == IfmUpscaleMode.NONE
        and c.output.scale in _ONE
        and (c.ifm.element, c.ifm.zero_point) == (element, c.output.map.zero_point)
        and (a.function, a.clip_range) == (ActivationFunction.RELU, ActivationClipRange.OFM_PRECISION)
        and tuple(bounds) == element.limits
    )


def _pool(c: Pooling, memory: MemoryMap) -> None:
    if _copies(c):
        return memory.write(c.output.map, memory.read(c.ifm))
    values = pooled(c, memory.read(c.ifm))
    own = None
    if c.mode == PoolingMode.MAX:
        # Vela 5.2's changelog calls what 5.1 did, a scale behind a maximum, incorrect; its older generator never set one
        out = replace(c.output, scale=FixedPointScale(1, 0))
    elif c.mode == PoolingMode.REDUCE_SUM:
        if c.output.map.depth != 1 or c.output.scale is None:
            raise DeviceError("the model does not know REDUCE_SUM to several channels, or with a scale for each")
        out = c.output
    elif c.kernel.padded:
        values, out = averaged(c, values), replace(c.output, scale=FixedPointScale(1, 0))
    else:
        out = c.output
        if out.scale is None:
            own = scales(tuple(memory.constant(s) for s in c.scales), out.map.depth)
    _store(out, values, own, memory)


def _store(o: Output, values: np.ndarray, own: Scales | None, memory: MemoryMap) -> None:
    table = None
    function, element = o.activation.function, o.map.element
    if function >= ActivationFunction.TABLE_0:
        at = memory.region(None).shape[1] - _TABLES + (function - ActivationFunction.TABLE_0) * _SLOT
        table = np.ascontiguousarray(memory.at(None, at, table_bytes(o.activation, element))[0])
    memory.write(o.map, activated(output(o, values, own), o.activation, element, table))


def _copy(c: Dma, memory: MemoryMap) -> None:
    """Pieces one after the other; a side that is walked in two or three dimensions has gaps between them."""
    if c.sizes[0] > 1 and c.skips[1]:
        raise DeviceError("the model does not know copies in three dimensions with gaps in the second")
    pieces = [p.copy() for p in _pieces(c, memory, c.source_region, c.source, c.source_mode)]
    for piece, data in zip(_pieces(c, memory, c.destination_region, c.destination, c.destination_mode), pieces):
        piece[...] = data


def _pieces(c: Dma, memory: MemoryMap, region: int | None, at: int, mode: DmaStrideMode) -> Iterator[np.ndarray]:
    for _ in range(c.sizes[0]):
        for _ in range(c.sizes[1]):
            yield memory.at(region, at, c.length)
            at += c.length + (c.skips[1] if mode >= DmaStrideMode.D2 else 0)
        at += c.skips[0] if mode == DmaStrideMode.D3 else 0
