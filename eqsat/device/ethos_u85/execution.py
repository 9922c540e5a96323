"""Executes convolutions, poolings and tables of Ethos-U85 (`core/execution.py`), and decodes weights."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from functools import lru_cache

import numpy as np

from eqsat.device.core.arithmetic import Scales, table_bytes
from eqsat.device.core.decoding import number
from eqsat.device.core.errors import DeviceError
from eqsat.device.core.execution import ABOVE
from eqsat.device.core.execution import Execution as AnyExecution
from eqsat.device.core.machine import Machine, V
from eqsat.device.core.operands import (
    SAME,
    Activation,
    ByteRange,
    Convolution,
    Element,
    FixedPointScale,
    Output,
    Pooling,
)
from eqsat.device.core.registers import (
    IfmUpscaleMode,
    KernelDecomposition,
    PoolingMode,
    Rounding,
    WeightFormat,
    WeightSparsity,
)
from eqsat.device.core.weight_stream import Order, decode, fill, places, scales
from eqsat.device.ethos_u85.registers import ActivationClipRange, ActivationFunction
from eqsat.target.family import Core
from eqsat.tensor.types import Array

# The order of weights and the records of biases and scales are those of Vela's encoder
# (`ethosu/regor/architecture/ethosu85/ethos_u85_weight_encoder.cpp`, Apache-2.0).
# Weights for the standard decoders are compressed as on U55, in a stream for each core.
# Weights for the fast decoder are plain numbers or indices into a palette, in one stream in which cores take turns
# (`dependencies/mlw_codec/source/mlw_encode_fwd.cpp`).

#: Consecutive output channels of a core.
_RUN = 4
#: Bits of the header of the fast format, and those at which the correction of plain weights and the palette begin.
_HEADER = 256
_ADJUST = 104
_PALETTE = 112
#: Bits of an entry of the palette, and the number of entries.
_ENTRY = 9
_ENTRIES = 16


def order_of(c: Convolution, core: Core) -> Order:
    """Returns the order of a convolution's weights (`ethos_u85.cpp`, FindBlockConfig). Raises DeviceError."""
    bits, sparse, micro = c.ifm.element.bits, c.sparsity == WeightSparsity.SPARSE_2_4, _micro(c, core)
    step, rounded, gap, strides = 16 if sparse else 8, 1, 0, (1, 1)
    if c.depthwise:
        deep = shallow = step = 1
        rounded, strides = 10, c.kernel.stride
        gap = 0 if bits != 16 and core.macs <= 256 else 2 if core.macs <= 512 else 6
    elif c.is_part_kernel_first:
        deep, shallow = 16, 8 if bits == 16 and not sparse else 16
        rounded, strides = 10 if bits == 16 or sparse else 5, c.kernel.stride
    elif bits == 32 or (core.macs <= 256 and micro == 16 and not sparse):
        deep = shallow = 32
    else:
        deep = shallow = 128 if sparse and bits == 8 else 64
    return Order(
        c.weight_shape,
        c.kernel.dilation,
        c.block.shape[2],
        micro,
        deep,
        shallow,
        step,
        rounded,
        gap,
        strides,
        core.cores,
        _RUN,
        alternating=True,
    )


def _micro(c: Convolution, core: Core) -> int:
    """Returns the output channels of a micro block."""
    assert c.block.micro is not None
    for height, width, depth in core.micro:
        if (height, width) == c.block.micro:
            return depth
    raise DeviceError(f"micro blocks of {c.block.micro[0]}x{c.block.micro[1]}, which this NPU does not have")


def weights(streams: tuple[bytes, ...], order: Order, fast: bool) -> Array:
    """Returns the weights of a convolution, int16 [out, height, width, in]. Raises DeviceError."""
    out = np.zeros(order.shape, np.int16)
    if fast:
        if len(streams) != 1:
            raise DeviceError(f"{len(streams)} streams for the fast decoder, which has one")
        fill(out, _in_turns(order), _fast(streams[0]))
    else:
        if len(streams) > order.cores:
            raise DeviceError(f"{len(streams)} streams of weights for {order.cores} cores")
        for core, stream in enumerate(streams):
            fill(out, places(order, core), decode(stream))
    return out


@lru_cache(512)
def _fast(stream: bytes) -> Array:
    """Returns the weights of a stream for the fast decoder.

    The first bits of the header say whether weights are plain, or how many bits an index has.
    A correction was added to plain weights so that they fit into 8 bits.
    """
    bits = np.unpackbits(np.frombuffer(stream, np.uint8), bitorder="little")
    if len(bits) < _HEADER:
        raise DeviceError(f"{len(stream)} bytes of weights for the fast decoder")
    if bits[0]:
        adjust = int(np.packbits(bits[_ADJUST : _ADJUST + 8], bitorder="little").view(np.int8)[0])
        plain = np.frombuffer(stream, np.int8, offset=_HEADER // 8).astype(np.int16)
        return plain - adjust
    entries = bits[_PALETTE : _PALETTE + _ENTRIES * _ENTRY].reshape(_ENTRIES, _ENTRY) @ (1 << np.arange(_ENTRY))
    palette = np.where(entries & 1, -(entries >> 1), entries >> 1).astype(np.int16)
    chosen = 2 if bits[1] else 4
    numbers = bits[_HEADER:].reshape(-1, chosen) @ (1 << np.arange(chosen))
    return palette[numbers]


@lru_cache(64)
def _in_turns(order: Order) -> Array:
    """Returns the places of all cores' weights, in the order of one stream for the fast decoder."""
    turn = order.micro * order.shallow * order.rounded // order.cores
    each = [places(order, core) for core in range(order.cores)]
    return np.concatenate([p[at : at + turn] for at in range(0, max(map(len, each)), turn) for p in each])


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
