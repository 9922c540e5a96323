"""From instructions to typed commands: each operation with everything that the registers said when it was issued.

Registers keep their values, and Vela writes only those that change. A command that needs one that was never set is an error.
Facts from Vela's generator (`ethosu/regor/architecture/ethosu55/ethos_u55_register_cs_generator.cpp`, Apache-2.0).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from eqsat.device.errors import DeviceError
from eqsat.device.registers import (
    AccFormat,
    ActivationClipRange,
    ActivationFormat,
    ActivationFunction,
    DmaRegionMode,
    DmaStrideMode,
    ElementwiseMode,
    IfmScaleMode,
    IfmUpscaleMode,
    KernelDecomposition,
    OfmScaleMode,
    ParallelMode,
    PoolingMode,
    RoundMode,
    WeightOrder,
)
from eqsat.device.stream import Instruction


@dataclass(frozen=True, slots=True)
class Element:
    """The type of an element: whether signed, and 8, 16, 32 or 64 bits."""

    signed: bool
    bits: int

    @property
    def dtype(self) -> str:
        """numpy's name."""
        return f"{'int' if self.signed else 'uint'}{self.bits}"

    @property
    def bytes(self) -> int:
        return self.bits // 8

    @property
    def limits(self) -> tuple[int, int]:
        return (-(1 << self.bits - 1), (1 << self.bits - 1) - 1) if self.signed else (0, (1 << self.bits) - 1)


@dataclass(frozen=True, slots=True)
class FeatureMap:
    """Where a tensor of [height, width, depth] lies: bases (bytes in `region`) of up to four tiles, split at width0 and at height0 (left)
    and height1 (right); strides in bytes."""

    region: int
    bases: tuple[int, int, int, int]
    height0: int
    height1: int
    width0: int
    stride_y: int
    stride_x: int
    stride_c: int
    format: ActivationFormat
    element: Element
    zero_point: int
    height: int
    width: int
    depth: int


@dataclass(frozen=True, slots=True)
class Kernel:
    """Elements of the window, strides and dilations (y, x), and the padding on the four sides."""

    height: int
    width: int
    stride: tuple[int, int]
    dilation: tuple[int, int]
    top: int
    left: int
    bottom: int
    right: int

    @property
    def padded(self) -> bool:
        return any((self.top, self.left, self.bottom, self.right))


@dataclass(frozen=True, slots=True)
class FixedPointScale:
    """A factor of multiplier / 2**shift."""

    multiplier: int
    shift: int


@dataclass(frozen=True, slots=True)
class Activation:
    """What happens to a result behind its scaling. minimum, maximum: bits as they are in the registers."""

    function: ActivationFunction
    clip_range: ActivationClipRange
    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True)
class ByteRange:
    """`length` bytes at `address` of a region."""

    region: int
    address: int
    length: int


@dataclass(frozen=True, slots=True)
class Output:
    """The result of an operation and what is done to it. scale: None where each channel has its own."""

    map: FeatureMap
    scale: FixedPointScale | None
    rounding: RoundMode
    activation: Activation


@dataclass(frozen=True, slots=True)
class Block:
    """How the work is cut, of no influence on the result but that weights are stored in this order. (height, width, depth); dependency: how many
    blocks may overlap with those of the operation before."""

    shape: tuple[int, int, int]
    dependency: int
    accumulators: AccFormat


@dataclass(frozen=True, slots=True)
class Convolution:
    """OP_CONV or OP_DEPTHWISE. weights, scales: a stream for each core."""

    offset: int
    depthwise: bool
    ifm: FeatureMap
    output: Output
    kernel: Kernel
    upscale: IfmUpscaleMode
    order: WeightOrder
    decomposition: KernelDecomposition
    weights: tuple[ByteRange, ...]
    scales: tuple[ByteRange, ...]
    block: Block


@dataclass(frozen=True, slots=True)
class Pooling:
    """OP_POOL. scales: where each channel has its own."""

    offset: int
    mode: PoolingMode
    ifm: FeatureMap
    output: Output
    kernel: Kernel
    upscale: IfmUpscaleMode
    scales: tuple[ByteRange, ...]
    block: Block


@dataclass(frozen=True, slots=True)
class Elementwise:
    """OP_ELEMENTWISE. ifm2: None of a unary one, and of one with a `scalar`, of which zero_point2 is the zero point; reversed: IFM2 is the first operand.
    input_scale, opa, opb: of ADD and SUB, else None."""

    offset: int
    mode: ElementwiseMode
    ifm: FeatureMap
    ifm2: FeatureMap | None
    scalar: int | None
    zero_point2: int
    reversed: bool
    input_scale: IfmScaleMode
    input_rounding: RoundMode
    opa: FixedPointScale | None
    opb: int | None
    upscale: IfmUpscaleMode
    output: Output
    block: Block


@dataclass(frozen=True, slots=True)
class Dma:
    """OP_DMA_START: `sizes` (outer, inner) pieces of length bytes each. Regions are None inside the NPU (its shared memory).
    source_mode, destination_mode: in how many dimensions each side is walked; skips: bytes between pieces and between rows of them, on
    top of their length."""

    offset: int
    source_region: int | None
    source: int
    source_mode: DmaStrideMode
    destination_region: int | None
    destination: int
    destination_mode: DmaStrideMode
    length: int
    sizes: tuple[int, int]
    skips: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Wait:
    """OP_DMA_WAIT or OP_KERNEL_WAIT: until at most `outstanding` are."""

    offset: int
    kernel: bool
    outstanding: int


@dataclass(frozen=True, slots=True)
class Stop:
    """OP_STOP."""

    offset: int


Command = Convolution | Pooling | Elementwise | Dma | Wait | Stop

_UNARY = (ElementwiseMode.LRELU, ElementwiseMode.ABS, ElementwiseMode.CLZ)


def commands(stream: Iterable[Instruction]) -> Iterator[Command]:
    """The operations of a stream. Raises DeviceError."""
    registers = _Registers()
    for i in stream:
        if not i.layout.operation:
            registers.set(i)
            continue
        registers.reader = i
        if i.name not in _MAKERS:
            raise DeviceError(f"the model does not know {i.name} (at byte {i.offset})")
        yield _MAKERS[i.name](registers, i)
        if i.name == "OP_STOP":
            return
    raise DeviceError("the command stream has no OP_STOP")


class _Registers:
    """What was set last. reader: the operation that asks, for messages."""

    reader: Instruction

    def __init__(self) -> None:
        self._values: dict[str, Instruction] = {}

    def set(self, i: Instruction) -> None:
        self._values[i.name] = i

    def instruction(self, name: str) -> Instruction:
        found = self._values.get(f"SET_{name}")
        if found is None:
            raise DeviceError(f"{self.reader.name} at byte {self.reader.offset} reads {name}, which was never set")
        return found

    def get(self, name: str, field: str = "") -> int:
        """A field, the only one by default."""
        fields = self.instruction(name).fields
        return fields[field] if field else next(iter(fields.values()))

    def has(self, name: str) -> bool:
        return f"SET_{name}" in self._values

    def signed_address(self, name: str) -> int:
        value = self.get(name)
        return value - (1 << 40) if value >> 39 else value

    def element(self, prefix: str) -> Element:
        fields = self.instruction(f"{prefix}_PRECISION").fields
        return Element(bool(fields["activation_type"]), 8 << fields["activation_precision"])

    def feature_map(self, prefix: str, height: int, width: int, depth: int) -> FeatureMap:
        element = self.element(prefix)
        return FeatureMap(
            region=self.get(f"{prefix}_REGION"),
            bases=(
                self.get(f"{prefix}_BASE0"),
                self.get(f"{prefix}_BASE1"),
                self.get(f"{prefix}_BASE2"),
                self.get(f"{prefix}_BASE3"),
            ),
            height0=self.get(f"{prefix}_HEIGHT0_M1") + 1,
            height1=self.get(f"{prefix}_HEIGHT1_M1") + 1,
            width0=self.get(f"{prefix}_WIDTH0_M1") + 1,
            stride_y=self.signed_address(f"{prefix}_STRIDE_Y"),
            stride_x=self.signed_address(f"{prefix}_STRIDE_X"),
            stride_c=self.signed_address(f"{prefix}_STRIDE_C"),
            format=ActivationFormat(self.get(f"{prefix}_PRECISION", "activation_format")),
            element=element,
            zero_point=_value(self.get(f"{prefix}_ZERO_POINT"), element.signed),
            height=height,
            width=width,
            depth=depth,
        )

    def scale(self, name: str) -> FixedPointScale:
        return FixedPointScale(self.get(name, "scale"), self.get(name, "shift"))

    def output(self) -> Output:
        height, width, depth = (self.get(f"OFM_{d}_M1") + 1 for d in ("HEIGHT", "WIDTH", "DEPTH"))
        own = self.get("OFM_PRECISION", "scale_mode") == OfmScaleMode.PER_CHANNEL
        return Output(
            map=self.feature_map("OFM", height, width, depth),
            scale=None if own else self.scale("OFM_SCALE"),
            rounding=RoundMode(self.get("OFM_PRECISION", "round_mode")),
            activation=Activation(
                ActivationFunction(self.get("ACTIVATION", "activation_function")),
                ActivationClipRange(self.get("ACTIVATION", "activation_clip_range")),
                self.get("ACTIVATION_MIN"),
                self.get("ACTIVATION_MAX"),
            ),
        )

    def block(self) -> Block:
        height, width, depth = (self.get(f"OFM_BLK_{d}_M1") + 1 for d in ("HEIGHT", "WIDTH", "DEPTH"))
        return Block((height, width, depth), self.get("BLOCKDEP"), AccFormat(self.get("ACC_FORMAT")))

    def kernel(self) -> Kernel:
        s = self.instruction("KERNEL_STRIDE").fields
        dilation = s["dilation_y"] + 1, s["dilation_x"] + 1
        return Kernel(
            height=self.get("KERNEL_HEIGHT_M1") // dilation[0] + 1,
            width=self.get("KERNEL_WIDTH_M1") // dilation[1] + 1,
            stride=(s["stride_y_lsb"] + 2 * s["stride_y_msb"] + 1, s["stride_x_lsb"] + 2 * s["stride_x_msb"] + 1),
            dilation=dilation,
            top=self.get("IFM_PAD_TOP"),
            left=self.get("IFM_PAD_LEFT"),
            bottom=self.get("IFM_PAD_BOTTOM"),
            right=self.get("IFM_PAD_RIGHT"),
        )

    def upscale(self) -> IfmUpscaleMode:
        return IfmUpscaleMode(self.get("IFM_UPSCALE"))

    def window(self, kernel: Kernel, out: FeatureMap) -> FeatureMap:
        """IFM of a convolution or pooling: its height and width are what the output reads; upscaled, every other position."""
        factor = 1 if self.upscale() == IfmUpscaleMode.NONE else 2
        size = (
            (out.height, kernel.height, kernel.top + kernel.bottom),
            (out.width, kernel.width, kernel.left + kernel.right),
        )
        height, width = (
            -(-((n - 1) * stride + (taps - 1) * dilation + 1 - padding) // factor)
            for (n, taps, padding), stride, dilation in zip(size, kernel.stride, kernel.dilation, strict=True)
        )
        return self.feature_map("IFM", height, width, self.get("IFM_DEPTH_M1") + 1)

    def streams(self, kind: str) -> tuple[ByteRange, ...]:
        """WEIGHT or SCALE, of each core that has one."""
        cores = 2 if self.has("PARALLEL_MODE") and self.get("PARALLEL_MODE") == ParallelMode.DUAL_CORE_DEPTH else 1
        region = self.get(f"{kind}_REGION")
        both = [
            ByteRange(region, self.get(f"{name}_BASE"), self.get(f"{name}_LENGTH"))
            for name in (kind, f"{kind}1")[:cores]
            if name == kind or self.get(f"{name}_LENGTH")
        ]
        return tuple(both)


def _value(bits: int, signed: bool) -> int:
    """16 bits as a number."""
    return bits - (1 << 16) if signed and bits >> 15 else bits


def _convolution(r: _Registers, i: Instruction) -> Convolution:
    kernel, output = r.kernel(), r.output()
    return Convolution(
        offset=i.offset,
        depthwise=i.name == "OP_DEPTHWISE",
        ifm=r.window(kernel, output.map),
        output=output,
        kernel=kernel,
        upscale=r.upscale(),
        order=WeightOrder(r.get("KERNEL_STRIDE", "weight_order")),
        decomposition=KernelDecomposition(r.get("KERNEL_STRIDE", "decomposition")),
        weights=r.streams("WEIGHT"),
        scales=r.streams("SCALE"),
        block=r.block(),
    )


def _pooling(r: _Registers, i: Instruction) -> Pooling:
    kernel, output = r.kernel(), r.output()
    mode = PoolingMode(i.fields["pooling_mode"])
    scales = r.streams("SCALE") if output.scale is None else ()
    return Pooling(i.offset, mode, r.window(kernel, output.map), output, kernel, r.upscale(), scales, r.block())


def _elementwise(r: _Registers, i: Instruction) -> Elementwise:
    mode, output = ElementwiseMode(i.fields["elementwise_mode"]), r.output()
    out = output.map
    ifm2, scalar, zero_point2, order = None, None, 0, 0
    if mode not in _UNARY:
        b = r.instruction("IFM2_BROADCAST").fields
        order = b["operand_order"]
        zero_point2 = _value(r.get("IFM2_ZERO_POINT"), r.element("IFM2").signed)
        if b["broadcast_constant"]:
            scalar = _value(r.get("IFM2_SCALAR"), r.element("IFM2").signed)
        else:
            shape = (
                1 if b[f"broadcast_{axis}"] else n
                for axis, n in zip("hwc", (out.height, out.width, out.depth), strict=True)
            )
            ifm2 = r.feature_map("IFM2", *shape)
    sums = mode in (ElementwiseMode.ADD, ElementwiseMode.SUB)
    return Elementwise(
        offset=i.offset,
        mode=mode,
        ifm=r.feature_map("IFM", out.height, out.width, out.depth),
        ifm2=ifm2,
        scalar=scalar,
        zero_point2=zero_point2,
        reversed=bool(order),
        input_scale=IfmScaleMode(r.get("IFM_PRECISION", "scale_mode")),
        input_rounding=RoundMode(r.get("IFM_PRECISION", "round_mode")),
        opa=r.scale("OPA_SCALE") if sums else None,
        opb=r.get("OPB_SCALE") if sums else None,
        upscale=r.upscale(),
        output=output,
        block=r.block(),
    )


def _dma(r: _Registers, i: Instruction) -> Dma:
    source, destination = (r.instruction(f"DMA0_{side}_REGION").fields for side in ("SRC", "DST"))
    modes = DmaStrideMode(source["stride_mode"]), DmaStrideMode(destination["stride_mode"])
    most = max(modes)
    return Dma(
        offset=i.offset,
        source_region=source["region"] if source["region_mode"] == DmaRegionMode.EXTERNAL else None,
        source=r.get("DMA0_SRC"),
        source_mode=modes[0],
        destination_region=destination["region"] if destination["region_mode"] == DmaRegionMode.EXTERNAL else None,
        destination=r.get("DMA0_DST"),
        destination_mode=modes[1],
        length=r.get("DMA0_LEN"),
        sizes=(
            r.get("DMA0_SIZE1") if most == DmaStrideMode.D3 else 1,
            r.get("DMA0_SIZE0") if most >= DmaStrideMode.D2 else 1,
        ),
        skips=(
            r.signed_address("DMA0_SKIP1") if most == DmaStrideMode.D3 else 0,
            r.signed_address("DMA0_SKIP0") if most >= DmaStrideMode.D2 else 0,
        ),
    )


def _wait(_: _Registers, i: Instruction) -> Wait:
    return Wait(i.offset, i.name == "OP_KERNEL_WAIT", next(iter(i.fields.values())))


_MAKERS: dict[str, Callable[[_Registers, Instruction], Command]] = {
    "OP_CONV": _convolution,
    "OP_DEPTHWISE": _convolution,
    "OP_POOL": _pooling,
    "OP_ELEMENTWISE": _elementwise,
    "OP_DMA_START": _dma,
    "OP_DMA_WAIT": _wait,
    "OP_KERNEL_WAIT": _wait,
    "OP_STOP": lambda _, i: Stop(i.offset),
}
