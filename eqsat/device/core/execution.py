"""Executes commands in order, on numbers or on terms (`core/machine.py`): what all families do alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic

from eqsat.device.core.arithmetic import Scales
from eqsat.device.core.block_order import Blocks, Reading
from eqsat.device.core.decoding import Decoder
from eqsat.device.core.errors import DeviceError
from eqsat.device.core.machine import COMPARISONS, Machine, V, Window, operator_of
from eqsat.device.core.memory import Accesses, of_copy, of_kernel
from eqsat.device.core.operands import (
    SAME,
    Accumulators,
    Activation,
    ByteRange,
    Chained,
    Command,
    Computation,
    Convolution,
    Dma,
    Element,
    Elementwise,
    FeatureMap,
    FixedPointScale,
    Operand,
    Output,
    Pooling,
    Resize,
    Scalar,
)
from eqsat.device.core.registers import (
    AccInput,
    ActivationReverse,
    ElementwiseMode,
    IfmUpscaleMode,
    Layouts,
    PoolingMode,
    ResizeMode,
    Rounding,
    instructions,
)
from eqsat.target.family import HWC, Core, Family

#: The axis of [height, width, depth] along which results are reversed.
_REVERSED = {ActivationReverse.H: 0, ActivationReverse.W: 1, ActivationReverse.C: 2}
#: Modes that scale their operands first.
_SCALED = (ElementwiseMode.ADD, ElementwiseMode.SUB, ElementwiseMode.MIN, ElementwiseMode.MAX)
#: Modes whose results Vela asserts are not scaled.
_UNSCALED = (ElementwiseMode.DIV, ElementwiseMode.SHL, ElementwiseMode.SHR)
#: Bits by which a resized value, or the index of a maximum, is shifted up in an accumulator.
ABOVE = 16


class Execution(ABC, Generic[V]):
    """One run of a command stream.

    Chaining buffers and accumulators keep their values from one command to the next.
    """

    def __init__(self, core: Core, machine: Machine[V]) -> None:
        self._core, self._machine = core, machine
        #: {chaining buffer: (values, the name of their type, number of the command that wrote them)}.
        self._chained: dict[int, tuple[V, str, int]] = {}
        self._kept: V | None = None

    # ---- of a family -----------------------------------------------------------------------------

    @abstractmethod
    def convolve(self, c: Convolution) -> V:
        """Returns the sums of a convolution, without biases."""

    @abstractmethod
    def pool(self, c: Pooling) -> V | None:
        """Executes a pooling and returns what it computes, None if it only copies or keeps accumulators."""

    @abstractmethod
    def own_scales(self, c: Convolution | Pooling) -> Scales:
        """Returns the bias and scale of each channel."""

    @staticmethod
    @abstractmethod
    def table_place(o: Output, internal: int) -> ByteRange | None:
        """Returns where the table lies in the NPU's own memory of `internal` bytes, or None. Raises DeviceError."""

    @abstractmethod
    def activate(self, values: V, activation: Activation, element: Element, table: bytes | None) -> V:
        """Clamps scaled accumulators with their zero point, looks them up in a table, and returns them as `element`.

        Raises DeviceError for an activation or a table that the model does not know.
        """

    # ---- of all ----------------------------------------------------------------------------------

    def step(self, c: Command) -> V | None:
        """Executes a command and returns what it computes, None if it only copies or keeps accumulators.

        Raises what the machine does.
        """
        match c:
            case Dma():
                self._machine.copy(c)
                return None
            case Convolution():
                start = None if c.matrices else c.ifm2
                return self.finish(c, self.convolve(c), start, sums=True)
            case Pooling():
                return self.pool(c)
            case Elementwise():
                return self.finish(c, self._combine(c))
            case Resize():
                return self.finish(c, self._resize(c))

    def window(self, c: Convolution | Pooling) -> Window[V]:
        return self._machine.window(c.ifm, c.kernel, c.output.shape[:2], c.upscale)

    def _operand(self, o: Operand, shape: HWC, op: str) -> V:
        """Returns an operand without its zero point."""
        machine = self._machine
        match o:
            case Scalar():
                values = machine.number(o.value)
            case Chained():
                found = self._chained.get(o.buffer)
                if found is None or found[0].shape[1:] != shape or found[1] != o.element.dtype:
                    raise DeviceError(f"chaining buffer {o.buffer} holds no {o.element.dtype}{list(shape)}")
                values, _, writer = found
                machine.sources.add(writer)
            case FeatureMap():
                values = machine.read(o)
        return machine.operand(values, o.zero_point, op)

    def _combine(self, c: Elementwise) -> V:
        if c.upscale != IfmUpscaleMode.NONE:
            raise DeviceError("the model does not know upscaled elementwise operations")
        machine, shape = self._machine, c.output.shape
        op, attrs = operator_of(c.mode.name, c.output.rounding.name)
        operands = [self._operand(o, shape, op) for o in c.operands]
        if c.mode in _SCALED:
            operands = [
                self._scale(v, how.scale, how.rounding.rule, how.double)
                for v, how in zip(operands, c.inputs, strict=True)
            ]
        elif any(how.scale != SAME for how in c.inputs):
            raise DeviceError(f"the model does not know {c.mode.name} with scaled operands")
        if c.mode in _UNSCALED and c.output.scale not in (None, SAME):
            raise DeviceError(f"the model does not know {c.mode.name} with a scaled result")
        values = machine.apply(op, attrs, operands[:: -1 if c.reversed else 1], shape)
        # a mask of all bits: Vela builds SELECT from bitwise operations, REDUCE_ALL from a maximum
        return machine.times(values, -1) if op in COMPARISONS else values

    def _scale(self, v: V, scale: FixedPointScale, rounding: Rounding, double: int = 0) -> V:
        return v if scale == SAME else self._machine.scale(v, scale.multiplier, scale.shift, rounding, double)

    def _resize(self, c: Resize) -> V:
        if c.mode == ResizeMode.REPLICATE:
            raise DeviceError(f"the model does not know RESIZE by {c.mode.name}")
        is_bilinear = c.mode == ResizeMode.BILINEAR
        values = self._machine.resize(c.ifm, is_bilinear, c.y, c.x, c.output.shape)
        return self._machine.times(values, 1 << ABOVE)

    def finish(self, c: Computation, values: V, start: FeatureMap | None = None, sums: bool = False) -> V | None:
        """Adds the initial accumulators, then scales and stores the sums or keeps them.

        start: the initial accumulators in memory.
        sums: whether accumulators must be able to hold them.
        """
        how, out = c.accumulators, c.output
        values = self._add(values, how, start, out.shape)
        if sums:
            values = self.hold(values, how)
        self._kept = None if how.output else values
        return self.store(out, self.scale(c, values)) if how.output else None

    def _add(self, values: V, how: Accumulators, start: FeatureMap | None, shape: HWC) -> V:
        """Returns sums with the initial accumulators."""
        machine = self._machine
        match how.input:
            case AccInput.RESET:
                return values
            case AccInput.KEEP:
                if self._kept is None or self._kept.shape != values.shape:
                    raise DeviceError("the accumulators that are added to were not kept")
                first = self._kept
            case AccInput.IFM2:
                if start is None:
                    raise DeviceError("the model does not know what the accumulators begin with")
                if start.element.bits != (32 if how.bits == 32 else 64):
                    said = f"{how.format.name} that begin with {start.element.dtype}"
                    raise DeviceError(f"the model does not know {said}")
                first = machine.operand(machine.read(start), start.zero_point, "add")
        return machine.apply("add", (), [values, first], shape)

    def hold(self, values: V, how: Accumulators) -> V:
        """Returns sums unchanged, which the accumulators must be able to hold."""
        return self._machine.hold(values, how.bits)

    def scale(self, c: Computation, values: V) -> V:
        """Returns sums scaled by one factor, or with a bias and scaled for each channel."""
        machine, scale, rounding = self._machine, c.output.scale, c.output.rounding.rule
        if isinstance(c, Convolution | Pooling) and c.scales:
            own = self.own_scales(c)
            return machine.scale(machine.plus(values, own.bias), own.multiplier, own.shift, rounding)
        return values if scale is None else self._scale(values, scale, rounding)

    def store(self, out: Output, values: V) -> V:
        """Returns the results of scaled sums, and writes them to memory or into a chaining buffer."""
        if out.map is None:
            raise DeviceError("an output that goes nowhere")
        machine, element = self._machine, out.map.element
        place = self.table_place(out, machine.internal)
        table = None if place is None else machine.constant(place)
        values = self.activate(machine.plus(values, out.map.zero_point), out.activation, element, table)
        if out.is_turned:
            values = machine.turn(values, _REVERSED.get(out.reverse), out.transpose.axes)
        if isinstance(out.map, Chained):
            self._chained[out.map.buffer] = values, element.dtype, machine.writer
        else:
            machine.write(out.map, values)
            self._chained.clear()  # the chain ends here
        return values


@dataclass(frozen=True, slots=True, eq=False)
class CommandSet:
    """A set of commands; its functions take one that is neither a wait nor the end, and raise DeviceError.

    layouts: the instructions of the set.
    decoder: makes the commands from instructions.
    execution: a run on a machine.
    buffers: the part of the NPU's own memory that a kernel's blocks take, where tables can lie in it, too.
    input_channels: how many channels are read at a time, None if each result reads those of its own place alone.
    no_room: why the blocks are impossible, empty if they are possible.
    dependency: the largest BLOCKDEP.
    tables: KiB of the memory of tables; 0 if they lie in the shared memory, whose size is in a stream's header.
    """

    layouts: Layouts
    decoder: type[Decoder]
    execution: type[Execution[Any]]
    buffers: Callable[[Computation, int], tuple[ByteRange, ...]]
    input_channels: Callable[[Convolution | Pooling, Core], int | None]
    no_room: Callable[[Computation, Family, Core], str]
    dependency: int
    tables: int = 0

    def decode(self, stream: Sequence[int]) -> Iterator[Any]:
        """Returns a stream's commands, with waits and the end. Raises DeviceError, also for words after the end."""
        return self.decoder().decode(list(instructions(stream, self.layouts)))

    def accesses(self, c: Command, internal: int) -> Accesses:
        """Returns the bytes that a command reads and writes; `internal`: bytes of the NPU's own memory."""
        match c:
            case Dma():
                return of_copy(c)
            case Convolution():
                read: tuple[object, ...] = (c.ifm, c.ifm2, *c.weights, *c.scales)
            case Pooling():
                read = (c.ifm if c.mode != PoolingMode.NONE else None, c.ifm2, *c.scales)
            case Elementwise():
                read = c.operands
            case Resize():
                read = (c.ifm,)
        return of_kernel(
            (*read, self.execution.table_place(c.output, internal)), c.output.map, self.buffers(c, internal)
        )

    def blocks(self, c: Command, core: Core) -> Blocks | None:
        """Returns the blocks of a kernel, None for a copy."""
        match c:
            case Dma():
                return None
            case Convolution() | Pooling():
                is_product = isinstance(c, Convolution) and c.matrices
                readings = [] if c.ifm2 is None else [Reading(c.ifm2, whole=is_product)]
                if isinstance(c, Convolution) or c.mode != PoolingMode.NONE:
                    readings.append(Reading(c.ifm, c.kernel, c.upscale.factor, self.input_channels(c, core)))
            case Elementwise():
                readings = [Reading(m) for m in c.operands if isinstance(m, FeatureMap)]
            case Resize():
                readings = [Reading(c.ifm, resized=(c.y, c.x))]
        out = c.output
        written = out.map if isinstance(out.map, FeatureMap) and not out.is_turned else None
        return Blocks(out.shape, c.block.shape, c.block.dependency, written, tuple(readings))
