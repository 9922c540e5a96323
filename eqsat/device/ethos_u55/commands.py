"""Typed commands of U55 and U65, from instructions.

Each operation holds everything that the registers said when it was issued.
The facts are from Vela's generator (Apache-2.0).
It is `ethosu/regor/architecture/ethosu55/ethos_u55_register_cs_generator.cpp`.
"""

from __future__ import annotations

from dataclasses import dataclass

from eqsat.device.core.errors import DeviceError
from eqsat.device.core.instructions import Instruction
from eqsat.device.core.operands import ByteRange, Dma, DmaSide, FeatureMap, FixedPointScale, Kernel
from eqsat.device.core.registers import (
    DmaRegionMode,
    DmaStrideMode,
    IfmUpscaleMode,
    KernelDecomposition,
    OfmScaleMode,
    WeightOrder,
)
from eqsat.device.core.state import Makers, Registers, number
from eqsat.device.ethos_u55.registers import (
    AccFormat,
    ActivationClipRange,
    ActivationFunction,
    ElementwiseMode,
    IfmScaleMode,
    ParallelMode,
    PoolingMode,
    RoundMode,
)
from eqsat.target.family import HWC


@dataclass(frozen=True, slots=True)
class Activation:
    """The processing of a result after its scaling.

    minimum, maximum: bits of the registers.
    """

    function: ActivationFunction
    clip_range: ActivationClipRange
    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True)
class Output:
    """The result of an operation and what is done to it.

    scale: None if each channel has its own.
    """

    map: FeatureMap
    scale: FixedPointScale | None
    rounding: RoundMode
    activation: Activation

    @property
    def shape(self) -> HWC:
        return self.map.height, self.map.width, self.map.depth


@dataclass(frozen=True, slots=True)
class Block:
    """The blocks into which the work is cut.

    Results do not depend on it, but weights are stored in the order of blocks.

    shape: (height, width, depth) of a block of the OFM.
    dependency: BLOCKDEP, by how many blocks a kernel may overlap with the one before.
    inputs_end: the bank of shared memory behind the inputs.
    second_start: the first bank of the second input, None if there is none.
    accumulators_start: the first bank of accumulators.
    """

    shape: HWC
    dependency: int
    accumulators: AccFormat
    inputs_end: int
    second_start: int | None
    accumulators_start: int


@dataclass(frozen=True, slots=True)
class Convolution:
    """OP_CONV or OP_DEPTHWISE.

    weights, scales: a stream for each core.
    """

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
    """OP_POOL.

    scales: streams if each channel has its own scale.
    """

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
    """OP_ELEMENTWISE.

    ifm2: None for a unary operation and for one with a `scalar`.
    zero_point2: of IFM2 or of the scalar.
    reversed: whether IFM2 is the first operand.
    input_scale: which operands of ADD and SUB are scaled.
    opa, opb: scales of ADD and SUB, else None.
    """

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


Command = Convolution | Pooling | Elementwise | Dma

#: Modes whose results are scaled; for the others Vela sets the scale mode of channels, and no scale.
_SCALED = (
    ElementwiseMode.MUL,
    ElementwiseMode.ADD,
    ElementwiseMode.SUB,
    ElementwiseMode.LRELU,
    ElementwiseMode.ABS,
)
_UNARY = (ElementwiseMode.LRELU, ElementwiseMode.ABS, ElementwiseMode.CLZ)


def _output(r: Registers) -> Output:
    own = r.get("OFM_PRECISION", "scale_mode") == OfmScaleMode.PER_CHANNEL
    return Output(
        map=r.feature_map("OFM", *r.size("OFM")),
        scale=None if own else r.scale("OFM_SCALE"),
        rounding=RoundMode(r.get("OFM_PRECISION", "round_mode")),
        activation=Activation(
            ActivationFunction(r.get("ACTIVATION", "activation_function")),
            ActivationClipRange(r.get("ACTIVATION", "activation_clip_range")),
            r.get("ACTIVATION_MIN"),
            r.get("ACTIVATION_MAX"),
        ),
    )


def _block(r: Registers, two_inputs: bool = False) -> Block:
    return Block(
        r.size("OFM_BLK"),
        r.get("BLOCKDEP"),
        AccFormat(r.get("ACC_FORMAT")),
        r.get("IFM_IB_END"),
        r.get("IFM2_IB_START") if two_inputs else None,
        r.get("AB_START"),
    )


def _streams(r: Registers, kind: str) -> tuple[ByteRange, ...]:
    """Returns the streams of WEIGHT or SCALE, for each core that has one."""
    cores = 2 if r.has("PARALLEL_MODE") and r.get("PARALLEL_MODE") == ParallelMode.DUAL_CORE_DEPTH else 1
    return tuple(r.range(name, kind) for name in (kind, f"{kind}1")[:cores] if name == kind or r.get(f"{name}_LENGTH"))


def _convolution(r: Registers, i: Instruction) -> Convolution:
    kernel, output = r.kernel(), _output(r)
    if i.name == "OP_DEPTHWISE":
        r.check_depth(output.map.depth)
    r.check_own_scales(output.scale)
    return Convolution(
        offset=i.offset,
        depthwise=i.name == "OP_DEPTHWISE",
        ifm=r.window(kernel, output.shape[:2]),
        output=output,
        kernel=kernel,
        upscale=r.upscale(),
        order=WeightOrder(r.get("KERNEL_STRIDE", "weight_order")),
        decomposition=KernelDecomposition(r.get("KERNEL_STRIDE", "decomposition")),
        weights=_streams(r, "WEIGHT"),
        scales=_streams(r, "SCALE"),
        block=_block(r),
    )


def _pooling(r: Registers, i: Instruction) -> Pooling:
    c: Pooling | None = r.same(i)
    if c is not None:  # all but the places of its feature maps are the same objects
        o = c.output
        placed = Output(r.placed(o.map, "OFM"), o.scale, o.rounding, o.activation)
        return Pooling(i.offset, c.mode, r.placed(c.ifm, "IFM"), placed, c.kernel, c.upscale, c.scales, c.block)
    kernel, output = r.kernel(), _output(r)
    mode = PoolingMode(i.fields["pooling_mode"])
    if mode != PoolingMode.REDUCE_SUM:
        r.check_depth(output.map.depth)
    scales = _streams(r, "SCALE") if output.scale is None else ()
    return Pooling(
        i.offset,
        mode,
        r.window(kernel, output.shape[:2]),
        output,
        kernel,
        r.upscale(),
        scales,
        _block(r),
    )


def _elementwise(r: Registers, i: Instruction) -> Elementwise:
    mode, output = ElementwiseMode(i.fields["elementwise_mode"]), _output(r)
    r.check_depth(output.map.depth)
    (r.check_one_scale if mode in _SCALED else r.check_own_scales)(output.scale)
    ifm2, scalar, zero_point2, order = None, None, 0, 0
    if mode not in _UNARY:
        b = r.instruction("IFM2_BROADCAST").fields
        order = b["operand_order"]
        zero_point2 = r.zero_point("IFM2")
        r.check_one_precision(r.element(prefix).bits for prefix in ("IFM", "IFM2"))
        if b["broadcast_constant"]:
            scalar = number(r.get("IFM2_SCALAR"), r.element("IFM2").signed)
        else:
            shape = (1 if b[f"broadcast_{axis}"] else n for axis, n in zip("hwc", output.shape, strict=True))
            ifm2 = r.feature_map("IFM2", *shape)
    sums = mode in (ElementwiseMode.ADD, ElementwiseMode.SUB)
    return Elementwise(
        offset=i.offset,
        mode=mode,
        ifm=r.feature_map("IFM", *output.shape),
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
        block=_block(r, ifm2 is not None),
    )


def _dma(r: Registers, i: Instruction) -> Dma:
    most = max(r.get(f"DMA0_{side}_REGION", "stride_mode") for side in ("SRC", "DST"))
    length = r.get("DMA0_LEN")
    sizes = (
        r.get("DMA0_SIZE1") if most == DmaStrideMode.D3 else 1,
        r.get("DMA0_SIZE0") if most >= DmaStrideMode.D2 else 1,
    )
    skips = (
        r.signed_address("DMA0_SKIP1") if most == DmaStrideMode.D3 else 0,
        r.signed_address("DMA0_SKIP0") if most >= DmaStrideMode.D2 else 0,
    )
    if sizes[0] > 1 and skips[1]:
        raise DeviceError("the model does not know copies in three dimensions with gaps in the second")
    source, destination = (_side(r, side, length, sizes[1], skips) for side in ("SRC", "DST"))
    return Dma(i.offset, length, sizes, source, destination)


def _side(r: Registers, side: str, length: int, columns: int, skips: tuple[int, int]) -> DmaSide:
    """Returns a side, on which pieces are contiguous but for the gaps of the dimensions in which it is walked."""
    f = r.instruction(f"DMA0_{side}_REGION").fields
    inner = length + (skips[1] if f["stride_mode"] >= DmaStrideMode.D2 else 0)
    outer = columns * inner + (skips[0] if f["stride_mode"] == DmaStrideMode.D3 else 0)
    region = f["region"] if f["region_mode"] == DmaRegionMode.EXTERNAL else None
    return DmaSide(region, r.get(f"DMA0_{side}"), (outer, inner))


MAKERS: Makers = {
    "OP_CONV": _convolution,
    "OP_DEPTHWISE": _convolution,
    "OP_POOL": _pooling,
    "OP_ELEMENTWISE": _elementwise,
    "OP_DMA_START": _dma,
}
