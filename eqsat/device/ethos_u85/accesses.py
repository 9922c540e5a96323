"""Which bytes a command of Ethos-U85 reads and writes, and in which blocks."""

from __future__ import annotations

import itertools

from eqsat.device.core.block_order import Blocks, Reading
from eqsat.device.core.errors import DeviceError
from eqsat.device.core.operands import ByteRange, FeatureMap
from eqsat.device.core.registers import IfmUpscaleMode
from eqsat.device.core.touched import Accesses, around, of_map
from eqsat.device.ethos_u85.arithmetic import table_place
from eqsat.device.ethos_u85.commands import Command, Convolution, Dma, DmaSide, Elementwise, Operand, Pooling, Resize
from eqsat.device.ethos_u85.execution import order_of
from eqsat.device.ethos_u85.registers import ActivationReverse, ActivationTranspose, PoolingMode
from eqsat.target.family import Core

#: Channels that are read at a time where each result sees all of them: of sums over the depth, and of the rows of
#: products of matrices.
_SUMMED, _MULTIPLIED = 16, 64


def accesses(c: Command) -> Accesses | None:
    """None of a wait. Raises DeviceError."""
    match c:
        case Convolution():
            return _kernel(c, (c.ifm, c.ifm2), (*c.weights, c.scales))
        case Pooling():
            return _kernel(c, (c.ifm if c.mode != PoolingMode.NONE else None, c.ifm2), (c.scales,))
        case Elementwise():
            return _kernel(c, c.operands, ())
        case Resize():
            return _kernel(c, (c.ifm,), ())
        case Dma():
            return _copy(c)
    return None


def _kernel(
    c: Convolution | Pooling | Elementwise | Resize,
    operands: tuple[Operand | None, ...],
    constants: tuple[ByteRange | None, ...],
) -> Accesses:
    table = table_place(c.output.activation)
    reads = [r for m in operands if isinstance(m, FeatureMap) for r in of_map(m)]
    reads += [r for r in constants if r is not None]
    if table is not None:
        reads.append(ByteRange(None, *table))
    out = c.output.map
    return Accesses(tuple(reads), tuple(of_map(out)) if isinstance(out, FeatureMap) else ())


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
    """Of a side whose pieces are chosen all that can be."""
    most = c.indices.most if side.indexed and c.indices is not None else c.sizes[1] - 1
    corners = itertools.product((0, c.sizes[0] - 1), (0, most))
    return around(side.region, (side.address + a * side.strides[0] + b * side.strides[1] for a, b in corners), c.length)


def blocks(c: Command, core: Core) -> Blocks | None:
    """None of what is no kernel. Raises DeviceError."""
    match c:
        case Convolution():
            readings = [Reading(c.ifm, c.kernel, _factor(c), _channels(c, core))]
            readings += [Reading(c.ifm2, whole=c.matrices)] if c.ifm2 is not None else []
        case Pooling():
            channels = _SUMMED if c.mode == PoolingMode.REDUCE_SUM else None
            readings = [] if c.mode == PoolingMode.NONE else [Reading(c.ifm, c.kernel, _factor(c), channels)]
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


def _factor(c: Convolution | Pooling) -> int:
    return 1 if c.upscale == IfmUpscaleMode.NONE else 2


def _channels(c: Convolution, core: Core) -> int | None:
    if c.depthwise:
        return None
    return _MULTIPLIED if c.matrices else order_of(c, core).deep
