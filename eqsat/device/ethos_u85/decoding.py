"""Decodes instructions of Ethos-U85 into its operations."""

from __future__ import annotations

from dataclasses import replace

from eqsat.device.core.decoding import Decoder as AnyDecoder
from eqsat.device.core.decoding import number
from eqsat.device.core.errors import DeviceError
from eqsat.device.core.operands import (
    Accumulators,
    Block,
    ByteRange,
    Chained,
    Convolution,
    Dma,
    DmaSide,
    Elementwise,
    FeatureMap,
    Indices,
    InputScale,
    Operand,
    Output,
    Pooling,
    Resize,
    ResizedAxis,
    Scalar,
)
from eqsat.device.core.registers import (
    AccInput,
    ActivationReverse,
    ActivationTranspose,
    DmaStrideMode,
    ElementwiseMode,
    IfmUpscaleMode,
    Instruction,
    OfmScaleMode,
    ResizeMode,
    Rounding,
    WeightFormat,
    WeightSparsity,
)
from eqsat.device.ethos_u85.registers import (
    AccFormat,
    AccOutput,
    ActivationStorage,
    BroadcastMode,
    DmaIndexMode,
    Microblock,
    RoundModeIfm,
)
from eqsat.target.family import HWC

_BROADCAST = (BroadcastMode.H, BroadcastMode.W, BroadcastMode.C)


class Decoder(AnyDecoder):
    def _storage(self, prefix: str) -> ActivationStorage:
        found = ActivationStorage(self.get(f"{prefix}_PRECISION", "activation_storage"))
        if found == ActivationStorage.TILE3X1:
            raise DeviceError(f"the model does not know {prefix} in {found.name} (at byte {self.reader.offset})")
        return found

    def feature_map(self, prefix: str, height: int, width: int, depth: int) -> FeatureMap:
        if self._storage(prefix) != ActivationStorage.TILE2X2:
            raise DeviceError(f"{self.where}: {prefix} is not in memory")
        return super().feature_map(prefix, height, width, depth)

    def output(self) -> Output:
        shape = self.size("OFM")
        p = self.instruction("OFM_PRECISION").fields
        transpose = ActivationTranspose(p["activation_transpose"])
        storage = self._storage("OFM")
        if self.get("OFM_SCALE", "dbl_rnd"):
            raise DeviceError(f"the model does not know results that are rounded twice (at byte {self.reader.offset})")
        how = (
            storage == ActivationStorage.CHAINED,
            transpose != ActivationTranspose.HWC,
            bool(p["activation_reverse"]),
        )
        if sum(how) > 1:  # which Vela asserts that it never combines
            raise DeviceError("the model does not know results of which two are true: chained, transposed, reversed")
        map_: FeatureMap | Chained | None = None
        if storage == ActivationStorage.CHAINED:
            map_ = Chained(self.get("OFM_REGION"), self.element("OFM"), self.zero_point("OFM"))
        elif storage == ActivationStorage.TILE2X2:
            map_ = self.feature_map("OFM", *(shape[k] for k in transpose.axes))
        return Output(
            shape=shape,
            map=map_,
            scale=None if p["scale_mode"] == OfmScaleMode.PER_CHANNEL else self.scale("OFM_SCALE"),
            rounding=Rounding(self.get("OFM_SCALE", "round_mode")),
            activation=self.activation(),
            transpose=transpose,
            reverse=ActivationReverse(p["activation_reverse"]),
        )

    def accumulators(self) -> Accumulators:
        f = self.instruction("ACC_FORMAT").fields
        return Accumulators(AccFormat(f["acc_format"]), AccInput(f["acc_input"]), f["acc_output"] == AccOutput.ENABLE)

    def block(self) -> Block:
        name = Microblock(self.get("ACC_FORMAT", "microblock")).name  # such as U2X4
        return Block(self.size("OFM_BLK"), self.get("BLOCKDEP"), (int(name[1]), int(name[3])))

    def convolution(self, i: Instruction) -> Convolution:
        c, is_product = super().convolution(i), bool(i.fields.get("weights_ifm2"))
        matrix = self.feature_map("IFM2", 1, c.output.shape[2], c.ifm.depth) if is_product else None
        return replace(
            c,
            ifm2=matrix or self._start(c),
            matrices=is_product,
            format=WeightFormat(self.get("WEIGHT_FORMAT", "weight_format")),
            sparsity=WeightSparsity(self.get("WEIGHT_FORMAT", "weight_sparsity")),
        )

    def weights(self, i: Instruction) -> tuple[ByteRange, ...]:
        """Returns the streams of all decoders that have one; of a product of matrices there are none."""
        names = () if i.fields.get("weights_ifm2") else ("WEIGHT", "WEIGHT1", "WEIGHT2", "WEIGHT3")
        lengths = ((name, f"{name}_LENGTH") for name in names)
        return tuple(self.range(name, "WEIGHT") for name, n in lengths if self.has(n) and self.get(n))

    def scales(self) -> tuple[ByteRange, ...]:
        return (self.range("SCALE", "SCALE"),)

    def pooling(self, i: Instruction) -> Pooling:
        c = super().pooling(i)
        return replace(c, ifm2=self._start(c))

    def _start(self, c: Convolution | Pooling) -> FeatureMap | None:
        """Returns the initial accumulators in memory, None if they do not come from there."""
        return self.feature_map("IFM2", *c.output.shape) if c.accumulators.input == AccInput.IFM2 else None

    def _operand(self, prefix: str, shape: HWC) -> Operand:
        storage, element = self._storage(prefix), self.element(prefix)
        if storage == ActivationStorage.CHAINED:
            return Chained(self.get(f"{prefix}_REGION"), element, self.zero_point(prefix))
        mode = BroadcastMode(self.get(f"{prefix}_BROADCAST"))
        if storage == ActivationStorage.NONE:
            if mode != BroadcastMode.SCALAR:
                raise DeviceError(f"{prefix} at byte {self.reader.offset} is nowhere, and no scalar")
            return Scalar(number(self.get("OP_SCALAR"), True, 32), element, self.zero_point(prefix))
        if mode == BroadcastMode.SCALAR:
            raise DeviceError(f"{prefix} at byte {self.reader.offset} is a scalar in memory")
        return self.feature_map(prefix, *(1 if mode & axis else n for axis, n in zip(_BROADCAST, shape, strict=True)))

    def _input(self, prefix: str) -> InputScale:
        return InputScale(
            self.scale(f"{prefix}_SCALE"),
            RoundModeIfm(self.get(f"{prefix}_SCALE", "round_mode")),
            self.get(f"{prefix}_SCALE", "dbl_rnd"),
        )

    def elementwise(self, i: Instruction) -> Elementwise:
        mode, output = ElementwiseMode(i.fields["elementwise_mode"]), self.output()
        self.check_one_scale(output.scale)
        prefixes = ("IFM",) if mode.is_unary else ("IFM", "IFM2")
        operands = tuple(self._operand(p, output.shape) for p in prefixes)
        self.check_one_precision(o.element.bits for o in operands)
        first, chained = operands[0], any(isinstance(o, Chained) for o in (*operands, output.map))
        if isinstance(first, FeatureMap) and not chained:
            self.check_depth(first.depth)  # in chains Vela leaves the shape of another operator in the register
        return Elementwise(
            offset=i.offset,
            mode=mode,
            operands=operands,
            inputs=tuple(self._input(p) for p in prefixes),
            upscale=self.upscale(),
            output=output,
            accumulators=self.accumulators(),
            block=self.block(),
        )

    def resize(self, i: Instruction) -> Resize:
        height, width = self.get("KERNEL_HEIGHT_M1") + 1, self.get("KERNEL_WIDTH_M1") + 1
        output, block = self.output(), self.block()
        self.check_one_scale(output.scale)
        if self.upscale() != IfmUpscaleMode.NONE:
            raise DeviceError("the model does not know an upscaled RESIZE")
        if self.get("IFM2_ZERO_POINT"):  # of an operand that it does not have
            raise DeviceError("the model does not know a RESIZE with a zero point of IFM2")
        return Resize(
            offset=i.offset,
            mode=ResizeMode(i.fields["resize_mode"]),
            ifm=self.feature_map("IFM", height, width, self.get("IFM_DEPTH_M1") + 1),
            output=output,
            y=self._axis("Y", block.shape[0]),
            x=self._axis("X", block.shape[1]),
            accumulators=self.accumulators(),
            block=block,
        )

    def _axis(self, axis: str, block: int) -> ResizedAxis:
        """Returns an axis of a resize. Raises DeviceError unless blocks of results follow each other."""
        fields = self.instruction(f"RESIZE_{axis}").fields
        scale = self.get(f"RESIZE_{axis}_SCALE_N_M1") + 1
        step = fields["one_step_int"] * scale + fields["one_step_mod"]
        if (fields["blk_step_int"], fields["blk_step_mod"]) != divmod((block - 1) * step, scale):
            raise DeviceError(f"the model does not know a RESIZE whose blocks do not follow each other along {axis}")
        return number(self.get(f"RESIZE_{axis}_OFFSET"), True, 12), step, scale

    def dma(self, i: Instruction) -> Dma:
        mode = DmaStrideMode(self.get("DMA0_SRC_REGION", "stride_mode"))
        source, destination = (self._side(side, mode) for side in ("SRC", "DST"))
        indexed = source.indexed or destination.indexed
        return Dma(
            offset=i.offset,
            source=source,
            destination=destination,
            indices=self._indices(mode) if indexed else None,
            length=self.get("DMA0_LEN"),
            sizes=(self.get("DMA0_SIZE1") if mode == DmaStrideMode.D3 else 1, self.get("DMA0_SIZE0")),
        )

    def _side(self, side: str, mode: DmaStrideMode) -> DmaSide:
        f = self.instruction(f"DMA0_{side}_REGION").fields
        indexed = f["idx_mode"] == DmaIndexMode.ENABLED
        return DmaSide(
            region=self.dma_region(side),
            address=self.get(f"DMA0_{side}"),
            strides=(
                self.signed_address(f"DMA0_{side}_STRIDE1") if mode == DmaStrideMode.D3 else 0,
                self.signed_address(f"DMA0_{side}_STRIDE0") if indexed or mode != DmaStrideMode.D1 else 0,
            ),
            indexed=indexed,
        )

    def _indices(self, mode: DmaStrideMode) -> Indices:
        return Indices(
            region=self.get("DMA0_IDX_REGION"),
            address=self.get("DMA0_IDX"),
            most=self.get("DMA0_IDX_MAX"),
            skip=self.get("DMA0_IDX_SKIP1") if mode == DmaStrideMode.D3 else 0,
        )
