"""Decodes instructions of Ethos-U55 and U65 into commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eqsat.device.core.decoding import Decoder as AnyDecoder
from eqsat.device.core.decoding import number
from eqsat.device.core.errors import DeviceError
from eqsat.device.core.operands import (
    Accumulators,
    Banks,
    Block,
    ByteRange,
    Convolution,
    Dma,
    DmaSide,
    Elementwise,
    FixedPointScale,
    InputScale,
    Operand,
    Output,
    Pooling,
    Scalar,
)
from eqsat.device.core.registers import (
    DmaStrideMode,
    ElementwiseMode,
    Instruction,
    OfmScaleMode,
)
from eqsat.device.ethos_u55.registers import (
    AccFormat,
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


class Decoder(AnyDecoder):
    def output(self) -> Output:
        own, shape = self.get("OFM_PRECISION", "scale_mode") == OfmScaleMode.PER_CHANNEL, self.size("OFM")
        return Output(
            shape=shape,
            map=self.feature_map("OFM", *shape),
            scale=None if own else self.scale("OFM_SCALE"),
            rounding=RoundMode(self.get("OFM_PRECISION", "round_mode")),
            activation=self.activation(),
        )

    def accumulators(self) -> Accumulators:
        return Accumulators(AccFormat(self.get("ACC_FORMAT")))

    def block(self, two_inputs: bool = False) -> Block:
        second = self.get("IFM2_IB_START") if two_inputs else None
        banks = Banks(self.get("IFM_IB_END"), second, self.get("AB_START"))
        return Block(self.size("OFM_BLK"), self.get("BLOCKDEP"), banks=banks)

    def weights(self, i: Instruction) -> tuple[ByteRange, ...]:
        return self._streams("WEIGHT")

    def scales(self) -> tuple[ByteRange, ...]:
        return self._streams("SCALE")

    def _streams(self, kind: str) -> tuple[ByteRange, ...]:
        """Returns the streams of WEIGHT or SCALE, for each core that has one."""
        cores = 2 if self.has("PARALLEL_MODE") and self.get("PARALLEL_MODE") == ParallelMode.DUAL_CORE_DEPTH else 1
        return tuple(
            self.range(name, kind) for name in (kind, f"{kind}1")[:cores] if name == kind or self.get(f"{name}_LENGTH")
        )

    def convolution(self, i: Instruction) -> Convolution:
        c = super().convolution(i)
        if c.depthwise:
            self.check_depth(c.output.shape[2])
        self.check_own_scales(c.output.scale)
        return c

    def pooling(self, i: Instruction) -> Pooling:
        c = self.same(i)
        if c is None:
            return super().pooling(i)
        # all but the places of its feature maps are the same objects
        output = replace(c.output, map=replace(c.output.map, bases=self.bases("OFM")))
        same: Pooling = replace(c, offset=i.offset, ifm=replace(c.ifm, bases=self.bases("IFM")), output=output)
        return same

    def elementwise(self, i: Instruction) -> Elementwise:
        mode, output = ElementwiseMode(i.fields["elementwise_mode"]), self.output()
        self.check_depth(output.shape[2])
        (self.check_one_scale if mode in _SCALED else self.check_own_scales)(output.scale)
        operands: tuple[Operand, ...] = (self.feature_map("IFM", *output.shape),)
        is_reversed = False
        if not mode.is_unary:
            b = self.instruction("IFM2_BROADCAST").fields
            is_reversed = bool(b["operand_order"])
            ifm, ifm2 = self.element("IFM"), self.element("IFM2")
            self.check_one_precision((ifm.bits, ifm2.bits))
            if b["broadcast_constant"]:
                operands += (Scalar(number(self.get("IFM2_SCALAR"), ifm2.signed), ifm2, self.zero_point("IFM2")),)
            else:
                shape = (1 if b[f"broadcast_{axis}"] else n for axis, n in zip("hwc", output.shape, strict=True))
                operands += (self.feature_map("IFM2", *shape),)
        inputs = self._inputs(is_reversed) if mode in _SUMS else tuple(InputScale() for _ in operands)
        return Elementwise(
            offset=i.offset,
            mode=mode,
            operands=operands,
            inputs=inputs,
            upscale=self.upscale(),
            output=output,
            accumulators=self.accumulators(),
            block=self.block(len(operands) > 1 and not isinstance(operands[1], Scalar)),
            reversed=is_reversed,
        )

    def _inputs(self, is_reversed: bool) -> tuple[InputScale, InputScale]:
        """Returns the scales of IFM and IFM2 of a sum.

        OPA_OPB_16 multiplies each by 16 bits without a shift.
        The other modes scale the first or second operand of the sum by OPA_SCALE, and shift the other to the left
        by a number of bits that the hardware fixes (`ethos_u55_constraints.cpp`).
        """
        mode = IfmScaleMode(self.get("IFM_PRECISION", "scale_mode"))
        rounding = RoundMode(self.get("IFM_PRECISION", "round_mode"))
        opa, opb = self.scale("OPA_SCALE"), self.get("OPB_SCALE")
        if mode == IfmScaleMode.OPA_OPB_16:
            # both registers have 16 bits here, so a wider value loses its upper ones (executorch pull request 21151)
            factors = opa.multiplier & 0xFFFF, opb
            first, second = (InputScale(FixedPointScale(factor, 0), rounding) for factor in factors)
            return first, second
        element = self.element("IFM")
        if element.bits not in _BUILT_IN:
            raise DeviceError(f"the model does not know {mode.name} for {element.dtype}")
        built_in = FixedPointScale(1 << _BUILT_IN[element.bits], 0)
        scaled, shifted = (InputScale(scale, rounding) for scale in (opa, built_in))
        return (scaled, shifted) if (mode == IfmScaleMode.OPA_32) != is_reversed else (shifted, scaled)

    def dma(self, i: Instruction) -> Dma:
        most = max(self.get(f"DMA0_{side}_REGION", "stride_mode") for side in ("SRC", "DST"))
        length = self.get("DMA0_LEN")
        walked = {1: most == DmaStrideMode.D3, 0: most >= DmaStrideMode.D2}
        rows, columns = (self.get(f"DMA0_SIZE{k}") if there else 1 for k, there in walked.items())
        skips = [self.signed_address(f"DMA0_SKIP{k}") if there else 0 for k, there in walked.items()]
        if rows > 1 and skips[1]:
            raise DeviceError("the model does not know copies in three dimensions with gaps in the second")
        source, destination = (self._side(side, length, columns, skips) for side in ("SRC", "DST"))
        return Dma(i.offset, length, (rows, columns), source, destination)

    def _side(self, side: str, length: int, columns: int, skips: Sequence[int]) -> DmaSide:
        """Returns a side, on which pieces are contiguous but for the gaps of the dimensions in which it is walked."""
        f = self.instruction(f"DMA0_{side}_REGION").fields
        inner = length + (skips[1] if f["stride_mode"] >= DmaStrideMode.D2 else 0)
        outer = columns * inner + (skips[0] if f["stride_mode"] == DmaStrideMode.D3 else 0)
        return DmaSide(self.dma_region(side), self.get(f"DMA0_{side}"), (outer, inner))
