"""Decodes instructions into commands: what all families do alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Any

from eqsat.device.core.errors import DeviceError, DeviceFault
from eqsat.device.core.operands import (
    Accumulators,
    Activation,
    Block,
    ByteRange,
    Convolution,
    Dma,
    Element,
    Elementwise,
    FeatureMap,
    FixedPointScale,
    Kernel,
    Output,
    Pooling,
    Resize,
    Stop,
    Wait,
)
from eqsat.device.core.registers import (
    ActivationFormat,
    DmaRegionMode,
    IfmUpscaleMode,
    Instruction,
    KernelDecomposition,
    PoolingMode,
    WeightOrder,
)

#: {prefix of a feature map's registers: those that say where its four tiles are}.
_BASES = {prefix: tuple(f"{prefix}_BASE{k}" for k in range(4)) for prefix in ("IFM", "IFM2", "OFM")}
#: Bytes of which the places of bricks and of weights are multiples.
_ALIGNED = 16
#: Instructions that say where a feature map is, and nothing else of an operation.
_PLACES = frozenset(f"SET_{name}" for names in _BASES.values() for name in names)


class Registers:
    """The last instruction that set each register: registers keep their values, and Vela writes only those that change.

    reader: the operation that reads them, for messages.
    last: the previous operation and its command; None once a register was set that does more than place a feature map.
    Raises DeviceError for a register that is read and was never set.
    """

    reader: Instruction

    def __init__(self) -> None:
        self._values: dict[str, Instruction] = {}
        self.last: tuple[Instruction, Any] | None = None

    def set(self, i: Instruction) -> None:
        self._values[i.name] = i
        if i.name not in _PLACES:
            self.last = None

    def same(self, i: Instruction) -> Any:
        """Returns the previous command if operation `i` differs only in the places of feature maps, else None.

        A TRANSPOSE is thousands of such commands; they share all objects but the feature maps.
        """
        if self.last is None or (self.last[0].name, self.last[0].fields) != (i.name, i.fields):
            return None
        return self.last[1]

    @property
    def where(self) -> str:
        """The operation that reads them, and its place in the stream."""
        return f"{self.reader.name} at byte {self.reader.offset}"

    def instruction(self, name: str) -> Instruction:
        found = self._values.get(f"SET_{name}")
        if found is None:
            raise DeviceError(f"{self.where} reads {name}, which was never set")
        return found

    def get(self, name: str, field: str = "") -> int:
        """Returns the value of a field; by default of the only one."""
        fields = self.instruction(name).fields
        return fields[field] if field else next(iter(fields.values()))

    def has(self, name: str) -> bool:
        return f"SET_{name}" in self._values

    def signed_address(self, name: str) -> int:
        return number(self.get(name), True, 40)

    def element(self, prefix: str) -> Element:
        fields = self.instruction(f"{prefix}_PRECISION").fields
        return Element(bool(fields["activation_type"]), 8 << fields["activation_precision"])

    def zero_point(self, prefix: str) -> int:
        return number(self.get(f"{prefix}_ZERO_POINT"), self.element(prefix).signed)

    def feature_map(self, prefix: str, height: int, width: int, depth: int) -> FeatureMap:
        """Returns a feature map of this size. Raises DeviceFault if its places are not aligned."""
        strides = ("Y", "C") if self._is_in_bricks(prefix) else ("Y", "X")
        self._check_aligned(self._alignment(prefix), *(f"{prefix}_STRIDE_{axis}" for axis in strides))
        return FeatureMap(
            region=self.get(f"{prefix}_REGION"),
            bases=self.bases(prefix),
            height0=self.get(f"{prefix}_HEIGHT0_M1") + 1,
            height1=self.get(f"{prefix}_HEIGHT1_M1") + 1,
            width0=self.get(f"{prefix}_WIDTH0_M1") + 1,
            stride_y=self.signed_address(f"{prefix}_STRIDE_Y"),
            stride_x=self.signed_address(f"{prefix}_STRIDE_X"),
            stride_c=self.signed_address(f"{prefix}_STRIDE_C"),
            format=ActivationFormat(self.get(f"{prefix}_PRECISION", "activation_format")),
            element=self.element(prefix),
            zero_point=self.zero_point(prefix),
            height=height,
            width=width,
            depth=depth,
        )

    def bases(self, prefix: str) -> tuple[int, int, int, int]:
        self._check_aligned(self._alignment(prefix), *_BASES[prefix])
        a, b, c, d = map(self.get, _BASES[prefix])
        return a, b, c, d

    def _is_in_bricks(self, prefix: str) -> bool:
        return self.get(f"{prefix}_PRECISION", "activation_format") == ActivationFormat.NHCWB16

    def _alignment(self, prefix: str) -> int:
        """Returns the bytes of which the places of a feature map are multiples: of a brick, or else of an element."""
        return _ALIGNED if self._is_in_bricks(prefix) else self.element(prefix).bytes

    def _check_aligned(self, step: int, *names: str) -> None:
        """Raises DeviceFault unless registers hold multiples of `step` (Vela's register_command_stream_util.py)."""
        for name in names:
            if (value := self.get(name)) % step:
                raise DeviceFault(f"{self.where} reads {name} {value:#x}, which is no multiple of {step}")

    def scale(self, name: str) -> FixedPointScale:
        return FixedPointScale(self.get(name, "scale"), self.get(name, "shift"))

    def size(self, prefix: str) -> tuple[int, int, int]:
        """Returns (height, width, depth) of the OFM, or with prefix OFM_BLK of its blocks."""
        height, width, depth = (self.get(f"{prefix}_{d}_M1") + 1 for d in ("HEIGHT", "WIDTH", "DEPTH"))
        return height, width, depth

    def kernel(self) -> Kernel:
        """Returns the window. Raises DeviceError if a dilation does not divide its size."""
        s = self.instruction("KERNEL_STRIDE").fields
        dilation = s["dilation_y"] + 1, s["dilation_x"] + 1
        (height, rest_y), (width, rest_x) = (
            divmod(self.get(f"KERNEL_{name}_M1"), d) for name, d in zip(("HEIGHT", "WIDTH"), dilation, strict=True)
        )
        if rest_y or rest_x:
            raise DeviceError(f"the model does not know a kernel that ends between its elements ({self.reader.name})")
        return Kernel(
            height=height + 1,
            width=width + 1,
            stride=(s["stride_y_lsb"] + 2 * s["stride_y_msb"] + 1, s["stride_x_lsb"] + 2 * s["stride_x_msb"] + 1),
            dilation=dilation,
            top=self.get("IFM_PAD_TOP"),
            left=self.get("IFM_PAD_LEFT"),
            bottom=self.get("IFM_PAD_BOTTOM"),
            right=self.get("IFM_PAD_RIGHT"),
        )

    def upscale(self) -> IfmUpscaleMode:
        return IfmUpscaleMode(self.get("IFM_UPSCALE"))

    def window(self, kernel: Kernel, out: tuple[int, int]) -> FeatureMap:
        """Returns the IFM of a convolution or pooling: as much as `out`, (height, width) of the output, reads.

        Raises DeviceError if that is only padding.
        """
        factor, (rows, columns) = self.upscale().factor, kernel.reach(out)
        height = -(-(rows - kernel.top - kernel.bottom) // factor)
        width = -(-(columns - kernel.left - kernel.right) // factor)
        if min(height, width) < 0:
            raise DeviceError("a window over nothing but padding")
        return self.feature_map("IFM", height, width, self.get("IFM_DEPTH_M1") + 1)

    def check_depth(self, depth: int) -> None:
        """Raises DeviceFault unless the IFM has `depth` channels."""
        found = self.get("IFM_DEPTH_M1") + 1
        if found != depth:
            raise DeviceFault(f"{self.where} reads {found} channels for {depth} of its result")

    def check_one_precision(self, bits: Iterable[int]) -> None:
        """Raises DeviceError for operands whose elements do not have the same number of bits."""
        if len(different := set(bits)) > 1:
            raise DeviceError(f"the model does not know {self.reader.name} of operands of {sorted(different)} bits")

    def check_one_scale(self, scale: FixedPointScale | None) -> None:
        """Raises DeviceError for an operation that cannot have a scale for each channel, but should."""
        if scale is None:
            raise DeviceError(f"the model does not know {self.reader.name} with a scale for each channel")

    def check_own_scales(self, scale: FixedPointScale | None) -> None:
        """Raises DeviceError for an operation that cannot have one scale for all channels, but should."""
        if scale is not None:
            raise DeviceError(f"the model does not know {self.reader.name} with one scale for all channels")

    def range(self, name: str, region: str) -> ByteRange:
        """Returns a stream of weights or scales. Raises DeviceFault if it is not aligned."""
        self._check_aligned(_ALIGNED, f"{name}_LENGTH", *([f"{name}_BASE"] if region == "WEIGHT" else []))
        return ByteRange(self.get(f"{region}_REGION"), self.get(f"{name}_BASE"), self.get(f"{name}_LENGTH"))


def number(bits: int, signed: bool, size: int = 16) -> int:
    """Returns the value of `size` bits, signed or not."""
    return bits - (1 << size) if signed and bits >> size - 1 else bits


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
