"""Decodes instructions of Ethos-U55 and U65 into commands."""

from __future__ import annotations

from eqsat.device.core.commands import (
    Accumulators,
    Activation,
    Banks,
    Block,
    Convolution,
    Elementwise,
    InputScale,
    Operand,
    Output,
    Pooling,
    Scalar,
)
from eqsat.device.core.errors import DeviceError
from eqsat.device.core.instructions import Instruction
from eqsat.device.core.operands import ByteRange, Dma, DmaSide, FeatureMap, FixedPointScale
from eqsat.device.core.registers import (
    DmaRegionMode,
    DmaStrideMode,
    ElementwiseMode,
    KernelDecomposition,
    OfmScaleMode,
    PoolingMode,
    WeightOrder,
)
from eqsat.device.core.state import Makers, Registers, number
from eqsat.device.ethos_u55.registers import (
    AccFormat,
    ActivationClipRange,
    ActivationFunction,
    IfmScaleMode,
    ParallelMode,
    RoundMode,
)

#: Modes whose results are scaled; for the others Vela sets the scale mode of channels, and no scale.
_SCALED = (
    ElementwiseMode.MUL,
    ElementwiseMode.ADD,
    ElementwiseMode.SUB,
    ElementwiseMode.LRELU,
    ElementwiseMode.ABS,
)
_SUMS = (ElementwiseMode.ADD, ElementwiseMode.SUB)
#: Left shift of the operand of a sum that OPA_SCALE does not scale, by the bits of its elements.
_BUILT_IN = {8: 19, 16: 14}


def _output(r: Registers) -> Output:
    own, shape = r.get("OFM_PRECISION", "scale_mode") == OfmScaleMode.PER_CHANNEL, r.size("OFM")
    return Output(
        shape=shape,
        map=r.feature_map("OFM", *shape),
        scale=None if own else r.scale("OFM_SCALE"),
        rounding=RoundMode(r.get("OFM_PRECISION", "round_mode")),
        activation=Activation(
            ActivationFunction(r.get("ACTIVATION", "activation_function")),
            ActivationClipRange(r.get("ACTIVATION", "activation_clip_range")),
            r.get("ACTIVATION_MIN"),
            r.get("ACTIVATION_MAX"),
        ),
    )


def _accumulators(r: Registers) -> Accumulators:
    return Accumulators(AccFormat(r.get("ACC_FORMAT")))


def _block(r: Registers, two_inputs: bool = False) -> Block:
    second = r.get("IFM2_IB_START") if two_inputs else None
    banks = Banks(r.get("IFM_IB_END"), second, r.get("AB_START"))
    return Block(r.size("OFM_BLK"), r.get("BLOCKDEP"), banks=banks)


def _streams(r: Registers, kind: str) -> tuple[ByteRange, ...]:
    """Returns the streams of WEIGHT or SCALE, for each core that has one."""
    cores = 2 if r.has("PARALLEL_MODE") and r.get("PARALLEL_MODE") == ParallelMode.DUAL_CORE_DEPTH else 1
    return tuple(r.range(name, kind) for name in (kind, f"{kind}1")[:cores] if name == kind or r.get(f"{name}_LENGTH"))


def _convolution(r: Registers, i: Instruction) -> Convolution:
    kernel, output = r.kernel(), _output(r)
    if i.name == "OP_DEPTHWISE":
        r.check_depth(output.shape[2])
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
        accumulators=_accumulators(r),
        block=_block(r),
    )


def _pooling(r: Registers, i: Instruction) -> Pooling:
    c: Pooling | None = r.same(i)
    if c is not None:  # all but the places of its feature maps are the same objects
        o = c.output
        assert isinstance(o.map, FeatureMap)
        o = Output(o.shape, r.placed(o.map, "OFM"), o.scale, o.rounding, o.activation)
        ifm = r.placed(c.ifm, "IFM")
        return Pooling(i.offset, c.mode, ifm, o, c.kernel, c.upscale, c.scales, c.accumulators, c.block)
    kernel, output = r.kernel(), _output(r)
    mode = PoolingMode(i.fields["pooling_mode"])
    if mode != PoolingMode.REDUCE_SUM:
        r.check_depth(output.shape[2])
    return Pooling(
        offset=i.offset,
        mode=mode,
        ifm=r.window(kernel, output.shape[:2]),
        output=output,
        kernel=kernel,
        upscale=r.upscale(),
        scales=_streams(r, "SCALE") if output.scale is None else (),
        accumulators=_accumulators(r),
        block=_block(r),
    )


def _elementwise(r: Registers, i: Instruction) -> Elementwise:
    mode, output = ElementwiseMode(i.fields["elementwise_mode"]), _output(r)
    r.check_depth(output.shape[2])
    (r.check_one_scale if mode in _SCALED else r.check_own_scales)(output.scale)
    operands: tuple[Operand, ...] = (r.feature_map("IFM", *output.shape),)
    is_reversed = False
    if not mode.is_unary:
        b = r.instruction("IFM2_BROADCAST").fields
        is_reversed = bool(b["operand_order"])
        ifm, ifm2 = r.element("IFM"), r.element("IFM2")
        r.check_one_precision((ifm.bits, ifm2.bits))
        if b["broadcast_constant"]:
            operands += (Scalar(number(r.get("IFM2_SCALAR"), ifm2.signed), ifm2, r.zero_point("IFM2")),)
        else:
            shape = (1 if b[f"broadcast_{axis}"] else n for axis, n in zip("hwc", output.shape, strict=True))
            operands += (r.feature_map("IFM2", *shape),)
    inputs = _inputs(r, is_reversed) if mode in _SUMS else tuple(InputScale() for _ in operands)
    return Elementwise(
        offset=i.offset,
        mode=mode,
        operands=operands,
        inputs=inputs,
        upscale=r.upscale(),
        output=output,
        accumulators=_accumulators(r),
        block=_block(r, len(operands) > 1 and not isinstance(operands[1], Scalar)),
        reversed=is_reversed,
    )


def _inputs(r: Registers, is_reversed: bool) -> tuple[InputScale, InputScale]:
    """Returns the scales of IFM and IFM2 of a sum.

    OPA_OPB_16 multiplies each by 16 bits without a shift.
    The other modes scale one operand by OPA_SCALE, the first or the second of the sum, and shift the other to the left.
    The hardware fixes that shift: 1 << 19 for 8 bits, 1 << 14 for 16.
    Source: `ethos_u55_constraints.cpp`.
    """
    mode, rounding = IfmScaleMode(r.get("IFM_PRECISION", "scale_mode")), RoundMode(r.get("IFM_PRECISION", "round_mode"))
    opa, opb = r.scale("OPA_SCALE"), r.get("OPB_SCALE")
    if mode == IfmScaleMode.OPA_OPB_16:
        # both registers have 16 bits here, in which a wider value loses its upper ones
        # (executorch pull request 21151)
        factors = opa.multiplier & 0xFFFF, opb
        first, second = (InputScale(FixedPointScale(factor, 0), rounding) for factor in factors)
        return first, second
    element = r.element("IFM")
    if element.bits not in _BUILT_IN:
        raise DeviceError(f"the model does not know {mode.name} for {element.dtype}")
    scaled, shifted = InputScale(opa, rounding), InputScale(FixedPointScale(1 << _BUILT_IN[element.bits], 0), rounding)
    return (scaled, shifted) if (mode == IfmScaleMode.OPA_32) != is_reversed else (shifted, scaled)


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
