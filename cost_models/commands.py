"""Cycles of each command of a stream, from the shapes, block and memories in its registers.

`command_stream.py` tells which formulas are Vela's.

Commands of Ethos-U85 that hand their results on within the NPU are a chain.
A chain costs its first command, with the output paths and reads of all of its commands and the writes of the last one.
(`EstimateAOCyclesPerElement` in architecture/ethosu85/ethos_u85_performance.cpp adds up the output paths.)
A RESIZE, for which Vela has no formula there, takes the output path's time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, prod
from typing import Any

from cost_models import estimator
from cost_models.blocks import Work, derive_block, derive_split_block
from cost_models.estimator import WeightFetch
from cost_models.machine import Machine, Memory, Place
from eqsat.device.binary import READ_ONLY, SCRATCH_FAST
from eqsat.device.core.operands import (
    Chained,
    Computation,
    Convolution,
    Dma,
    Elementwise,
    FeatureMap,
    Pooling,
    Resize,
    Wait,
)
from eqsat.device.core.registers import (
    ActivationFormat,
    ActivationReverse,
    ActivationTranspose,
    ElementwiseMode,
    PoolingMode,
    WeightSparsity,
)
from eqsat.device.ethos_u55.registers import AccFormat, ActivationFunction
from eqsat.target.family import HWC, SharedMemory

#: The NPU's own memory.
_NPU_MEMORY = Memory(float("inf"), 0, 1)
#: The memory of lookup tables of Ethos-U85: a byte a cycle (ethos_u85.cpp: _lutRam).
_TABLES = Memory(1.0, 0, 1)
#: Cycles per element of a division on Ethos-U85 (GetOutputCyclesPerElement).
_DIVISION = 33.0
#: Orders that Ethos-U85's output path writes at half its rate (GetActivationCyclesPerElement).
_SLOW = (ActivationTranspose.WHC, ActivationTranspose.WCH, ActivationTranspose.CWH)


@dataclass(frozen=True, slots=True)
class Issued:
    """A command, or several that run as one chain.

    kinds : convolution, pooling, elementwise, resize or copy, for each
    cycles: of all of them
    offset: in the stream, of the first one
    again : whether it differs from the command before in addresses alone
    """

    kinds: tuple[str, ...]
    cycles: float
    offset: int
    again: bool = False


def price_commands(machine: Machine, commands: Iterable[Any]) -> Iterator[Issued | Wait]:
    """Yields the priced commands and the waits of a stream. Raises DeviceError for commands that are not known."""
    chain: list[Computation] = []
    first, block, cycles = 0, None, 0.0
    for c in commands:
        match c:
            case Wait():
                yield c
            case Dma():
                yield Issued(("copy",), _copy(machine, c), c.offset)
            case Pooling() if c.block is block:  # such a command shares all objects but its feature maps
                yield Issued(("pooling",), cycles, c.offset, again=True)
            case Convolution() | Pooling() | Elementwise() | Resize():
                first = first if chain else c.offset
                chain.append(_without_addresses(c))
                if not isinstance(c.output.map, Chained):
                    block, cycles = c.block, _cycles(machine, tuple(chain))
                    yield Issued(tuple(type(k).__name__.lower() for k in chain), cycles, first)
                    chain.clear()


def _without_addresses(command: Any) -> Any:
    """Returns a command without addresses, so that the thousands of commands of a TRANSPOSE are priced once."""
    reads = {name: _move(getattr(command, name)) for name in ("ifm", "ifm2", "operands") if hasattr(command, name)}
    return replace(command, offset=0, output=replace(command.output, map=_move(command.output.map)), **reads)


def _move(operand: Any) -> Any:
    """Returns an operand, or each of several, with a feature map at address 0."""
    if isinstance(operand, tuple):
        return tuple(map(_move, operand))
    return replace(operand, bases=(0, 0, 0, 0)) if isinstance(operand, FeatureMap) else operand


def _copy(machine: Machine, c: Dma) -> float:
    into_tables = c.destination.region is None and not _has_shared_memory(machine)
    sink = _TABLES if into_tables else _memory(machine, c.destination.region)
    return estimator.transfer(_memory(machine, c.source.region), sink, c.length * prod(c.sizes))


@lru_cache(maxsize=4096)
def _cycles(machine: Machine, chain: tuple[Computation, ...]) -> float:
    first, written = chain[0], chain[-1].output.map
    path = sum(
        _path_of_shared(machine, c) if _has_shared_memory(machine) else _path_of_split(machine, c) for c in chain
    )
    besides = tuple(_operand_traffic(machine, m, c) for c in chain[1:] for m in _read(c))
    if isinstance(first, Convolution | Pooling):
        return _array(machine, first, written, path, besides)
    return _elementwise(machine, first, written, path, besides)


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
    read, kernel = _window(c), c.kernel
    # the shape that is written, like in Vela
    shape = _size(c.output.map) if isinstance(c.output.map, FeatureMap) else c.output.shape
    taps = kernel.height, kernel.width
    work = Work(_work_kind(c), _size(read), shape, taps, kernel.stride, kernel.dilation, read.element.bits)
    weights = None
    if isinstance(c, Convolution) and c.weights:
        source = _memory(machine, c.weights[0].region)
        weights = WeightFetch(sum(w.length for w in c.weights), source, c.sparsity != WeightSparsity.NONE)
    kernel_first = isinstance(c, Convolution) and not c.matrices and c.is_part_kernel_first
    if c.block.micro is None:
        blocks = derive_block(work, machine.core, c.block.shape, kernel_first)
    else:
        blocks = derive_split_block(work, machine.core, c.block.micro, c.block.shape, kernel_first)
    place = Place(_memory(machine, read.region), _sink(machine, written), _in_rows(read), _in_rows(written))
    return estimator.mac(machine, work, place, blocks, path, weights, _bits(written), besides)


def _work_kind(c: Convolution | Pooling) -> str:
    if isinstance(c, Convolution):
        return "depthwise" if c.depthwise else "product" if c.matrices else "conv"
    return "sum" if c.mode == PoolingMode.REDUCE_SUM else "pool"


def _elementwise(
    machine: Machine,
    c: Elementwise | Resize,
    written: FeatureMap | Chained | None,
    path: float,
    besides: tuple[tuple[Memory, float], ...],
) -> float:
    """Returns the cycles of an elementwise operation or a resize, like `_array`."""
    shape, block, operands = c.output.shape, c.block.shape, _read(c)
    sink = _sink(machine, written)
    place = Place(_memory(machine, operands[0].region) if operands else sink, sink, False, _in_rows(written))
    bits = max((m.element.bits for m in operands), default=8)
    if _has_shared_memory(machine):  # all but constants count for the memory of the first, one element for none
        read = next((m for m in operands if m.region != READ_ONLY), operands[-1])
        place = replace(place, read=_memory(machine, read.region), read_rows=_in_rows(read))
        counted = (m for m in operands if prod(_size(m)) > 1 or prod(shape) == 1)
        operands = tuple(m if m.region == READ_ONLY else _beside(m, read) for m in counted)
    moved = (*(_operand_traffic(machine, m, c) for m in operands), *besides)
    if isinstance(written, FeatureMap):
        moved = (*moved, _tensor_traffic(machine, written, block, reads=False))
    stored = (*shape[:2], estimator.round_depth(shape[2], place.write_rows))
    computing = estimator.by_block(machine, shape, block, path, place, bits, _bits(written))
    return max(prod(stored) / prod(shape) * computing, estimator.memories(moved))


def _path_of_shared(machine: Machine, c: Computation) -> float:
    """Returns the cycles per element of the output path of Ethos-U55 and U65.

    Unlike in Vela 5.1, a clamp takes none of its own.
    A maximum over a window takes half of `byte` (ethos_u55.cpp and ethos_u65.cpp: outputCycles).
    """
    core, result = machine.core, _bits(c.output.map)
    if isinstance(c, Elementwise):
        bits = next(m.element.bits for m in _read(c))
        if bits == 32:
            path = core.wide
        elif c.mode == ElementwiseMode.MUL:
            path = core.product if result == 32 else core.mul
        else:
            path = core.add if c.mode in (ElementwiseMode.ADD, ElementwiseMode.SUB) else core.byte
    elif c.accumulators.format == AccFormat.I40:
        path = core.mul
    else:
        path = core.byte / 2 if isinstance(c, Pooling) and c.mode == PoolingMode.MAX else core.byte
    return max(path, core.table) if c.output.activation.function >= ActivationFunction.TABLE_0 else path


def _path_of_split(machine: Machine, c: Computation) -> float:
    """Returns the cycles per element of the output path of Ethos-U85, with what a command does to its result."""
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


# ---- operands ------------------------------------------------------------------------------------------


def _has_shared_memory(machine: Machine) -> bool:
    """Whether the NPU is an Ethos-U55 or U65."""
    return isinstance(machine.core.memory, SharedMemory)


def _memory(machine: Machine, region: int | None) -> Memory:
    """Returns the memory in which a region lies; region None is the NPU's own memory."""
    if region is None:
        return _NPU_MEMORY
    return {READ_ONLY: machine.constants, SCRATCH_FAST: machine.activations}.get(region, machine.outer)


def _sink(machine: Machine, m: FeatureMap | Chained | None) -> Memory:
    return _memory(machine, m.region if isinstance(m, FeatureMap) else None)


def _window(c: Convolution | Pooling) -> FeatureMap:
    """Returns the feature map under the window: `ifm2`, the first accumulators, for a pooling without a function."""
    return c.ifm2 if isinstance(c, Pooling) and c.mode == PoolingMode.NONE and c.ifm2 is not None else c.ifm


def _read(c: Computation) -> tuple[FeatureMap, ...]:
    """Returns the feature maps that a command reads from memory; weights are none."""
    if isinstance(c, Elementwise):
        return tuple(o for o in c.operands if isinstance(o, FeatureMap))
    return (c.ifm if isinstance(c, Resize) else _window(c),)


def _operand_traffic(machine: Machine, m: FeatureMap, c: Computation) -> tuple[Memory, float]:
    """Returns the memory of an operand, and the bytes that it moves: once a block if the operand broadcasts."""
    out, block, shape = c.output.shape, c.block.shape, _size(m)
    if not isinstance(c, Elementwise):
        return _tensor_traffic(machine, m, block)
    count = prod(ceil(o / b) if n == 1 < o else n for n, o, b in zip(shape, out, block))
    part = block if shape == out else estimator.within(block, shape)
    return _traffic(machine, m, count / shape[2], part, reads=True)


def _tensor_traffic(machine: Machine, m: FeatureMap, block: HWC, reads: bool = True) -> tuple[Memory, float]:
    """Returns the memory of a whole tensor, and the bytes that it moves."""
    return _traffic(machine, m, m.height * m.width, block, reads)


def _traffic(machine: Machine, m: FeatureMap, positions: float, block: HWC, reads: bool) -> tuple[Memory, float]:
    """Returns the memory of a tensor, and the bytes that it moves, with those that short bursts waste.

    positions: how many of (h, w) are moved.
    """
    memory, rows, bits = _memory(machine, m.region), _in_rows(m), m.element.bits
    stored = positions * estimator.round_depth(m.depth, rows)
    return memory, stored * bits / 8 * estimator.estimate_waste(machine, memory, reads, rows, bits, block, _size(m))


def _size(m: FeatureMap) -> HWC:
    return m.height, m.width, m.depth


def _beside(m: FeatureMap, other: FeatureMap) -> FeatureMap:
    """Returns a feature map as if it lay in the memory and format of another one."""
    return replace(m, region=other.region, format=other.format)


def _in_rows(m: FeatureMap | Chained | None) -> bool:
    """Whether it is a feature map in rows, not in bricks."""
    return isinstance(m, FeatureMap) and m.format == ActivationFormat.NHWC


def _bits(m: FeatureMap | Chained | None) -> int:
    """Returns the bits of a result's elements, 8 for accumulators that are kept in the NPU."""
    return 8 if m is None else m.element.bits
