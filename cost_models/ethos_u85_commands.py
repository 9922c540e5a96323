"""Cycles of each command of Ethos-U85.

They are computed from the shapes, block and memories in its registers.
`command_stream.py` tells which formulas are Vela's.

Commands that hand their results on within the NPU are a chain.
A chain costs its first command with the output paths of all of its commands added up.
(`EstimateAOCyclesPerElement` in architecture/ethosu85/ethos_u85_performance.cpp.)
The reads of all its commands and the writes of the last one count, too.
A RESIZE, for which Vela has no formula there, takes the output path's time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from math import prod
from typing import Any

from cost_models import estimator
from cost_models.blocks import BlockConfig, Work, derive_split_block
from cost_models.issued import Issued, array_work, memory, rows, size, weight_fetch, without_addresses
from cost_models.machine import Machine, Memory, Place
from eqsat.device.core.commands import Chained, Computation, Convolution, Elementwise, Pooling, Resize, Scalar
from eqsat.device.core.operands import Dma, FeatureMap, Wait
from eqsat.device.core.registers import (
    ActivationReverse,
    ActivationTranspose,
    ElementwiseMode,
    PoolingMode,
    WeightOrder,
    WeightSparsity,
)
from eqsat.target.family import HWC

#: Cycles per element of a division (GetOutputCyclesPerElement).
_DIVISION = 33.0
#: The memory of lookup tables: a byte a cycle (ethos_u85.cpp: _lutRam).
_TABLES = Memory(1.0, 0, 1)
#: Orders that the output path writes at half its rate (GetActivationCyclesPerElement).
_SLOW = (ActivationTranspose.WHC, ActivationTranspose.WCH, ActivationTranspose.CWH)


def price_commands(machine: Machine, commands: Iterable[Any]) -> Iterator[Issued | Wait]:
    """Yields the priced commands and the waits of a stream.

    Raises DeviceError for commands that are not known.
    """
    chain: list[Computation] = []
    first = 0
    for c in commands:
        match c:
            case Wait():
                yield c
            case Dma():
                yield Issued(("copy",), _copy(machine, c), c.offset)
            case Convolution() | Pooling() | Elementwise() | Resize():
                first = first if chain else c.offset
                chain.append(without_addresses(c))
                if not isinstance(c.output.map, Chained):
                    kinds = tuple(type(k).__name__.lower() for k in chain)
                    yield Issued(kinds, _cycles(machine, tuple(chain)), first)
                    chain.clear()


def _copy(machine: Machine, c: Dma) -> float:
    source, count = memory(machine, c.source.region), c.length * prod(c.sizes)
    sink = _TABLES if c.destination.region is None else memory(machine, c.destination.region)
    return estimator.transfer(source, sink, count)


@lru_cache(maxsize=4096)
def _cycles(machine: Machine, chain: tuple[Computation, ...]) -> float:
    first, written = chain[0], chain[-1].output.map
    path = sum(_path(machine, c) for c in chain)
    besides = tuple(_operand_traffic(machine, m, c) for c in chain[1:] for m in _read(c))
    if isinstance(first, Convolution | Pooling):
        return _array(machine, first, written, path, besides)
    shape, block, operands = first.output.shape, first.block.shape, _read(first)
    moved = (*(_operand_traffic(machine, m, first) for m in operands), *besides)
    sink = _sink(machine, written)
    if isinstance(written, FeatureMap):
        moved = (*moved, _tensor_traffic(machine, written, block, reads=False))
    place = Place(memory(machine, operands[0].region) if operands else sink, sink, False, _in_rows(written))
    stored = (*shape[:2], estimator.round_depth(shape[2], place.write_rows))
    bits = max((m.element.bits for m in operands), default=8)
    computing = estimator.by_block(machine, shape, block, path, place, bits, _bits(written))
    return max(prod(stored) / prod(shape) * computing, estimator.memories(moved))


def _array(
    machine: Machine,
    c: Convolution | Pooling,
    written: FeatureMap | Chained | None,
    path: float,
    besides: tuple[tuple[Memory, float], ...],
) -> float:
    """Returns the cycles of a convolution or pooling command, and of the chain behind it.

    written: the result of the last command of the chain.
    path: output cycles per element of the whole chain.
    besides: (memory, bytes) that the other commands of the chain read.
    """
    read = _window(c)
    # the shape that is written, like in Vela
    shape = size(c.output.map) if isinstance(c.output.map, FeatureMap) else c.output.shape
    work, weights = array_work(_work_kind(c), c.kernel, read, shape), None
    if isinstance(c, Convolution) and c.weights:
        weights = weight_fetch(machine, c.weights, c.sparsity != WeightSparsity.NONE)
    place = Place(memory(machine, read.region), _sink(machine, written), rows(read), _in_rows(written))
    return estimator.mac(machine, work, place, _blocks(machine, c, work), path, weights, _bits(written), besides)


def _blocks(machine: Machine, c: Convolution | Pooling, work: Work) -> BlockConfig:
    kernel_first = work.kind == "conv" and isinstance(c, Convolution) and c.order == WeightOrder.PART_KERNEL_FIRST
    assert c.block.micro is not None
    return derive_split_block(work, machine.core, c.block.micro, c.block.shape, kernel_first)


def _work_kind(c: Convolution | Pooling) -> str:
    if isinstance(c, Convolution):
        return "depthwise" if c.depthwise else "product" if c.matrices else "conv"
    return "sum" if c.mode == PoolingMode.REDUCE_SUM else "pool"


def _path(machine: Machine, c: Computation) -> float:
    """Returns the cycles per element of the output path, with what a command does to its result."""
    core, out = machine.core, _bits(c.output.map)
    first = c.operands[0] if isinstance(c, Elementwise) else c.ifm if isinstance(c, Resize) else _window(c)
    read = first.element.bits
    if isinstance(c, Elementwise) and c.mode == ElementwiseMode.DIV:
        return _DIVISION
    binary = isinstance(c, Elementwise) and len(c.operands) > 1
    wide = read == 32 and binary or 32 in (read, out) and isinstance(c.output.map, Chained)
    arithmetic = core.wide if wide else core.product if 32 in (read, out) else core.byte
    slow = c.output.transpose in _SLOW or c.output.reverse == ActivationReverse.W
    return max(arithmetic, core.byte * (1 + slow))


def _window(c: Convolution | Pooling) -> FeatureMap:
    """Returns the feature map under the window: `ifm2`, the first accumulators, for a pooling without a function."""
    return c.ifm2 if isinstance(c, Pooling) and c.mode == PoolingMode.NONE and c.ifm2 is not None else c.ifm


def _read(c: Computation) -> tuple[FeatureMap, ...]:
    """Returns the feature maps that a command reads from memory; weights are none."""
    if isinstance(c, Elementwise):
        return tuple(o for o in c.operands if not isinstance(o, Chained | Scalar))
    return (c.ifm if isinstance(c, Resize) else _window(c),)


def _operand_traffic(machine: Machine, m: FeatureMap, c: Computation) -> tuple[Memory, float]:
    """Returns the memory of an operand, and the bytes that it moves: once a block if the operand broadcasts."""
    if not isinstance(c, Elementwise):
        return _tensor_traffic(machine, m, c.block.shape)
    place, shape, out, block = memory(machine, m.region), size(m), c.output.shape, c.block.shape
    count = estimator.elements_in_blocks(shape, out, block)
    return place, estimator.operand_bytes(machine, place, rows(m), m.element.bits, block, shape, out, count)


def _tensor_traffic(machine: Machine, m: FeatureMap, block: HWC, reads: bool = True) -> tuple[Memory, float]:
    """Returns the memory of a whole tensor, and the bytes that it moves, with those that short bursts waste."""
    place, shape, bits = memory(machine, m.region), size(m), m.element.bits
    stored = prod(shape[:2]) * estimator.round_depth(shape[2], rows(m))
    return place, stored * bits / 8 * estimator.estimate_waste(machine, place, reads, rows(m), bits, block, shape)


def _sink(machine: Machine, m: FeatureMap | Chained | None) -> Memory:
    return memory(machine, m.region if isinstance(m, FeatureMap) else None)


def _in_rows(m: FeatureMap | Chained | None) -> bool:
    return isinstance(m, FeatureMap) and rows(m)


def _bits(m: FeatureMap | Chained | None) -> int:
    """Returns the bits of a result's elements, 8 for accumulators that are kept in the NPU."""
    return 8 if m is None else m.element.bits
