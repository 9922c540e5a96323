"""Executes commands of Ethos-U85 in order, on the memory of the model."""

from __future__ import annotations

import numpy as np

from eqsat.device.core.arithmetic import held, scaled, scaled_by
from eqsat.device.core.errors import DeviceError
from eqsat.device.core.memory import Constants, MemoryMap
from eqsat.device.core.operands import ByteRange, Dma, FeatureMap
from eqsat.device.core.registers import IfmUpscaleMode, KernelDecomposition, WeightOrder
from eqsat.device.ethos_u85.arithmetic import activated, table_place
from eqsat.device.ethos_u85.commands import (
    Accumulators,
    Chained,
    Command,
    Convolution,
    Elementwise,
    Operand,
    Output,
    Pooling,
    Resize,
    Scalar,
)
from eqsat.device.ethos_u85.decoding import TRANSPOSED
from eqsat.device.ethos_u85.operations import combined, pooled, resized, window
from eqsat.device.ethos_u85.registers import (
    AccFormat,
    AccInput,
    ActivationReverse,
    PoolingMode,
    WeightFormat,
    WeightSparsity,
)
from eqsat.device.ethos_u85.weights import Order, scales, weights
from eqsat.target.family import Core
from eqsat.tensor.types import Array

#: Bits of an accumulator.
ACCUMULATORS = {AccFormat.I32: 32, AccFormat.I48: 48}
#: The axis of [samples, height, width, depth] along which results are reversed.
REVERSED = {ActivationReverse.H: 1, ActivationReverse.W: 2, ActivationReverse.C: 3}


class Execution:
    """One run of a command stream.

    Chaining buffers and accumulators keep their values from one command to the next.
    """

    def __init__(self, core: Core, memory: MemoryMap) -> None:
        self._core, self._memory = core, memory
        self._chained: dict[int, Array] = {}
        self._kept: Array | None = None

    def step(self, c: Command) -> None:
        """Executes one command. Raises DeviceError."""
        match c:
            case Dma(indices=None):
                self._memory.copy(c)
            case Dma():
                self._copy_chosen(c)
            case Convolution():
                self._convolve(c)
            case Pooling():
                x = (
                    self._memory.read(c.ifm)
                    if c.mode != PoolingMode.NONE
                    else np.zeros((self._memory.samples, 1, 1, 1))
                )
                self._finish(c.accumulators, pooled(c, x), c.ifm2, c.output, c.scales, sums=True)
            case Elementwise():
                if c.upscale != IfmUpscaleMode.NONE:
                    raise DeviceError("the model does not know upscaled elementwise operations")
                operands = [self._operand(o, c.output.shape) for o in c.operands]
                shape = (self._memory.samples, *c.output.shape)
                self._finish(c.accumulators, np.broadcast_to(combined(c, operands), shape), None, c.output, None)
            case Resize():
                self._finish(c.accumulators, resized(c, self._memory.read(c.ifm)), None, c.output, None)

    def _operand(self, o: Operand, shape: tuple[int, int, int]) -> Array:
        """Returns the values of an operand without its zero point, int64."""
        match o:
            case Scalar():
                return np.full((1, 1, 1, 1), o.value - o.zero_point, np.int64)
            case Chained():
                values = self._chained.get(o.buffer)
                if values is None or values.shape[1:] != shape or values.dtype != o.element.dtype:
                    raise DeviceError(f"chaining buffer {o.buffer} holds no {o.element.dtype}{list(shape)}")
            case FeatureMap():
                values = self._memory.read(o)
        return values.astype(np.int64) - o.zero_point

    def _convolve(self, c: Convolution) -> None:
        x = self._memory.read(c.ifm)
        if c.matrices:
            assert c.ifm2 is not None
            if (c.kernel.height, c.kernel.width) != (1, 1):
                raise DeviceError("the model does not know products of matrices with a window")
            sums, start = self._product(c, x), None
        else:
            if c.depthwise and x.shape[3] not in (1, c.output.shape[2]):
                raise DeviceError(f"a depthwise convolution of {x.shape[3]} channels to {c.output.shape[2]}")
            sums, start = window(c).convolved(x, weights_of(c, self._core, self._memory), c.depthwise), c.ifm2
        self._finish(c.accumulators, sums, start, c.output, c.scales, sums=True)

    def _product(self, c: Convolution, x: Array) -> Array:
        """Returns the product of two matrices, of which the second has a row of weights for each output channel."""
        assert c.ifm2 is not None
        second = self._memory.read(c.ifm2)[:, 0].astype(np.float64) - c.ifm2.zero_point
        out = c.output.shape[:2]
        first = window(c).padded(x, 0.0)[:, :: c.kernel.stride[0], :: c.kernel.stride[1]][:, : out[0], : out[1]]
        return np.einsum("nhwk,nok->nhwo", first, second, optimize=True).astype(np.int64)

    def _finish(
        self,
        how: Accumulators,
        values: Array,
        start: FeatureMap | None,
        out: Output,
        own: ByteRange | None,
        sums: bool = False,
    ) -> None:
        """Adds the initial accumulators, then scales and stores the sums or keeps them.

        sums: whether accumulators must be able to hold them.
        """
        if how.input == AccInput.KEEP:
            if self._kept is None or self._kept.shape != values.shape:
                raise DeviceError("the accumulators that are added to were not kept")
            values = values + self._kept
        elif how.input == AccInput.IFM2:
            if start is None:
                raise DeviceError("the model does not know what the accumulators begin with")
            values = values + self._memory.read(start).astype(np.int64) - start.zero_point
        if sums:
            held(values, ACCUMULATORS[how.format])
        self._kept = None if how.output else values
        if not how.output:
            return
        if own is not None:
            s = scales(self._memory.constant(own), out.shape[2], how.format == AccFormat.I48)
            values = scaled(values + s.bias, s.multiplier, s.shift, out.rounding)
        elif out.scale is not None:
            values = scaled_by(values, out.scale, out.rounding)
        self._store(out, values)

    def _store(self, out: Output, values: Array) -> None:
        if out.map is None:
            raise DeviceError("an output that goes nowhere")
        place = table_place(out.activation)
        table = None if place is None else self._memory.constant(place)
        values = activated(values + out.map.zero_point, out.activation, out.map.element, table)
        if out.reverse != ActivationReverse.NONE:
            values = np.flip(values, REVERSED[out.reverse])
        values = values.transpose(0, *(1 + k for k in TRANSPOSED[out.transpose]))
        if isinstance(out.map, Chained):
            self._chained[out.map.buffer] = values
        else:
            self._memory.write(out.map, values)
            self._chained.clear()  # the chain ends here

    def _copy_chosen(self, c: Dma) -> None:
        """Copies pieces of which one side is chosen by indices, for each sample by its own.

        Reads all of them before it writes.
        """
        assert c.indices is not None
        if c.source.indexed and c.destination.indexed:
            raise DeviceError("a copy with indices on both sides")
        pieces = []
        for outer, inner in c.steps:
            at = c.indices.address + (outer * c.sizes[1] + inner) * 4 + outer * c.indices.skip
            numbers = np.ascontiguousarray(self._memory.at(c.indices.region, at, 4)).view(np.int32)[:, 0]
            if (numbers < 0).any() or (numbers > c.indices.most).any():
                raise DeviceError(f"an index outside 0 to {c.indices.most}")
            chosen = [(outer, int(k)) for k in numbers]
            same = [(outer, inner)] * len(chosen)
            sides = (side.places(chosen if side.indexed else same) for side in (c.source, c.destination))
            for sample, (source, destination) in enumerate(zip(*sides, strict=True)):
                pieces.append((sample, destination, self._memory.at(c.source.region, source, c.length)[sample].copy()))
        for sample, destination, data in pieces:
            self._memory.at(c.destination.region, destination, c.length)[sample] = data


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
