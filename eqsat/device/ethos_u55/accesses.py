"""Which bytes a command of Ethos-U55 or U65 reads and writes, and in which blocks."""

from __future__ import annotations

from collections.abc import Iterable

from eqsat.device.core.block_order import Blocks, Reading
from eqsat.device.core.errors import DeviceError
from eqsat.device.core.operands import ByteRange, FeatureMap
from eqsat.device.core.registers import IfmUpscaleMode, PoolingMode, WeightOrder
from eqsat.device.core.touched import Accesses, around, of_map
from eqsat.device.ethos_u55.commands import Command, Convolution, Dma, Elementwise, Pooling
from eqsat.device.ethos_u55.execution import pieces, table_place
from eqsat.device.ethos_u55.weights import DEEP, SHALLOW


def accesses(c: Command, shared: int) -> Accesses | None:
    """None of a wait. shared: bytes of the shared memory. Raises DeviceError."""
    match c:
        case Convolution():
            return _kernel(c, (c.ifm,), (*c.weights, *c.scales), shared)
        case Pooling():
            return _kernel(c, (c.ifm,), c.scales, shared)
        case Elementwise():
            return _kernel(c, (c.ifm, c.ifm2), (), shared)
        case Dma():
            sources, destinations = pieces(c)
            if not sources:
                raise DeviceError("a copy of nothing")
            return Accesses(
                (around(c.source_region, sources, c.length),),
                (around(c.destination_region, destinations, c.length),),
            )
    return None


def _kernel(
    c: Convolution | Pooling | Elementwise,
    maps: Iterable[FeatureMap | None],
    constants: Iterable[ByteRange],
    shared: int,
) -> Accesses:
    table = table_place(c.output, shared)
    inputs = (r for m in maps if m is not None for r in of_map(m))
    reads = (*inputs, *constants, *(() if table is None else (table,)))
    return Accesses(reads, tuple(of_map(c.output.map)))


def blocks(c: Command) -> Blocks | None:
    """None of what is no kernel."""
    match c:
        case Convolution():
            readings = [Reading(c.ifm, c.kernel, _factor(c), None if c.depthwise else input_channels(c))]
        case Pooling():
            channels = input_channels(c) if c.mode == PoolingMode.REDUCE_SUM else None
            readings = [Reading(c.ifm, c.kernel, _factor(c), channels)]
        case Elementwise():
            readings = [Reading(m) for m in (c.ifm, c.ifm2) if m is not None]
        case _:
            return None
    out = c.output.map
    return Blocks((out.height, out.width, out.depth), c.block.shape, c.block.dependency, out, True, tuple(readings))


def _factor(c: Convolution | Pooling) -> int:
    return 1 if c.upscale == IfmUpscaleMode.NONE else 2


def input_channels(c: Convolution | Pooling) -> int:
    """How many channels of the input are read at a time where each result sees all of them."""
    part_kernel = isinstance(c, Convolution) and c.order == WeightOrder.PART_KERNEL_FIRST
    return SHALLOW if part_kernel or c.ifm.element.bits == 16 else DEEP
