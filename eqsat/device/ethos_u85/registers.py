"""The commands that only Ethos-U85 has, or whose fields are its own."""

from __future__ import annotations

from enum import IntEnum

from eqsat.device.core.registers import (
    ADDRESS,
    DMA_REGION,
    REGION,
    WEIGHT_LENGTH,
    AccInput,
    ActivationReverse,
    ActivationTranspose,
    DmaStrideMode,
    ElementwiseMode,
    Field,
    OfmScaleMode,
    PoolingMode,
    ResizeMode,
    Rounding,
    RoundingMode,
    WeightFormat,
    WeightSparsity,
    activation,
    layout,
    layouts,
)

ActivationStorage = IntEnum("ActivationStorage", "TILE2X2 TILE3X1 CHAINED NONE", start=0)


class ActivationFunction(IntEnum):
    LUT_NONE = 0
    LUT_U8_U8 = 1
    LUT_S8_S8 = 4
    LUT_S8_S16 = 5
    LUT_S8_S32 = 7
    LUT_S16_S16 = 8
    LUT_S16_S32 = 9
    LUT_TANH = 10
    LUT_SIGMOID = 11


ActivationClipRange = IntEnum("ActivationClipRange", "B16 NONE", start=0)
AccFormat = IntEnum("AccFormat", "I32 I48", start=0)
AccOutput = IntEnum("AccOutput", "ENABLE DISABLE", start=0)
Microblock = IntEnum("Microblock", "U1X1 U1X2 U1X4 U2X2 U2X4 U4X4", start=0)
#: Axes along which an operand is broadcast.
BroadcastMode = IntEnum("BroadcastMode", "NONE H W HW C CH CW CWH SCALAR", start=0)


class RoundModeIfm(RoundingMode):
    DOUBLE_SYMMETRIC = 0
    NATURAL = 1


DmaIndexMode = IntEnum("DmaIndexMode", "DISABLED ENABLED", start=0)
BranchCondition = IntEnum("BranchCondition", "ALWAYS RF_TRUE", start=0)

_STORAGE = Field("activation_storage", 14, 2, ActivationStorage)
_OPERAND = (*activation(2), _STORAGE)
_BROADCAST = Field("broadcast_mode", 0, 4, BroadcastMode)
_INDEXED = Field("idx_mode", 11, 1, DmaIndexMode)
_STEP = (
    Field("one_step_int", 0, 4),
    Field("blk_step_int", 4, 11),
    Field("one_step_mod", 16, 11),
    Field("blk_step_mod", 32, 11),
)


def _scale(rounding: type[IntEnum], bits: int) -> tuple[Field, ...]:
    return (
        Field("shift", 0, 6),
        Field("dbl_rnd", 6, 5),
        Field("round_mode", 13, bits, rounding),
        Field("scale", 16, 31),
    )


LAYOUTS = layouts(
    layout(0x0002, "OP_CONV", Field("weights_ifm2", 0, 1)),
    layout(0x0005, "OP_POOL", Field("pooling_mode", 0, 3, PoolingMode)),
    layout(0x0006, "OP_ELEMENTWISE", Field("elementwise_mode", 0, 6, ElementwiseMode)),
    layout(0x0007, "OP_RESIZE", Field("resize_mode", 0, 2, ResizeMode)),
    layout(0x0011, "OP_DMA_WAIT", Field("k", 0, 2)),
    layout(0x0012, "OP_KERNEL_WAIT", Field("n", 0, 1)),
    layout(0x0105, "SET_IFM_PRECISION", *_OPERAND),
    layout(0x0108, "SET_IFM_BROADCAST", _BROADCAST),
    layout(
        0x0114,
        "SET_OFM_PRECISION",
        *activation(1),
        Field("scale_mode", 8, 1, OfmScaleMode),
        Field("activation_reverse", 9, 2, ActivationReverse),
        Field("activation_transpose", 11, 3, ActivationTranspose),
        _STORAGE,
    ),
    layout(0x0115, "SET_OFM_BLK_WIDTH_M1", Field("width_m1", 0, 7)),
    layout(0x0116, "SET_OFM_BLK_HEIGHT_M1", Field("height_m1", 0, 7)),
    layout(0x0117, "SET_OFM_BLK_DEPTH_M1", Field("depth_m1", 0, 10)),
    layout(
        0x0124,
        "SET_ACC_FORMAT",
        Field("acc_format", 0, 2, AccFormat),
        Field("acc_input", 4, 2, AccInput),
        Field("acc_output", 6, 1, AccOutput),
        Field("microblock", 8, 3, Microblock),
    ),
    layout(
        0x0125,
        "SET_ACTIVATION",
        Field("activation_function", 0, 5, ActivationFunction),
        Field("table", 5, 3),
        Field("activation_clip_range", 12, 1, ActivationClipRange),
    ),
    layout(0x012A, "SET_RESIZE_X_SCALE_N_M1", Field("resize_x_scale_n_m1", 0, 11)),
    layout(0x012B, "SET_RESIZE_Y_SCALE_N_M1", Field("resize_y_scale_n_m1", 0, 11)),
    layout(0x012C, "SET_RESIZE_X_OFFSET", Field("resize_x_offset", 0, 12)),
    layout(0x012D, "SET_RESIZE_Y_OFFSET", Field("resize_y_offset", 0, 12)),
    layout(
        0x012E,
        "SET_WEIGHT_FORMAT",
        Field("weight_format", 0, 1, WeightFormat),
        Field("weight_sparsity", 4, 1, WeightSparsity),
    ),
    layout(0x012F, "SET_BLOCKDEP", Field("blockdep", 0, 3)),
    layout(0x0130, "SET_DMA0_SRC_REGION", *DMA_REGION, Field("stride_mode", 9, 2, DmaStrideMode), _INDEXED),
    layout(0x0131, "SET_DMA0_DST_REGION", *DMA_REGION, _INDEXED),
    layout(0x0134, "SET_DMA0_IDX_REGION", REGION),
    layout(0x0180, "SET_IFM2_BROADCAST", _BROADCAST),
    layout(0x0185, "SET_IFM2_PRECISION", *_OPERAND),
    layout(0x4033, "SET_DMA0_SRC_STRIDE0", ADDRESS),
    layout(0x4034, "SET_DMA0_SRC_STRIDE1", ADDRESS),
    layout(0x4035, "SET_DMA0_DST_STRIDE0", ADDRESS),
    layout(0x4036, "SET_DMA0_DST_STRIDE1", ADDRESS),
    layout(0x4037, "SET_DMA0_IDX", ADDRESS),
    layout(0x4039, "SET_DMA0_IDX_SKIP1", ADDRESS),
    layout(0x4092, "SET_WEIGHT2_BASE", ADDRESS),
    layout(0x4094, "SET_WEIGHT3_BASE", ADDRESS),
    layout(0x4024, "SET_OFM_SCALE", *_scale(Rounding, 3)),
    layout(0x4025, "SET_IFM_SCALE", *_scale(RoundModeIfm, 1)),
    layout(0x4026, "SET_IFM2_SCALE", *_scale(RoundModeIfm, 1)),
    layout(0x4027, "SET_OP_SCALAR", Field("scalar", 16, 32)),
    layout(0x4038, "SET_DMA0_IDX_MAX", Field("idx_max", 16, 31)),
    layout(0x4093, "SET_WEIGHT2_LENGTH", WEIGHT_LENGTH),
    layout(0x4095, "SET_WEIGHT3_LENGTH", WEIGHT_LENGTH),
    layout(0x4096, "SET_RESIZE_X", *_STEP),
    layout(0x4097, "SET_RESIZE_Y", *_STEP),
    layout(0x4100, "OP_BRANCH", Field("branch_cond", 0, 1, BranchCondition), Field("branch_target", 16, 32)),
)
