"""Executes commands of Ethos-U85 in order, on numbers or on terms (`core/machine.py`)."""

from __future__ import annotations

from typing import Generic

from eqsat.device.core.errors import DeviceError
from eqsat.device.core.machine import COMPARISONS, Machine, V, Window, operator_of, scaled_by, scaled_by_channel
from eqsat.device.core.memory import Constants
from eqsat.device.core.operands import SAME, ByteRange, Dma, FeatureMap, FixedPointScale
from eqsat.device.core.registers import IfmUpscaleMode, KernelDecomposition, Rounding, WeightOrder
from eqsat.device.ethos_u85.arithmetic import activated, table_place
from eqsat.device.ethos_u85.commands import (
    Accumulators,
    Chained,
    Command,
    Convolution,
    Elementwise,
    InputScale,
    Operand,
    Output,
    Pooling,
    Resize,
    Scalar,
)
from eqsat.device.ethos_u85.decoding import TRANSPOSED
from eqsat.device.ethos_u85.registers import (
    AccFormat,
    AccInput,
    ActivationReverse,
    ElementwiseMode,
    PoolingMode,
    ResizeMode,
    WeightFormat,
    WeightSparsity,
)
from eqsat.device.ethos_u85.weights import Order, scales, weights
from eqsat.target.family import HWC, Core
from eqsat.tensor.types import Array

#: Bits of an accumulator.
_ACCUMULATORS = {AccFormat.I32: 32, AccFormat.I48: 48}
#: Bits of the elements in memory that accumulators may begin with.
_INITIAL = {AccFormat.I32: 32, AccFormat.I48: 64}
#: The axis of [height, width, depth] along which results are reversed.
_REVERSED = {ActivationReverse.H: 0, ActivationReverse.W: 1, ActivationReverse.C: 2}
#: Modes that scale their operands first.
_SCALED = (ElementwiseMode.ADD, ElementwiseMode.SUB, ElementwiseMode.MIN, ElementwiseMode.MAX)
#: Modes whose results Vela asserts are not scaled.
_UNSCALED = (ElementwiseMode.DIV, ElementwiseMode.SHL, ElementwiseMode.SHR)
#: Bits by which a resized value, or the index of a maximum, is shifted up in an accumulator.
_ABOVE = 16


class Execution(Generic[V]):
    """One run of a command stream.

    Chaining buffers and accumulators keep their values from one command to the next.
    """

    def __init__(self, core: Core, machine: Machine[V]) -> None:
        self._core, self._machine = core, machine
        #: {chaining buffer: (values, the name of their type, number of the command that wrote them)}.
        self._chained: dict[int, tuple[V, str, int]] = {}
        self._kept: V | None = None

    def step(self, c: Command) -> V | None:
        """Executes one command and returns what it computes. Raises what the machine does.

        None for a copy, and for a command whose accumulators are kept.
        """
        match c:
            case Dma():
                self._machine.copy(c)
                return None
            case Convolution():
                start = None if c.matrices else c.ifm2
                return self._finish(c.accumulators, self._convolved(c), start, c.output, c.scales, sums=True)
            case Pooling():
                return self._finish(c.accumulators, self._pooled(c), c.ifm2, c.output, c.scales, sums=True)
            case Elementwise():
                return self._finish(c.accumulators, self._combined(c), None, c.output, None)
            case Resize():
                return self._finish(c.accumulators, self._resized(c), None, c.output, None)

    # ---- accumulators ----------------------------------------------------------------------------

    def _window(self, c: Convolution | Pooling) -> Window[V]:
        return self._machine.window(c.ifm, c.kernel, c.output.shape[:2], c.upscale)

    def _convolved(self, c: Convolution) -> V:
        depth = c.output.shape[2]
        if not c.matrices:
            if c.depthwise and c.ifm.depth not in (1, depth):
                raise DeviceError(f"a depthwise convolution of {c.ifm.depth} channels to {depth}")
            return self._window(c).convolved(weights_of(c, self._core, self._machine), c.depthwise)
        k = c.kernel
        if (k.height, k.width, k.stride) != (1, 1, (1, 1)) or k.padded or c.upscale != IfmUpscaleMode.NONE:
            raise DeviceError("the model does not know products of matrices with a window")
        if (c.format, c.sparsity) != (WeightFormat.SWD, WeightSparsity.NONE):  # which Vela sets for them
            raise DeviceError("the model does not know products of matrices in a format of weights")
        assert c.ifm2 is not None
        return self._machine.product(c.ifm, c.ifm2, c.output.shape)

    def _pooled(self, c: Pooling) -> V:
        machine = self._machine
        if c.mode == PoolingMode.NONE:
            return machine.zeros(c.output.shape)
        if c.mode in (PoolingMode.ARGMAX_X, PoolingMode.ARGMAX_Y):
            _check_argmax(c)
        if c.mode == PoolingMode.AVERAGE and c.output.scale != SAME:
            raise DeviceError("the model does not know an average that is scaled")
        window = self._window(c)
        match c.mode:
            case PoolingMode.MAX | PoolingMode.MIN:
                return window.extremum("max" if c.mode == PoolingMode.MAX else "min")
            case PoolingMode.AVERAGE:
                return machine.recognized(machine.mean(window.summed(), window.counts()))
            case PoolingMode.REDUCE_SUM:
                return window.summed_over_depth()
            case PoolingMode.SUM:
                return window.summed()
            case _:  # in the upper bits: Vela shifts the value below away
                return machine.times(window.first_largest(), 1 << _ABOVE)

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

    def _combined(self, c: Elementwise) -> V:
        if c.upscale != IfmUpscaleMode.NONE:
            raise DeviceError("the model does not know upscaled elementwise operations")
        machine, shape = self._machine, c.output.shape
        op, attrs = operator_of(c.mode.name, c.output.rounding.name)
        operands = [self._operand(o, shape, op) for o in c.operands]
        if c.mode in _SCALED:
            operands = [self._scaled_input(v, how) for v, how in zip(operands, c.inputs, strict=True)]
        elif any(how.scale != SAME for how in c.inputs):
            raise DeviceError(f"the model does not know {c.mode.name} with scaled operands")
        if c.mode in _UNSCALED and c.output.scale != SAME:
            raise DeviceError(f"the model does not know {c.mode.name} with a scaled result")
        values = machine.applied(op, attrs, operands, shape)
        # a mask of all bits: Vela builds SELECT from bitwise operations, REDUCE_ALL from a maximum
        return machine.times(values, -1) if op in COMPARISONS else values

    def _scaled_input(self, v: V, how: InputScale) -> V:
        if how.scale == SAME:
            return v
        return self._machine.scaled(v, how.scale.multiplier, how.scale.shift, how.rounding.rule, how.double)

    def _resized(self, c: Resize) -> V:
        if c.mode == ResizeMode.REPLICATE:
            raise DeviceError(f"the model does not know RESIZE by {c.mode.name}")
        y, x = ((a.offset, a.step * a.scale + a.rest, a.scale) for a in (c.y, c.x))
        values = self._machine.resized(c.ifm, c.mode == ResizeMode.BILINEAR, y, x, c.output.shape)
        return self._machine.times(values, 1 << _ABOVE)

    # ---- results ---------------------------------------------------------------------------------

    def _finish(
        self,
        how: Accumulators,
        values: V,
        start: FeatureMap | None,
        out: Output,
        own: ByteRange | None,
        sums: bool = False,
    ) -> V | None:
        """Adds the initial accumulators, then scales and stores the sums or keeps them.

        sums: whether accumulators must be able to hold them.
        """
        machine = self._machine
        if how.input == AccInput.KEEP:
            if self._kept is None or self._kept.shape != values.shape:
                raise DeviceError("the accumulators that are added to were not kept")
            values = machine.applied("add", (), [values, self._kept], out.shape)
        elif how.input == AccInput.IFM2:
            if start is None:
                raise DeviceError("the model does not know what the accumulators begin with")
            if start.element.bits != _INITIAL[how.format]:
                raise DeviceError(f"the model does not know {how.format.name} that begin with {start.element.dtype}")
            first = machine.operand(machine.read(start), start.zero_point, "add")
            values = machine.applied("add", (), [values, first], out.shape)
        if sums:
            values = machine.held(values, _ACCUMULATORS[how.format])
        self._kept = None if how.output else values
        if not how.output:
            return None
        if own is not None:
            s = scales(machine.constant(own), out.shape[2], how.format == AccFormat.I48)
            values = scaled_by_channel(machine, values, s, out.rounding)
        elif out.scale is not None:
            values = scaled_by(machine, values, out.scale, out.rounding)
        return self._store(out, values)

    def _store(self, out: Output, values: V) -> V:
        if out.map is None:
            raise DeviceError("an output that goes nowhere")
        machine, place = self._machine, table_place(out.activation)
        table = None if place is None else machine.constant(place)
        values = activated(machine, machine.plus(values, out.map.zero_point), out.activation, out.map.element, table)
        values = machine.turned(values, _REVERSED.get(out.reverse), TRANSPOSED[out.transpose])
        if isinstance(out.map, Chained):
            self._chained[out.map.buffer] = values, out.map.element.dtype, machine.writer
        else:
            machine.write(out.map, values)
            self._chained.clear()  # the chain ends here
        return values


def _check_argmax(c: Pooling) -> None:
    """Raises DeviceError for an ARGMAX that the model does not know."""
    if c.output.scale != FixedPointScale(1, _ABOVE) or c.output.rounding != Rounding.TRUNCATE_TO_LOWER:
        raise DeviceError(f"the model does not know {c.mode.name} but with its value shifted away")
    other = 0 if c.mode == PoolingMode.ARGMAX_X else 1
    across = (c.kernel.height, c.kernel.width)[other], c.kernel.stride[other]
    if c.kernel.padded or c.upscale != IfmUpscaleMode.NONE or across != (1, 1):
        raise DeviceError(f"the model does not know {c.mode.name} over a window in both directions, padded or upscaled")


def weights_of(c: Convolution, core: Core, memory: Constants) -> Array:
    """Returns the weights of a convolution, int16 [out, height, width, in]. Raises DeviceError."""
    if c.decomposition != KernelDecomposition.D8X8:
        raise DeviceError(f"the model does not know {c.decomposition.name}")
    return weights(tuple(map(memory.constant, c.weights)), order_of(c, core), c.format == WeightFormat.FWD)


def order_of(c: Convolution, core: Core) -> Order:
    """Returns the order of a convolution's weights. Raises DeviceError."""
    return Order(
        shape=(c.output.shape[2], c.kernel.height, c.kernel.width, 1 if c.depthwise else c.ifm.depth),
        depthwise=c.depthwise,
        part_kernel=not c.depthwise and c.order == WeightOrder.PART_KERNEL_FIRST,
        sparse=c.sparsity == WeightSparsity.SPARSE_2_4,
        stride=c.kernel.stride,
        dilation=c.kernel.dilation,
        block=c.block.shape[2],
        micro=_micro(c, core),
        bits=c.ifm.element.bits,
        cores=core.cores,
        macs=core.macs,
    )


def _micro(c: Convolution, core: Core) -> int:
    for height, width, depth in core.micro:
        if (height, width) == c.block.micro:
            return depth
    raise DeviceError(f"micro blocks of {c.block.micro[0]}x{c.block.micro[1]}, which this NPU does not have")
