"""Cycles of each command of Ethos-U55 and U65.

They are computed from the shapes, block and memories in its registers.
`command_stream.py` tells which formulas are Vela's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from math import prod
from typing import Any

from cost_models import estimator
from cost_models.blocks import derive_block
from cost_models.issued import Issued, array_work, memory, rows, size, weight_fetch, without_addresses
from cost_models.machine import Machine, Place
from eqsat.device.binary import READ_ONLY
from eqsat.device.core.commands import Convolution, Elementwise, Output, Pooling
from eqsat.device.core.operands import Dma, FeatureMap, Wait
from eqsat.device.core.registers import PoolingMode, WeightOrder
from eqsat.device.ethos_u55.registers import AccFormat, ActivationFunction


def price_commands(machine: Machine, commands: Iterable[Any]) -> Iterator[Issued | Wait]:
    """Yields the priced commands and the waits of a stream.

    Raises DeviceError for commands that are not known.
    """
    block, cycles = None, 0.0
    for c in commands:
        match c:
            case Wait():
                yield c
            case Dma():
                yield Issued(("copy",), _copy(machine, c), c.offset)
            case Pooling() if c.block is block:  # such a command shares all objects but its feature maps
                yield Issued(("pooling",), cycles, c.offset, again=True)
            case Convolution() | Pooling() | Elementwise():
                block, cycles = c.block, _cycles(machine, without_addresses(c))
                yield Issued((type(c).__name__.lower(),), cycles, c.offset)


def _copy(machine: Machine, c: Dma) -> float:
    source, sink = memory(machine, c.source.region), memory(machine, c.destination.region)
    return estimator.transfer(source, sink, c.length * prod(c.sizes))


_Computing = Convolution | Pooling | Elementwise


@lru_cache(maxsize=4096)
def _cycles(machine: Machine, c: _Computing) -> float:
    return _elementwise(machine, c) if isinstance(c, Elementwise) else _array(machine, c)


def _array(machine: Machine, c: Convolution | Pooling) -> float:
    """Returns the cycles of a convolution or pooling command."""
    out = _get_written(c)
    work = array_work(_work_kind(c), c.kernel, c.ifm, size(out))
    weights, part_kernel = None, False
    if isinstance(c, Convolution):
        part_kernel = not c.depthwise and c.order == WeightOrder.PART_KERNEL_FIRST
        weights = weight_fetch(machine, c.weights)
    blocks = derive_block(work, machine.core, c.block.shape, part_kernel)
    path = _path(machine, _accumulator_path(machine, c), c.output)
    return estimator.mac(machine, work, _place(machine, c.ifm, out), blocks, path, weights, out.element.bits)


def _accumulator_path(machine: Machine, c: Convolution | Pooling) -> float:
    """Returns the cycles per element of the output path out of the accumulators."""
    if c.accumulators.format == AccFormat.I40:
        return machine.core.mul
    return machine.largest if isinstance(c, Pooling) and c.mode == PoolingMode.MAX else machine.core.byte


def _work_kind(c: Convolution | Pooling) -> str:
    if isinstance(c, Convolution):
        return "depthwise" if c.depthwise else "conv"
    return "sum" if c.mode == PoolingMode.REDUCE_SUM else "pool"


def _elementwise(machine: Machine, c: Elementwise) -> float:
    out, operands = _get_written(c), [m for m in c.operands if isinstance(m, FeatureMap)]
    constant = next((m for m in operands if m.region == READ_ONLY), None) if len(operands) > 1 else None
    read = next(m for m in operands if m is not constant)
    path = machine.arithmetic(c.mode.name.lower(), read.element.bits, out.element.bits)
    return estimator.elementwise(
        machine,
        size(out),
        c.block.shape,
        _path(machine, path, c.output),
        _place(machine, read, out),
        read.element.bits,
        out.element.bits,
        [size(m) for m in operands if m is not constant],
        None if constant is None else size(constant),
    )


def _get_written(c: _Computing) -> FeatureMap:
    assert isinstance(c.output.map, FeatureMap)
    return c.output.map


def _path(machine: Machine, arithmetic: float, o: Output) -> float:
    """Returns output cycles per element; unlike in Vela 5.1, a clamp takes none of its own."""
    return max(arithmetic, machine.core.table) if o.activation.function >= ActivationFunction.TABLE_0 else arithmetic


def _place(machine: Machine, read: FeatureMap, write: FeatureMap) -> Place:
    return Place(memory(machine, read.region), memory(machine, write.region), rows(read), rows(write))
