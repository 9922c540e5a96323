"""The commands that only Ethos-U55 and U65 have, or whose fields are their own."""

from __future__ import annotations

from enum import IntEnum

from eqsat.device.core.registers import (
    ADDRESS,
    DMA_REGION,
    SCALE_LENGTH,
    DmaStrideMode,
    Field,
    OfmScaleMode,
    RoundingMode,
    activation,
    layout,
    layouts,
)

IfmScaleMode = IntEnum("IfmScaleMode", "OPA_OPB_16 OPA_32 OPB_32", start=0)


class RoundMode(RoundingMode):
    DBL = 0
    TRUNCATE = 1
    NATURAL = 2


#: The values of all families' enumerations (`core/registers.py`) that these have.
PoolingMode = IntEnum("PoolingMode", "MAX AVERAGE REDUCE_SUM", start=0)
ElementwiseMode = IntEnum("ElementwiseMode", "MUL ADD SUB MIN MAX LRELU ABS CLZ SHR SHL", start=0)
ParallelMode = IntEnum("ParallelMode", "SINGLE_CORE DUAL_CORE_DEPTH", start=0)
AccFormat = IntEnum("AccFormat", "I32 I40 F16", start=0)


class ActivationFunction(IntEnum):
    RELU = 0
    TANH = 3
    SIGMOID = 4
    TABLE_0 = 16
    TABLE_1 = 17
    TABLE_2 = 18
    TABLE_3 = 19
    TABLE_4 = 20
    TABLE_5 = 21
    TABLE_6 = 22
    TABLE_7 = 23


class ActivationClipRange(IntEnum):
    OFM_PRECISION = 0
    FORCE_UINT8 = 2
    FORCE_INT8 = 3
    FORCE_INT16 = 5


BroadcastMode = IntEnum("BroadcastMode", "DISABLE ENABLE", start=0)
Ifm2OperandOrder = IntEnum("Ifm2OperandOrder", "ORDER_B ORDER_A", start=0)

_DMA_REGION = (*DMA_REGION, Field("stride_mode", 9, 2, DmaStrideMode))
_SCALE = (Field("shift", 0, 6), Field("scale", 16, 32))

LAYOUTS = layouts(
    layout(0x0002, "OP_CONV"),
    layout(0x0005, "OP_POOL", Field("pooling_mode", 0, 3, PoolingMode)),
    layout(0x0006, "OP_ELEMENTWISE", Field("elementwise_mode", 0, 6, ElementwiseMode)),
    layout(0x0011, "OP_DMA_WAIT", Field("k", 0, 1)),
    layout(0x0012, "OP_KERNEL_WAIT", Field("n", 0, 2)),
    layout(
        0x0105,
        "SET_IFM_PRECISION",
        *activation(2),
        Field("scale_mode", 8, 2, IfmScaleMode),
        Field("round_mode", 14, 2, RoundMode),
    ),
    layout(0x010D, "SET_IFM_IB_END", Field("ib_end", 0, 6)),
    layout(
        0x0114,
        "SET_OFM_PRECISION",
        *activation(1),
        Field("scale_mode", 8, 1, OfmScaleMode),
        Field("round_mode", 14, 2, RoundMode),
    ),
    layout(0x0115, "SET_OFM_BLK_WIDTH_M1", Field("width_m1", 0, 6)),
    layout(0x0116, "SET_OFM_BLK_HEIGHT_M1", Field("height_m1", 0, 5)),
    layout(0x0117, "SET_OFM_BLK_DEPTH_M1", Field("depth_m1", 0, 7)),
    layout(0x0123, "SET_PARALLEL_MODE", Field("parallel_mode", 0, 1, ParallelMode)),
    layout(0x0124, "SET_ACC_FORMAT", Field("acc_format", 0, 2, AccFormat)),
    layout(
        0x0125,
        "SET_ACTIVATION",
        Field("activation_function", 0, 5, ActivationFunction),
        Field("activation_clip_range", 12, 3, ActivationClipRange),
    ),
    layout(0x012D, "SET_AB_START", Field("ab_start", 0, 6)),
    layout(0x012F, "SET_BLOCKDEP", Field("blockdep", 0, 2)),
    layout(0x0130, "SET_DMA0_SRC_REGION", *_DMA_REGION),
    layout(0x0131, "SET_DMA0_DST_REGION", *_DMA_REGION),
    layout(
        0x0180,
        "SET_IFM2_BROADCAST",
        Field("broadcast_h", 0, 1, BroadcastMode),
        Field("broadcast_w", 1, 1, BroadcastMode),
        Field("broadcast_c", 2, 1, BroadcastMode),
        Field("operand_order", 6, 1, Ifm2OperandOrder),
        Field("broadcast_constant", 7, 1, BroadcastMode),
    ),
    layout(0x0181, "SET_IFM2_SCALAR", Field("scalar", 0, 16)),
    layout(0x0185, "SET_IFM2_PRECISION", *activation(2)),
    layout(0x018D, "SET_IFM2_IB_START", Field("ib_start", 0, 6)),
    layout(0x4033, "SET_DMA0_SKIP0", ADDRESS),
    layout(0x4034, "SET_DMA0_SKIP1", ADDRESS),
    layout(0x4092, "SET_SCALE1_BASE", ADDRESS),
    layout(0x4024, "SET_OFM_SCALE", *_SCALE),
    layout(0x4025, "SET_OPA_SCALE", *_SCALE),
    layout(0x4026, "SET_OPB_SCALE", Field("scale", 16, 16)),
    layout(0x4093, "SET_SCALE1_LENGTH", SCALE_LENGTH),
)
