"""Decodes instructions into commands: what all families do alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Any

from eqsat.device.core.commands import (
    Accumulators,
    Activation,
    Block,
    Convolution,
    Elementwise,
    Output,
    Pooling,
    Resize,
)
from eqsat.device.core.errors import DeviceError
from eqsat.device.core.instructions import Instruction
from eqsat.device.core.operands import ByteRange, Dma, Stop, Wait
from eqsat.device.core.registers import DmaRegionMode, KernelDecomposition, PoolingMode, WeightOrder
from eqsat.device.core.state import Registers


class Decoder(Registers, ABC):
    """Makes a family's commands from the registers when each is issued. Its methods raise DeviceError."""

    @abstractmethod
    def output(self) -> Output:
        """Returns the result of an operation."""

    @abstractmethod
    def accumulators(self) -> Accumulators: ...

    @abstractmethod
    def block(self) -> Block: ...

    @abstractmethod
    def weights(self, i: Instruction) -> tuple[ByteRange, ...]:
        """Returns the streams of weights of a convolution."""

    @abstractmethod
    def scales(self) -> tuple[ByteRange, ...]:
        """Returns the streams of biases and scales of each channel."""

    @abstractmethod
    def elementwise(self, i: Instruction) -> Elementwise: ...

    @abstractmethod
    def dma(self, i: Instruction) -> Dma: ...

    def activation(self) -> Activation:
        fields = self.instruction("ACTIVATION").fields
        function, clip_range = fields["activation_function"], fields["activation_clip_range"]
        assert isinstance(function, IntEnum) and isinstance(clip_range, IntEnum)
        bounds = self.get("ACTIVATION_MIN"), self.get("ACTIVATION_MAX")
        return Activation(function, clip_range, *bounds, fields.get("table"))

    def resize(self, i: Instruction) -> Resize:
        raise DeviceError(f"the model does not know {i.name} (at byte {i.offset})")

    def convolution(self, i: Instruction) -> Convolution:
        kernel, output = self.kernel(), self.output()
        return Convolution(
            offset=i.offset,
            depthwise=i.name == "OP_DEPTHWISE",
            ifm=self.window(kernel, output.shape[:2]),
            output=output,
            kernel=kernel,
            upscale=self.upscale(),
            order=WeightOrder(self.get("KERNEL_STRIDE", "weight_order")),
            decomposition=KernelDecomposition(self.get("KERNEL_STRIDE", "decomposition")),
            weights=self.weights(i),
            scales=self.scales() if output.scale is None else (),
            accumulators=self.accumulators(),
            block=self.block(),
        )

    def pooling(self, i: Instruction) -> Pooling:
        kernel, output = self.kernel(), self.output()
        mode = PoolingMode(i.fields["pooling_mode"])
        if mode != PoolingMode.REDUCE_SUM:
            self.check_depth(output.shape[2])
        return Pooling(
            offset=i.offset,
            mode=mode,
            ifm=self.window(kernel, output.shape[:2]),
            output=output,
            kernel=kernel,
            upscale=self.upscale(),
            scales=self.scales() if output.scale is None else (),
            accumulators=self.accumulators(),
            block=self.block(),
        )

    def dma_region(self, side: str) -> int | None:
        """Returns the region of a side of a copy, SRC or DST; None inside the NPU."""
        fields = self.instruction(f"DMA0_{side}_REGION").fields
        return fields["region"] if fields["region_mode"] == DmaRegionMode.EXTERNAL else None

    def decode(self, stream: Iterable[Instruction]) -> Iterator[Any]:
        """Yields the commands of a stream, with waits and the end."""
        makers = {
            "OP_CONV": self.convolution,
            "OP_DEPTHWISE": self.convolution,
            "OP_POOL": self.pooling,
            "OP_ELEMENTWISE": self.elementwise,
            "OP_RESIZE": self.resize,
            "OP_DMA_START": self.dma,
        }
        for i in stream:
            if not i.layout.operation:
                self.set(i)
                continue
            self.reader = i
            if i.name == "OP_STOP":
                yield Stop(i.offset)
                return
            if i.name in ("OP_DMA_WAIT", "OP_KERNEL_WAIT"):
                yield Wait(i.offset, i.name == "OP_KERNEL_WAIT", next(iter(i.fields.values())))
                continue
            if i.name not in makers:
                raise DeviceError(f"the model does not know {i.name} (at byte {i.offset})")
            made = makers[i.name](i)
            self.last = i, made
            yield made
        raise DeviceError("the command stream has no OP_STOP")
