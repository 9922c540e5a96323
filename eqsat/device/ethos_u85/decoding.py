"""Decodes instructions of Ethos-U85 into its operations."""

from __future__ import annotations

from eqsat.device.core.commands import (
    Accumulators,
    Activation,
    Block,
    Chained,
    Convolution,
    Elementwise,
    InputScale,
    Operand,
    Output,
    Pooling,
    Resize,
    ResizeAxis,
    Scalar,
)
from eqsat.device.core.errors import DeviceError
from eqsat.device.core.instructions import Instruction
from eqsat.device.core.operands import ByteRange, Dma, DmaSide, FeatureMap, Indices, Kernel
from eqsat.device.core.registers import (
    AccInput,
    ActivationReverse,
    ActivationTranspose,
    DmaRegionMode,
    DmaStrideMode,
    ElementwiseMode,
    IfmUpscaleMode,
    KernelDecomposition,
    OfmScaleMode,
    PoolingMode,
    ResizeMode,
    Rounding,
    WeightFormat,
    WeightOrder,
    WeightSparsity,
)
from eqsat.device.core.state import Makers, Registers, number
from eqsat.device.ethos_u85.registers import (
    AccFormat,
    AccOutput,
    ActivationClipRange,
    ActivationFunction,
    ActivationStorage,
    BroadcastMode,
    DmaIndexMode,
    Microblock,
    RoundModeIfm,
)
from eqsat.target.family import HWC

_BROADCAST = (BroadcastMode.H, BroadcastMode.W, BroadcastMode.C)


def _storage(r: Registers, prefix: str) -> ActivationStorage:
    found = ActivationStorage(r.get(f"{prefix}_PRECISION", "activation_storage"))
    if found == ActivationStorage.TILE3X1:
        raise DeviceError(f"the model does not know {prefix} in {found.name} (at byte {r.reader.offset})")
    return found


def _check_in_memory(r: Registers, prefix: str) -> None:
    if _storage(r, prefix) != ActivationStorage.TILE2X2:
        raise DeviceError(f"{r.where}: {prefix} is not in memory")


def _in_memory(r: Registers, prefix: str, height: int, width: int, depth: int) -> FeatureMap:
    _check_in_memory(r, prefix)
    return r.feature_map(prefix, height, width, depth)


def _window(r: Registers, kernel: Kernel, shape: HWC) -> FeatureMap:
    _check_in_memory(r, "IFM")
    return r.window(kernel, shape[:2])


def _output(r: Registers) -> Output:
    shape = r.size("OFM")
    p = r.instruction("OFM_PRECISION").fields
    transpose = ActivationTranspose(p["activation_transpose"])
    storage = _storage(r, "OFM")
    if r.get("OFM_SCALE", "dbl_rnd"):
        raise DeviceError(f"the model does not know results that are rounded twice (at byte {r.reader.offset})")
    how = (storage == ActivationStorage.CHAINED, transpose != ActivationTranspose.HWC, bool(p["activation_reverse"]))
    if sum(how) > 1:  # which Vela asserts that it never combines
        raise DeviceError("the model does not know results of which two are true: chained, transposed, reversed")
    map_: FeatureMap | Chained | None = None
    if storage == ActivationStorage.CHAINED:
        map_ = Chained(r.get("OFM_REGION"), r.element("OFM"), r.zero_point("OFM"))
    elif storage == ActivationStorage.TILE2X2:
        map_ = r.feature_map("OFM", *(shape[k] for k in transpose.axes))
    return Output(
        shape=shape,
        map=map_,
        scale=None if p["scale_mode"] == OfmScaleMode.PER_CHANNEL else r.scale("OFM_SCALE"),
        rounding=Rounding(r.get("OFM_SCALE", "round_mode")),
        activation=Activation(
            ActivationFunction(r.get("ACTIVATION", "activation_function")),
            ActivationClipRange(r.get("ACTIVATION", "activation_clip_range")),
            r.get("ACTIVATION_MIN"),
            r.get("ACTIVATION_MAX"),
            r.get("ACTIVATION", "table"),
        ),
        transpose=transpose,
        reverse=ActivationReverse(p["activation_reverse"]),
    )


def _accumulators(r: Registers) -> Accumulators:
    f = r.instruction("ACC_FORMAT").fields
    return Accumulators(AccFormat(f["acc_format"]), AccInput(f["acc_input"]), f["acc_output"] == AccOutput.ENABLE)


def _block(r: Registers) -> Block:
    name = Microblock(r.get("ACC_FORMAT", "microblock")).name  # such as U2X4
    return Block(r.size("OFM_BLK"), r.get("BLOCKDEP"), (int(name[1]), int(name[3])))


def _convolution(r: Registers, i: Instruction) -> Convolution:
    kernel, output, accumulators = r.kernel(), _output(r), _accumulators(r)
    height, width, depth = output.shape
    ifm = _window(r, kernel, output.shape)
    matrices = bool(i.fields.get("weights_ifm2"))
    ifm2 = None
    if matrices:
        ifm2 = _in_memory(r, "IFM2", 1, depth, ifm.depth)
    elif accumulators.input == AccInput.IFM2:
        ifm2 = _in_memory(r, "IFM2", height, width, depth)
    return Convolution(
        offset=i.offset,
        depthwise=i.name == "OP_DEPTHWISE",
        matrices=matrices,
        ifm=ifm,
        ifm2=ifm2,
        output=output,
        kernel=kernel,
        upscale=r.upscale(),
        order=WeightOrder(r.get("KERNEL_STRIDE", "weight_order")),
        decomposition=KernelDecomposition(r.get("KERNEL_STRIDE", "decomposition")),
        format=WeightFormat(r.get("WEIGHT_FORMAT", "weight_format")),
        sparsity=WeightSparsity(r.get("WEIGHT_FORMAT", "weight_sparsity")),
        weights=() if matrices else _weights(r),
        scales=(r.range("SCALE", "SCALE"),) if output.scale is None else (),
        accumulators=accumulators,
        block=_block(r),
    )


def _weights(r: Registers) -> tuple[ByteRange, ...]:
    """Returns the streams of all decoders that have one."""
    return tuple(
        r.range(name, "WEIGHT")
        for name in ("WEIGHT", "WEIGHT1", "WEIGHT2", "WEIGHT3")
        if r.has(f"{name}_LENGTH") and r.get(f"{name}_LENGTH")
    )


def _pooling(r: Registers, i: Instruction) -> Pooling:
    kernel, output, accumulators = r.kernel(), _output(r), _accumulators(r)
    height, width, depth = output.shape
    mode = PoolingMode(i.fields["pooling_mode"])
    if mode != PoolingMode.REDUCE_SUM:
        r.check_depth(depth)
    return Pooling(
        offset=i.offset,
        mode=mode,
        ifm=_window(r, kernel, output.shape),
        ifm2=_in_memory(r, "IFM2", height, width, depth) if accumulators.input == AccInput.IFM2 else None,
        output=output,
        kernel=kernel,
        upscale=r.upscale(),
        scales=(r.range("SCALE", "SCALE"),) if output.scale is None else (),
        accumulators=accumulators,
        block=_block(r),
    )


def _operand(r: Registers, prefix: str, shape: HWC) -> Operand:
    storage, element = _storage(r, prefix), r.element(prefix)
    if storage == ActivationStorage.CHAINED:
        return Chained(r.get(f"{prefix}_REGION"), element, r.zero_point(prefix))
    mode = BroadcastMode(r.get(f"{prefix}_BROADCAST"))
    if storage == ActivationStorage.NONE:
        if mode != BroadcastMode.SCALAR:
            raise DeviceError(f"{prefix} at byte {r.reader.offset} is nowhere, and no scalar")
        return Scalar(number(r.get("OP_SCALAR"), True, 32), element, r.zero_point(prefix))
    if mode == BroadcastMode.SCALAR:
        raise DeviceError(f"{prefix} at byte {r.reader.offset} is a scalar in memory")
    return r.feature_map(prefix, *(1 if mode & axis else n for axis, n in zip(_BROADCAST, shape, strict=True)))


def _input(r: Registers, prefix: str) -> InputScale:
    return InputScale(
        r.scale(f"{prefix}_SCALE"),
        RoundModeIfm(r.get(f"{prefix}_SCALE", "round_mode")),
        r.get(f"{prefix}_SCALE", "dbl_rnd"),
    )


def _elementwise(r: Registers, i: Instruction) -> Elementwise:
    mode, output = ElementwiseMode(i.fields["elementwise_mode"]), _output(r)
    r.check_one_scale(output.scale)
    prefixes = ("IFM",) if mode.is_unary else ("IFM", "IFM2")
    operands = tuple(_operand(r, p, output.shape) for p in prefixes)
    r.check_one_precision(o.element.bits for o in operands)
    first, chained = operands[0], any(isinstance(o, Chained) for o in (*operands, output.map))
    if isinstance(first, FeatureMap) and not chained:
        r.check_depth(first.depth)  # in chains Vela leaves the shape of another operator in the register
    return Elementwise(
        offset=i.offset,
        mode=mode,
        operands=operands,
        inputs=tuple(_input(r, p) for p in prefixes),
        upscale=r.upscale(),
        output=output,
        accumulators=_accumulators(r),
        block=_block(r),
    )


def _resize(r: Registers, i: Instruction) -> Resize:
    height, width = r.get("KERNEL_HEIGHT_M1") + 1, r.get("KERNEL_WIDTH_M1") + 1
    output, block = _output(r), _block(r)
    r.check_one_scale(output.scale)
    if r.upscale() != IfmUpscaleMode.NONE:
        raise DeviceError("the model does not know an upscaled RESIZE")
    if r.get("IFM2_ZERO_POINT"):  # of an operand that it does not have
        raise DeviceError("the model does not know a RESIZE with a zero point of IFM2")
    return Resize(
        offset=i.offset,
        mode=ResizeMode(i.fields["resize_mode"]),
        ifm=_in_memory(r, "IFM", height, width, r.get("IFM_DEPTH_M1") + 1),
        output=output,
        y=_axis(r, "Y", block.shape[0]),
        x=_axis(r, "X", block.shape[1]),
        accumulators=_accumulators(r),
        block=block,
    )


def _axis(r: Registers, axis: str, block: int) -> ResizeAxis:
    """Returns an axis of a resize. Raises DeviceError unless a block of results begins where its first result does."""
    fields = r.instruction(f"RESIZE_{axis}").fields
    scale, step, rest = r.get(f"RESIZE_{axis}_SCALE_N_M1") + 1, fields["one_step_int"], fields["one_step_mod"]
    if (fields["blk_step_int"], fields["blk_step_mod"]) != divmod((block - 1) * (step * scale + rest), scale):
        raise DeviceError(f"the model does not know a RESIZE whose blocks do not follow each other along {axis}")
    return ResizeAxis(scale, number(r.get(f"RESIZE_{axis}_OFFSET"), True, 12), step, rest)


def _dma(r: Registers, i: Instruction) -> Dma:
    mode = DmaStrideMode(r.get("DMA0_SRC_REGION", "stride_mode"))
    source, destination = (_side(r, side, mode) for side in ("SRC", "DST"))
    indexed = source.indexed or destination.indexed
    return Dma(
        offset=i.offset,
        source=source,
        destination=destination,
        indices=_indices(r, mode) if indexed else None,
        length=r.get("DMA0_LEN"),
        sizes=(r.get("DMA0_SIZE1") if mode == DmaStrideMode.D3 else 1, r.get("DMA0_SIZE0")),
    )


def _side(r: Registers, side: str, mode: DmaStrideMode) -> DmaSide:
    f = r.instruction(f"DMA0_{side}_REGION").fields
    indexed = f["idx_mode"] == DmaIndexMode.ENABLED
    return DmaSide(
        region=f["region"] if f["region_mode"] == DmaRegionMode.EXTERNAL else None,
        address=r.get(f"DMA0_{side}"),
        strides=(
            r.signed_address(f"DMA0_{side}_STRIDE1") if mode == DmaStrideMode.D3 else 0,
            r.signed_address(f"DMA0_{side}_STRIDE0") if indexed or mode != DmaStrideMode.D1 else 0,
        ),
        indexed=indexed,
    )


def _indices(r: Registers, mode: DmaStrideMode) -> Indices:
    return Indices(
        region=r.get("DMA0_IDX_REGION"),
        address=r.get("DMA0_IDX"),
        most=r.get("DMA0_IDX_MAX"),
        skip=r.get("DMA0_IDX_SKIP1") if mode == DmaStrideMode.D3 else 0,
    )


MAKERS: Makers = {
    "OP_CONV": _convolution,
    "OP_DEPTHWISE": _convolution,
    "OP_POOL": _pooling,
    "OP_ELEMENTWISE": _elementwise,
    "OP_RESIZE": _resize,
    "OP_DMA_START": _dma,
}
