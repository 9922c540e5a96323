"""Executes commands of Ethos-U55 and U65 in order, on numbers or on terms (`core/machine.py`)."""

from __future__ import annotations

from typing import Generic

import numpy as np

from eqsat.device.core.errors import DeviceError
from eqsat.device.core.machine import Machine, V, Window, operator_of, scaled_by, scaled_by_channel
from eqsat.device.core.memory import Constants
from eqsat.device.core.operands import SAME, Dma, FixedPointScale
from eqsat.device.core.registers import IfmUpscaleMode, KernelDecomposition, WeightOrder
from eqsat.device.core.state import number
from eqsat.device.ethos_u55.arithmetic import activated, table_place
from eqsat.device.ethos_u55.commands import Command, Convolution, Elementwise, Output, Pooling
from eqsat.device.ethos_u55.registers import (
    AccFormat,
    ActivationClipRange,
    ActivationFunction,
    ElementwiseMode,
    IfmScaleMode,
    PoolingMode,
)
from eqsat.device.ethos_u55.weights import Order, scales, weights
from eqsat.target.family import Core
from eqsat.tensor.types import Array

#: Bits of an accumulator.
_ACCUMULATORS = {AccFormat.I32: 32, AccFormat.I40: 40}
#: Factors of one that Vela writes. The second rounds to one for all values of up to 16 bits.
_ONE = (SAME, FixedPointScale((1 << 31) + 1, 31))
#: Left shift of the operand of a sum that OPA_SCALE does not scale, by the bits of its elements.
_BUILT_IN = {8: 19, 16: 14}


class Execution(Generic[V]):
    """One run of a command stream."""

    def __init__(self, core: Core, machine: Machine[V]) -> None:
        self._core, self._machine = core, machine

    def step(self, c: Command) -> V | None:
        """Executes one command and returns what it computes, None if it only copies. Raises what the machine does."""
        match c:
            case Dma():
                self._machine.copy(c)
                return None
            case Convolution():
                values = self._window(c).convolved(weights_of(c, self._core, self._machine), c.depthwise)
                values = self._machine.held(values, _ACCUMULATORS[c.block.accumulators])
                return self._store(c.output, self._scaled_by_channel(c, values))
            case Pooling():
                return self._pool(c)
            case Elementwise():
                return self._combine(c)

    def _window(self, c: Convolution | Pooling) -> Window[V]:
        return self._machine.window(c.ifm, c.kernel, c.output.shape[:2], c.upscale)

    def _scaled_by_channel(self, c: Convolution | Pooling, values: V) -> V:
        own = scales(tuple(map(self._machine.constant, c.scales)), c.output.map.depth)
        return scaled_by_channel(self._machine, values, own, c.output.rounding.rule)

    def _pool(self, c: Pooling) -> V | None:
        machine, out, rule = self._machine, c.output, c.output.rounding.rule
        if copies(c):
            machine.move(c.ifm, out.map)
            return None
        window = self._window(c)
        if c.block.accumulators not in _ACCUMULATORS:
            raise DeviceError(f"the model does not know {c.block.accumulators.name}")
        bits, is_reduced = _ACCUMULATORS[c.block.accumulators], c.mode == PoolingMode.REDUCE_SUM
        if c.mode == PoolingMode.MAX:
            # Vela 5.1 set a scale behind a maximum, which 5.2's changelog calls incorrect
            # its older generator never set one
            return self._store(out, machine.held(window.extremum("max"), bits))
        if is_reduced and (out.map.depth != 1 or out.scale is None):
            raise DeviceError("the model does not know REDUCE_SUM to several channels, or with a scale for each")
        values = machine.held(window.summed_over_depth() if is_reduced else window.summed(), bits)
        if c.kernel.padded and not is_reduced:
            if out.scale != SAME:
                raise DeviceError("the model does not know a padded average that is scaled")
            values = machine.scaled(values, *_reciprocals(window.counts()), rule)
        elif out.scale is None:
            values = self._scaled_by_channel(c, values)
        else:
            values = scaled_by(machine, values, out.scale, rule)
        return self._store(out, machine.recognized(values))

    def _combine(self, c: Elementwise) -> V:
        if c.upscale != IfmUpscaleMode.NONE:
            raise DeviceError("the model does not know upscaled elementwise operations")
        machine, rule = self._machine, c.output.rounding.rule
        op, attrs = operator_of(c.mode.name, c.output.rounding.name)
        operands = [machine.operand(machine.read(c.ifm), c.ifm.zero_point, op)]
        if c.ifm2 is not None:
            operands.append(machine.operand(machine.read(c.ifm2), c.ifm2.zero_point, op))
        elif c.scalar is not None:
            operands.append(machine.operand(machine.number(c.scalar), c.zero_point2, op))
        operands = operands[:: -1 if c.reversed else 1]
        if c.mode in (ElementwiseMode.ADD, ElementwiseMode.SUB):
            operands = self._scaled_operands(c, *operands)
        values = machine.applied(op, attrs, operands, c.output.shape)
        return self._store(
            c.output, values if c.output.scale is None else scaled_by(machine, values, c.output.scale, rule)
        )

    def _scaled_operands(self, c: Elementwise, a: V, b: V) -> list[V]:
        """Returns both operands of a sum, scaled.

        OPA_OPB_16 multiplies each by 16 bits without a shift.
        The other modes scale one operand by OPA_SCALE and shift the other to the left.
        The hardware fixes that shift: 1 << 19 for 8 bits, 1 << 14 for 16.
        Source: `ethos_u55_constraints.cpp`.
        """
        machine, rule = self._machine, c.input_rounding.rule
        assert c.opa is not None and c.opb is not None
        if c.input_scale == IfmScaleMode.OPA_OPB_16:
            # both registers have 16 bits here, in which a wider value loses its upper ones
            # (executorch pull request 21151)
            opa = c.opa.multiplier & 0xFFFF
            first, second = (c.opb, opa) if c.reversed else (opa, c.opb)
            return [machine.times(a, first), machine.times(b, second)]
        if c.ifm.element.bits not in _BUILT_IN:
            raise DeviceError(f"the model does not know {c.input_scale.name} for {c.ifm.element.dtype}")
        built_in = 1 << _BUILT_IN[c.ifm.element.bits]
        if c.input_scale == IfmScaleMode.OPA_32:
            return [scaled_by(machine, a, c.opa, rule), machine.times(b, built_in)]
        return [machine.times(a, built_in), scaled_by(machine, b, c.opa, rule)]

    def _store(self, o: Output, values: V) -> V:
        machine = self._machine
        place = table_place(o, machine.internal)
        table = None if place is None else machine.constant(place)
        values = activated(machine, machine.plus(values, o.map.zero_point), o.activation, o.map.element, table)
        machine.write(o.map, values)
        return values


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


def _reciprocals(counts: Array) -> tuple[Array, Array]:
    """Returns multipliers and shifts that divide by the numbers of elements that padded windows see.

    Vela leaves this division to the hardware, which does not document it.
    Source: `ethos_u55_register_cs_generator.cpp`, GenerateOFMScalingForPooling.
    The model takes the reciprocals that Vela uses without padding (`ethos_u_scaling.cpp`).
    These round a half away from zero.
    """
    bits = np.where(counts > 1, np.frexp(np.maximum(counts - 1, 1).astype(np.float64))[1], 0)
    shift = 31 + bits
    return -(-((np.int64(1) << shift) + (np.int64(1) << bits)) // counts), shift
