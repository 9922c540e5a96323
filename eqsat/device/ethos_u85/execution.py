"""Executes convolutions, poolings and tables of Ethos-U85 (`core/execution.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from eqsat.device.core.arithmetic import Scales, table_bytes
from eqsat.device.core.commands import Activation, Convolution, Output, Pooling
from eqsat.device.core.errors import DeviceError
from eqsat.device.core.execution import ABOVE
from eqsat.device.core.execution import Execution as AnyExecution
from eqsat.device.core.machine import Machine, V
from eqsat.device.core.operands import SAME, ByteRange, Element, FixedPointScale
from eqsat.device.core.registers import (
    IfmUpscaleMode,
    KernelDecomposition,
    PoolingMode,
    Rounding,
    WeightFormat,
    WeightSparsity,
)
from eqsat.device.core.state import number
from eqsat.device.core.weight_stream import scales
from eqsat.device.ethos_u85.registers import ActivationClipRange, ActivationFunction
from eqsat.device.ethos_u85.weights import order_of, weights
from eqsat.target.family import Core
from eqsat.tensor.types import Array

_BYTE, _BYTE_UNSIGNED, _SHORT = Element(True, 8), Element(False, 8), Element(True, 16)
#: The types of the values that choose an entry of a table, and of its results.
TABLES: Mapping[IntEnum, tuple[Element, Element]] = {
    ActivationFunction.LUT_U8_U8: (_BYTE_UNSIGNED, _BYTE_UNSIGNED),
    ActivationFunction.LUT_S8_S8: (_BYTE, _BYTE),
    ActivationFunction.LUT_S8_S16: (_BYTE, _SHORT),
    ActivationFunction.LUT_S8_S32: (_BYTE, Element(True, 32)),
    ActivationFunction.LUT_S16_S16: (_SHORT, _SHORT),
    ActivationFunction.LUT_S16_S32: (_SHORT, Element(True, 32)),
}


class Execution(AnyExecution[V]):
    def own_scales(self, c: Convolution | Pooling) -> Scales:
        """Records have a bias of 32 bits and a multiplier of 31, or of 48 and 15 for wide accumulators."""
        bias = 6 if c.accumulators.bits > 32 else 4
        return scales(tuple(map(self._machine.constant, c.scales)), c.output.shape[2], bias, 8)

    @staticmethod
    def table_place(o: Output, internal: int) -> ByteRange | None:
        function = o.activation.function
        if function == ActivationFunction.LUT_NONE:
            return None
        if function not in TABLES:
            raise DeviceError(f"the model does not know the activation {function.name}")
        size = table_bytes(*TABLES[function])
        return ByteRange(None, (o.activation.table or 0) * size, size)

    def activate(self, values: V, activation: Activation, element: Element, table: bytes | None) -> V:
        machine = self._machine
        chosen, result = TABLES.get(activation.function, (element, element))
        if result != element:
            raise DeviceError(f"{activation.function.name} with results of {element.dtype}")
        if activation.clip_range == ActivationClipRange.B16:
            low, high = (number(b, chosen.signed) for b in (activation.minimum, activation.maximum))
            if low > high:
                raise DeviceError(f"a clamp to {low} to {high}")
            values = machine.clip(values, chosen, low, high)
        if table is not None:
            values = machine.look_up(values, chosen, element, table)
        return machine.fitting(values, element)

    def convolve(self, c: Convolution) -> V:
        depth = c.output.shape[2]
        if not c.matrices:
            if c.depthwise and c.ifm.depth not in (1, depth):
                raise DeviceError(f"a depthwise convolution of {c.ifm.depth} channels to {depth}")
            return self.window(c).convolve(weights_of(c, self._core, self._machine), c.depthwise)
        k = c.kernel
        if (k.height, k.width, k.stride) != (1, 1, (1, 1)) or k.padded or c.upscale != IfmUpscaleMode.NONE:
            raise DeviceError("the model does not know products of matrices with a window")
        if (c.format, c.sparsity) != (WeightFormat.SWD, WeightSparsity.NONE):  # which Vela sets for them
            raise DeviceError("the model does not know products of matrices in a format of weights")
        assert c.ifm2 is not None
        return self._machine.product(c.ifm, c.ifm2, c.output.shape)

    def pool(self, c: Pooling) -> V | None:
        return self.finish(c, self._pool(c), c.ifm2, sums=True)

    def _pool(self, c: Pooling) -> V:
        machine = self._machine
        if c.mode == PoolingMode.NONE:
            return machine.zeros(c.output.shape)
        if c.mode in (PoolingMode.ARGMAX_X, PoolingMode.ARGMAX_Y):
            _check_argmax(c)
        if c.mode == PoolingMode.AVERAGE and c.output.scale != SAME:
            raise DeviceError("the model does not know an average that is scaled")
        window = self.window(c)
        match c.mode:
            case PoolingMode.MAX | PoolingMode.MIN:
                return window.extremum("max" if c.mode == PoolingMode.MAX else "min")
            case PoolingMode.AVERAGE:
                return machine.recognize(machine.mean(window.sum(), window.counts()))
            case PoolingMode.REDUCE_SUM:
                return window.sum_over_depth()
            case PoolingMode.SUM:
                return window.sum()
            case _:  # in the upper bits: Vela shifts the value below away
                return machine.times(window.first_largest(), 1 << ABOVE)


def _check_argmax(c: Pooling) -> None:
    """Raises DeviceError for an ARGMAX that the model does not know."""
    if c.output.scale != FixedPointScale(1, ABOVE) or c.output.rounding != Rounding.TRUNCATE_TO_LOWER:
        raise DeviceError(f"the model does not know {c.mode.name} but with its value shifted away")
    other = 0 if c.mode == PoolingMode.ARGMAX_X else 1
    across = (c.kernel.height, c.kernel.width)[other], c.kernel.stride[other]
    if c.kernel.padded or c.upscale != IfmUpscaleMode.NONE or across != (1, 1):
        raise DeviceError(f"the model does not know {c.mode.name} over a window in both directions, padded or upscaled")


def weights_of(c: Convolution, core: Core, machine: Machine[V]) -> Array:
    """Returns the weights of a convolution, int16 [out, height, width, in]. Raises DeviceError."""
    if c.decomposition != KernelDecomposition.D8X8:
        raise DeviceError(f"the model does not know {c.decomposition.name}")
    return weights(tuple(map(machine.constant, c.weights)), order_of(c, core), c.format == WeightFormat.FWD)
