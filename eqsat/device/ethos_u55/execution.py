"""Executes convolutions, poolings and tables of Ethos-U55 and U65 (`core/execution.py`), and decodes weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import IntEnum

import numpy as np

from eqsat.device.core.arithmetic import Scales, table_bytes
from eqsat.device.core.decoding import number
from eqsat.device.core.errors import DeviceError
from eqsat.device.core.execution import Execution as AnyExecution
from eqsat.device.core.machine import Machine, V
from eqsat.device.core.operands import (
    SAME,
    Activation,
    ByteRange,
    Convolution,
    Element,
    FeatureMap,
    FixedPointScale,
    Output,
    Pooling,
)
from eqsat.device.core.registers import IfmUpscaleMode, KernelDecomposition, PoolingMode
from eqsat.device.core.weight_stream import Order, decode, fill, places, scales
from eqsat.device.ethos_u55.registers import AccFormat, ActivationClipRange, ActivationFunction
from eqsat.target.family import Core
from eqsat.tensor.types import Array

# The order of weights and the records of biases and scales are those of Vela's encoder
# (`ethosu/regor/architecture/ethosu55/ethos_u55_weight_encoder.cpp`, Apache-2.0).
# Two cores have a stream each, for every other output channel.

#: Input channels of a block (`_SHALLOW` if part kernel first or 16 bits), and of a micro block.
_DEEP, _SHALLOW, _MICRO = 32, 16, 8


def order_of(c: Convolution, core: Core) -> Order:
    """Returns the order of a convolution's weights in the stream of an only core."""
    shape, dilation, block, micro = c.weight_shape, c.kernel.dilation, c.block.shape[2], core.micro[0][2]
    if c.depthwise:
        return Order(shape, dilation, block, micro, deep=1, shallow=1, step=1, rounded=4)
    deep, is_wide = deep_channels(c), c.ifm.element.bits == 16
    if c.is_part_kernel_first:
        return Order(shape, dilation, block, micro, deep, _MICRO, _MICRO, 2 if is_wide else 4)
    return Order(shape, dilation, block, micro, deep, deep, _MICRO, 1)


def deep_channels(c: Convolution | Pooling) -> int:
    """Returns the input channels of a block that each result reads all of."""
    is_shallow = isinstance(c, Convolution) and c.is_part_kernel_first or c.ifm.element.bits == 16
    return _SHALLOW if is_shallow else _DEEP


def weights(streams: tuple[bytes, ...], order: Order, cores: int = 1) -> Array:
    """Returns the weights of a convolution, int16 [out, height, width, in]. Raises DeviceError."""
    out = np.zeros(order.shape, np.int16)
    for core, stream in enumerate(streams):
        mine = out[core::cores].copy()
        own = replace(order, shape=mine.shape, block=(order.block + cores - 1 - core) // cores)
        fill(mine, places(own), decode(stream))
        out[core::cores] = mine
    return out


#: Factors of one that Vela writes. The second rounds to one for all values of up to 16 bits.
_ONE = (SAME, FixedPointScale((1 << 31) + 1, 31))


#: The type that a result is clipped to, if it is not the output's.
_CLIPPED: Mapping[IntEnum, Element] = {
    ActivationClipRange.FORCE_UINT8: Element(False, 8),
    ActivationClipRange.FORCE_INT8: Element(True, 8),
    ActivationClipRange.FORCE_INT16: Element(True, 16),
}
#: Bytes of the tables, which lie in the last two banks of shared memory.
_TABLES = 2048
#: Bytes of a slot for a table.
_SLOT = 256


class Execution(AnyExecution[V]):
    def convolve(self, c: Convolution) -> V:
        return self.window(c).convolve(weights_of(c, self._core, self._machine), c.depthwise)

    def own_scales(self, c: Convolution | Pooling) -> Scales:
        """Records have a bias of 40 bits and a multiplier of 32."""
        return scales(tuple(map(self._machine.constant, c.scales)), c.output.shape[2], 5, 9)

    @staticmethod
    def table_place(o: Output, internal: int) -> ByteRange | None:
        function = o.activation.function
        if o.map is None or function < ActivationFunction.TABLE_0:
            return None
        chosen = _CLIPPED.get(o.activation.clip_range, o.map.element)
        at = internal - _TABLES + (function - ActivationFunction.TABLE_0) * _SLOT
        return ByteRange(None, at, table_bytes(chosen, o.map.element))

    def activate(self, values: V, activation: Activation, element: Element, table: bytes | None) -> V:
        machine, clipped = self._machine, _CLIPPED.get(activation.clip_range, element)
        if clipped.bits <= 16:
            low, high = (number(b, clipped.signed) for b in (activation.minimum, activation.maximum))
            low, high = max(low, clipped.limits[0]), min(high, clipped.limits[1])
            if low > high:
                raise DeviceError(f"a clamp to {low} to {high}")
            values = machine.clip(values, clipped, low, high)
        if table is not None:
            if not clipped.signed and clipped.bits == 16:
                raise DeviceError("the model does not know tables of UINT16")
            if clipped.bits != 8 and element.bits != 16:
                raise DeviceError(f"the model does not know tables of 16 bits with results of {element.bits}")
            values = machine.look_up(values, clipped, element, table)
        elif activation.function != ActivationFunction.RELU:
            raise DeviceError(f"the model does not know the activation {activation.function.name}")
        return machine.fitting(values, element)

    def pool(self, c: Pooling) -> V | None:
        machine, out = self._machine, c.output
        if copies(c):
            assert isinstance(out.map, FeatureMap)
            machine.move(c.ifm, out.map)
            return None
        window = self.window(c)
        if c.mode == PoolingMode.MAX:
            # Vela 5.1 set a scale after a maximum, which 5.2's changelog calls incorrect; its older generator set none
            return self.store(out, self.hold(window.extremum("max"), c.accumulators))
        is_reduced = c.mode == PoolingMode.REDUCE_SUM
        if is_reduced and (out.shape[2] != 1 or out.scale is None):
            raise DeviceError("the model does not know REDUCE_SUM to several channels, or with a scale for each")
        values = self.hold(window.sum_over_depth() if is_reduced else window.sum(), c.accumulators)
        if c.kernel.padded and not is_reduced:
            if out.scale != SAME:
                raise DeviceError("the model does not know a padded average that is scaled")
            values = machine.scale(values, *_reciprocals(window.counts()), out.rounding.rule)
        else:
            values = self.scale(c, values)
        return self.store(out, machine.recognize(values))


def weights_of(c: Convolution, core: Core, machine: Machine[V]) -> Array:
    """Returns the weights of a convolution, int16 [out, height, width, in]. Raises DeviceError."""
    if c.decomposition != KernelDecomposition.D8X8 or c.accumulators.format == AccFormat.F16:
        raise DeviceError(f"the model does not know {c.decomposition.name} or {c.accumulators.format.name}")
    return weights(tuple(map(machine.constant, c.weights)), order_of(c, core), core.cores)


def copies(c: Pooling) -> bool:
    """Whether an average over 1x1 only copies its input, like the thousands from which Vela builds a transpose."""
    a, m = c.output.activation, c.output.map
    assert isinstance(m, FeatureMap)
    element = m.element
    bounds = tuple(number(b, element.signed) for b in (a.minimum, a.maximum))
    return (
        c.mode == PoolingMode.AVERAGE
        and (c.kernel.height, c.kernel.width, c.kernel.stride) == (1, 1, (1, 1))
        and not c.kernel.padded
        and c.upscale == IfmUpscaleMode.NONE
        and c.output.scale in _ONE
        and (c.ifm.element, c.ifm.zero_point) == (element, m.zero_point)
        and (a.function, a.clip_range) == (ActivationFunction.RELU, ActivationClipRange.OFM_PRECISION)
        and bounds == element.limits
    )


def _reciprocals(counts: Array) -> tuple[Array, Array]:
    """Returns multipliers and shifts that divide by the numbers of elements that padded windows see.

    Vela leaves this division to the hardware (`ethos_u55_register_cs_generator.cpp`, GenerateOFMScalingForPooling).
    How the hardware divides is not documented; the model takes the reciprocals that Vela uses without padding
    (`ethos_u_scaling.cpp`), which round a half away from zero.
    """
    bits = np.where(counts > 1, np.frexp(np.maximum(counts - 1, 1).astype(np.float64))[1], 0)
    shift = 31 + bits
    return -(-((np.int64(1) << shift) + (np.int64(1) << bits)) // counts), shift
