"""A second opinion on a compiled graph: the cycles of its command stream, command by command.

Vela's total prices the operators of its graph: a TRANSPOSE that becomes 3,138 commands on U55 is one pass over memory there. Here every command has
its price, by Vela's own formulas (`estimator.py`) with the shapes, block and memories that its registers say, and `per_command` cycles besides. Copies
take the bytes and the bandwidths of both memories, beside the commands that do not wait for them, as the stream's waits say.

It knows nothing of blocks of one command that overlap with those of the next (`Block.dependency`), nor of commands that share a memory's bandwidth with
a copy: as Vela's total, it adds up.

>>> price(binary.stream, Target.of("ethos-u55-128")).cycles                     # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache

from cost_models import estimator
from cost_models.blocks import Work, told_block
from cost_models.estimator import WeightFetch
from cost_models.machine import Machine, Memory, Place, machine_of
from eqsat.device.binary import READ_ONLY, SCRATCH_FAST
from eqsat.device.commands import (
    Convolution,
    Dma,
    Elementwise,
    Output,
    Pooling,
    commands,
)
from eqsat.device.errors import DeviceError
from eqsat.device.operands import FeatureMap, Wait
from eqsat.device.registers import (
    AccFormat,
    ActivationFormat,
    ActivationFunction,
    DmaStrideMode,
    PoolingMode,
    WeightOrder,
)
from eqsat.device.stream import decoded, read_header
from eqsat.target import Target
from eqsat.target.family import HWC

#: Cycles of a command besides what the formulas say, of which each pays the latency of its memories already. Arm's models of the hardware show no
#: more than that: `benchmarks/fvp.py` has the fit.
PER_COMMAND = 0.0
#: The set of commands (`eqsat.target.Family`) that has prices.
KNOWN = 1
#: Commands that may be under way while the next waits to be issued (ethos_u55.hpp: MaxOutstandingKernelOps).
_OUTSTANDING = 2
#: The NPU's own memory, as a side of a copy.
_INSIDE = Memory(float("inf"), 0, 1)


@dataclass(frozen=True, slots=True)
class KindPrice:
    """The commands of a kind, and cycles that they take. Of copies only those during which nothing else is done."""

    commands: int
    cycles: int


@dataclass(frozen=True, slots=True)
class StreamPrice:
    """Cycles of a command stream, how many commands it has (waits are none), and both by kind: convolution, pooling, elementwise, copy."""

    cycles: int
    commands: int
    by_kind: dict[str, KindPrice]

    @staticmethod
    def together(prices: Iterable[StreamPrice]) -> StreamPrice:
        """Of streams that run one after the other."""
        every = list(prices)
        kinds: dict[str, KindPrice] = {}
        for kind, p in (item for found in every for item in found.by_kind.items()):
            old = kinds.get(kind, KindPrice(0, 0))
            kinds[kind] = KindPrice(old.commands + p.commands, old.cycles + p.cycles)
        return StreamPrice(sum(p.cycles for p in every), sum(p.commands for p in every), dict(sorted(kinds.items())))


def price(stream: bytes, target: Target, per_command: float = PER_COMMAND) -> StreamPrice:
    """Of a stream with the driver's header, as `Binary.stream` is. target: what it was compiled for, whose flags name the memories. Raises DeviceError
    for a stream that cannot be decoded, that of a U85 among them, or is for another accelerator."""
    if target.family.commands != KNOWN:
        raise DeviceError(f"the commands of Ethos-{target.family.name.upper()} have no prices")
    accelerator = read_header(stream)[0].accelerator
    if accelerator != target.accelerator:
        raise DeviceError(f"the command stream is for {accelerator}, not {target.accelerator}")
    machine = machine_of(target)
    clock, counts, cycles = _Clock(), dict[str, int](), dict[str, float]()
    for c in commands(decoded(stream)):
        match c:
            case Wait():
                clock.wait(clock.work if c.kernel else clock.copies, c.outstanding)
            case Dma():
                clock.issue(clock.copies, per_command + _copy(machine, c))
                counts["copy"] = counts.get("copy", 0) + 1
            case Convolution() | Pooling() | Elementwise():
                kind = type(c).__name__.lower()
                taken = per_command + _cycles(machine, _unplaced(c))
                clock.wait(clock.work, _OUTSTANDING - 1)
                clock.issue(clock.work, taken)
                counts[kind] = counts.get(kind, 0) + 1
                cycles[kind] = cycles.get(kind, 0.0) + taken
    if "copy" in counts:
        cycles["copy"] = clock.end - sum(cycles.values())
    by_kind = {kind: KindPrice(counts[kind], round(cycles[kind])) for kind in sorted(counts)}
    return StreamPrice(round(clock.end), sum(counts.values()), by_kind)


@dataclass(slots=True)
class _Clock:
    """now: when the next command is read. work, copies: when each command of the two queues ends; a queue does one after the other."""

    now: float = 0.0
    work: list[float] = field(default_factory=list)
    copies: list[float] = field(default_factory=list)

    def issue(self, queue: list[float], cycles: float) -> None:
        queue.append(max([self.now, *queue[-1:]]) + cycles)

    def wait(self, queue: list[float], outstanding: int) -> None:
        """Until at most so many commands of a queue are under way."""
        if len(queue) > outstanding:
            self.now = max(self.now, queue[-1 - outstanding])

    @property
    def end(self) -> float:
        return max([0.0, *self.work[-1:], *self.copies[-1:]])


def _memory(machine: Machine, region: int | None) -> Memory:
    if region is None:
        return _INSIDE
    return {READ_ONLY: machine.constants, SCRATCH_FAST: machine.activations}.get(region, machine.outer)


def _copy(machine: Machine, c: Dma) -> float:
    pieces = c.sizes[0] * c.sizes[1] if max(c.source_mode, c.destination_mode) > DmaStrideMode.D1 else 1
    source, sink = _memory(machine, c.source_region), _memory(machine, c.destination_region)
    return estimator.transfer(source, sink, c.length * pieces)


_Computing = Convolution | Pooling | Elementwise


def _unplaced(c: _Computing) -> _Computing:
    """Without what does not decide its price, so that the thousands of commands of a TRANSPOSE are priced once."""
    moved = replace(c, offset=0, ifm=_anywhere(c.ifm), output=replace(c.output, map=_anywhere(c.output.map)))
    if isinstance(moved, Elementwise) and moved.ifm2 is not None:
        return replace(moved, ifm2=_anywhere(moved.ifm2))
    return moved


def _anywhere(m: FeatureMap) -> FeatureMap:
    return replace(m, bases=(0, 0, 0, 0))


@lru_cache(maxsize=4096)
def _cycles(machine: Machine, c: _Computing) -> float:
    return _elementwise(machine, c) if isinstance(c, Elementwise) else _array(machine, c)


def _array(machine: Machine, c: Convolution | Pooling) -> float:
    """Of what the MAC array does."""
    out = c.output.map
    work = Work(
        _work_kind(c),
        _shape(c.ifm),
        _shape(out),
        (c.kernel.height, c.kernel.width),
        c.kernel.stride,
        c.kernel.dilation,
        c.ifm.element.bits,
    )
    weights, part_kernel = None, False
    if isinstance(c, Convolution):
        part_kernel = not c.depthwise and c.order == WeightOrder.PART_KERNEL_FIRST
        encoded = sum(w.length for w in c.weights)
        weights = WeightFetch(encoded, source=_memory(machine, c.weights[0].region))
    blocks = told_block(work, machine.core.micro[0], c.block.shape, part_kernel)
    path = _path(machine, _gathering(machine, c), c.output)
    return estimator.mac_and_npu(machine, work, _place(machine, c.ifm, out), blocks, path, weights, out.element.bits)[0]


def _gathering(machine: Machine, c: Convolution | Pooling) -> float:
    """Cycles per element of the output path out of the accumulators."""
    if c.block.accumulators == AccFormat.I40:
        return machine.core.mul
    return machine.largest if isinstance(c, Pooling) and c.mode == PoolingMode.MAX else machine.core.byte


def _work_kind(c: Convolution | Pooling) -> str:
    if isinstance(c, Convolution):
        return "depthwise" if c.depthwise else "conv"
    return "sum" if c.mode == PoolingMode.REDUCE_SUM else "pool"


def _elementwise(machine: Machine, c: Elementwise) -> float:
    out, operands = c.output.map, [m for m in (c.ifm, c.ifm2) if m is not None]
    constant = next((m for m in operands if m.region == READ_ONLY), None) if len(operands) > 1 else None
    read = next(m for m in operands if m is not constant)
    path = machine.arithmetic(c.mode.name.lower(), read.element.bits, out.element.bits)
    return estimator.elementwise(
        machine,
        _shape(out),
        _path(machine, path, c.output),
        _place(machine, read, out),
        read.element.bits,
        out.element.bits,
        len(operands),
        None if constant is None else _shape(constant),
        c.block.shape,
    )


def _path(machine: Machine, arithmetic: float, o: Output) -> float:
    """Cycles per element of the output path. A clamp takes none of its own, which Vela 5.1 sees otherwise."""
    return max(arithmetic, machine.core.table) if o.activation.function >= ActivationFunction.TABLE_0 else arithmetic


def _place(machine: Machine, read: FeatureMap, write: FeatureMap) -> Place:
    return Place(
        _memory(machine, read.region),
        _memory(machine, write.region),
        read.format == ActivationFormat.NHWC,
        write.format == ActivationFormat.NHWC,
    )


def _shape(m: FeatureMap) -> HWC:
    return m.height, m.width, m.depth
