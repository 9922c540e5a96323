"""The commands of Ethos-U55 and U65: codes, names and fields.

Facts from Arm's register description in Vela (`ethosu/regor/architecture/ethosu65/ethos_u65_interface.hpp` and, for
U55, `ethosu/vela/ethos_u55_regs`, Apache-2.0); U55 and U65 share it. A short command is one word: code in bits 0-9,
parameter in bits 16-31. A long one has bit 14 set and a second word, the payload. Positions of fields count from the
parameter's first bit; the payload follows at bit 16.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum


class ActivationType(IntEnum):
    UNSIGNED = 0
    SIGNED = 1


class ActivationPrecision(IntEnum):
    B8 = 0
    B16 = 1
    B32 = 2
    B64 = 3


class ActivationFormat(IntEnum):
    NHWC = 0
    NHCWB16 = 1


class IfmScaleMode(IntEnum):
    OPA_OPB_16 = 0
    OPA_32 = 1
    OPB_32 = 2


class OfmScaleMode(IntEnum):
    PER_CHANNEL = 0
    GLOBAL = 1


class RoundMode(IntEnum):
    DBL = 0
    TRUNCATE = 1
    NATURAL = 2


class IfmUpscaleMode(IntEnum):
    NONE = 0
    NEAREST = 1
    ZEROS = 2


class PoolingMode(IntEnum):
    MAX = 0
    AVERAGE = 1
    REDUCE_SUM = 2


class ElementwiseMode(IntEnum):
    MUL = 0
    ADD = 1
    SUB = 2
    MIN = 3
    MAX = 4
    LRELU = 5
    ABS = 6
    CLZ = 7
    SHR = 8
    SHL = 9


class WeightOrder(IntEnum):
    DEPTH_FIRST = 0
    PART_KERNEL_FIRST = 1


class KernelDilation(IntEnum):
    NONE = 0
    X2 = 1


class KernelDecomposition(IntEnum):
    D8X8 = 0
    D4X4 = 1


class ParallelMode(IntEnum):
    SINGLE_CORE = 0
    DUAL_CORE_DEPTH = 1


class AccFormat(IntEnum):
    I32 = 0
    I40 = 1
    F16 = 2


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


class DmaRegionMode(IntEnum):
    EXTERNAL = 0
    INTERNAL = 1


class DmaStrideMode(IntEnum):
    D1 = 0
    D2 = 1
    D3 = 2


class BroadcastMode(IntEnum):
    DISABLE = 0
    ENABLE = 1


class Ifm2OperandOrder(IntEnum):
    ORDER_B = 0
    ORDER_A = 1


@dataclass(frozen=True, slots=True)
class Field:
    """bits of a command from `first` on. values: what they mean, where it is no number."""

    name: str
    first: int
    bits: int
    values: type[IntEnum] | None = None


@dataclass(frozen=True, slots=True)
class CommandLayout:
    """A kind of command. name as Arm spells it, without "NPU_"; long: it has a payload."""

    code: int
    name: str
    long: bool
    fields: tuple[Field, ...]

    @property
    def operation(self) -> bool:
        """Whether it does something; the others set a register."""
        return self.name.startswith("OP_")


def activation(precision_at: int) -> tuple[Field, ...]:
    """The type, precision and format of a feature map."""
    return (
        Field("activation_type", 0, 1, ActivationType),
        Field("activation_precision", precision_at, 2, ActivationPrecision),
        Field("activation_format", 6, 2, ActivationFormat),
    )


REGION = (Field("region", 0, 3),)
_DMA_REGION = (
    *REGION,
    Field("region_mode", 8, 1, DmaRegionMode),
    Field("stride_mode", 9, 2, DmaStrideMode),
)
_HEIGHT, _WIDTH, _DEPTH = (Field("height_m1", 0, 16),), (Field("width_m1", 0, 16),), (Field("depth_m1", 0, 16),)
_ZERO_POINT = (Field("zero_point", 0, 16),)
#: The low word of an address is the payload, bits 32-39 are in the parameter.
ADDRESS = (Field("addr", 0, 40),)
_SCALE = (Field("shift", 0, 6), Field("scale", 16, 32))

Table = Iterable[tuple[int, str, tuple[Field, ...]]]


def layouts(short: Table, long: Table) -> dict[tuple[bool, int], CommandLayout]:
    """By (long, code)."""
    tables = (False, short), (True, long)
    return {
        (is_long, code): CommandLayout(code, name, is_long, fields) for is_long, t in tables for code, name, fields in t
    }


_SHORT: Table = (
    (0x000, "OP_STOP", (Field("mask", 0, 16),)),
    (0x001, "OP_IRQ", (Field("mask", 0, 16),)),
    (0x002, "OP_CONV", ()),
    (0x003, "OP_DEPTHWISE", ()),
    (0x005, "OP_POOL", (Field("pooling_mode", 0, 3, PoolingMode),)),
    (0x006, "OP_ELEMENTWISE", (Field("elementwise_mode", 0, 6, ElementwiseMode),)),
    (0x010, "OP_DMA_START", ()),
    (0x011, "OP_DMA_WAIT", (Field("k", 0, 1),)),
    (0x012, "OP_KERNEL_WAIT", (Field("n", 0, 2),)),
    (0x013, "OP_PMU_MASK", (Field("enable", 0, 1),)),
    (0x100, "SET_IFM_PAD_TOP", (Field("pad", 0, 7),)),
    (0x101, "SET_IFM_PAD_LEFT", (Field("pad", 0, 7),)),
    (0x102, "SET_IFM_PAD_RIGHT", (Field("pad", 0, 8),)),
    (0x103, "SET_IFM_PAD_BOTTOM", (Field("pad", 0, 8),)),
    (0x104, "SET_IFM_DEPTH_M1", _DEPTH),
    (
        0x105,
        "SET_IFM_PRECISION",
        (*activation(2), Field("scale_mode", 8, 2, IfmScaleMode), Field("round_mode", 14, 2, RoundMode)),
    ),
    (0x107, "SET_IFM_UPSCALE", (Field("mode", 0, 2, IfmUpscaleMode),)),
    (0x109, "SET_IFM_ZERO_POINT", _ZERO_POINT),
    (0x10A, "SET_IFM_WIDTH0_M1", _WIDTH),
    (0x10B, "SET_IFM_HEIGHT0_M1", _HEIGHT),
    (0x10C, "SET_IFM_HEIGHT1_M1", _HEIGHT),
    (0x10D, "SET_IFM_IB_END", (Field("ib_end", 0, 6),)),
    (0x10F, "SET_IFM_REGION", REGION),
    (0x111, "SET_OFM_WIDTH_M1", _WIDTH),
    (0x112, "SET_OFM_HEIGHT_M1", _HEIGHT),
    (0x113, "SET_OFM_DEPTH_M1", _DEPTH),
    (
        0x114,
        "SET_OFM_PRECISION",
        (*activation(1), Field("scale_mode", 8, 1, OfmScaleMode), Field("round_mode", 14, 2, RoundMode)),
    ),
    (0x115, "SET_OFM_BLK_WIDTH_M1", (Field("width_m1", 0, 6),)),
    (0x116, "SET_OFM_BLK_HEIGHT_M1", (Field("height_m1", 0, 5),)),
    (0x117, "SET_OFM_BLK_DEPTH_M1", (Field("depth_m1", 0, 7),)),
    (0x118, "SET_OFM_ZERO_POINT", _ZERO_POINT),
    (0x11A, "SET_OFM_WIDTH0_M1", _WIDTH),
    (0x11B, "SET_OFM_HEIGHT0_M1", _HEIGHT),
    (0x11C, "SET_OFM_HEIGHT1_M1", _HEIGHT),
    (0x11F, "SET_OFM_REGION", REGION),
    (0x120, "SET_KERNEL_WIDTH_M1", _WIDTH),
    (0x121, "SET_KERNEL_HEIGHT_M1", _HEIGHT),
    (
        0x122,
        "SET_KERNEL_STRIDE",
        (
            Field("stride_x_lsb", 0, 1),
            Field("stride_y_lsb", 1, 1),
            Field("weight_order", 2, 1, WeightOrder),
            Field("dilation_x", 3, 1, KernelDilation),
            Field("dilation_y", 4, 1, KernelDilation),
            Field("decomposition", 5, 1, KernelDecomposition),
            Field("stride_x_msb", 6, 1),
            Field("stride_y_msb", 9, 1),
        ),
    ),
    (0x123, "SET_PARALLEL_MODE", (Field("parallel_mode", 0, 1, ParallelMode),)),
    (0x124, "SET_ACC_FORMAT", (Field("acc_format", 0, 2, AccFormat),)),
    (
        0x125,
        "SET_ACTIVATION",
        (
            Field("activation_function", 0, 5, ActivationFunction),
            Field("activation_clip_range", 12, 3, ActivationClipRange),
        ),
    ),
    (0x126, "SET_ACTIVATION_MIN", (Field("clip_boundary", 0, 16),)),
    (0x127, "SET_ACTIVATION_MAX", (Field("clip_boundary", 0, 16),)),
    (0x128, "SET_WEIGHT_REGION", REGION),
    (0x129, "SET_SCALE_REGION", REGION),
    (0x12D, "SET_AB_START", (Field("ab_start", 0, 6),)),
    (0x12F, "SET_BLOCKDEP", (Field("blockdep", 0, 2),)),
    (0x130, "SET_DMA0_SRC_REGION", _DMA_REGION),
    (0x131, "SET_DMA0_DST_REGION", _DMA_REGION),
    (0x132, "SET_DMA0_SIZE0", (Field("size", 0, 16),)),
    (0x133, "SET_DMA0_SIZE1", (Field("size", 0, 16),)),
    (
        0x180,
        "SET_IFM2_BROADCAST",
        (
            Field("broadcast_h", 0, 1, BroadcastMode),
            Field("broadcast_w", 1, 1, BroadcastMode),
            Field("broadcast_c", 2, 1, BroadcastMode),
            Field("operand_order", 6, 1, Ifm2OperandOrder),
            Field("broadcast_constant", 7, 1, BroadcastMode),
        ),
    ),
    (0x181, "SET_IFM2_SCALAR", (Field("scalar", 0, 16),)),
    (0x185, "SET_IFM2_PRECISION", activation(2)),
    (0x189, "SET_IFM2_ZERO_POINT", _ZERO_POINT),
    (0x18A, "SET_IFM2_WIDTH0_M1", _WIDTH),
    (0x18B, "SET_IFM2_HEIGHT0_M1", _HEIGHT),
    (0x18C, "SET_IFM2_HEIGHT1_M1", _HEIGHT),
    (0x18D, "SET_IFM2_IB_START", (Field("ib_start", 0, 6),)),
    (0x18F, "SET_IFM2_REGION", REGION),
)
_ADDRESSES = {
    0x000: "IFM_BASE0",
    0x001: "IFM_BASE1",
    0x002: "IFM_BASE2",
    0x003: "IFM_BASE3",
    0x004: "IFM_STRIDE_X",
    0x005: "IFM_STRIDE_Y",
    0x006: "IFM_STRIDE_C",
    0x010: "OFM_BASE0",
    0x011: "OFM_BASE1",
    0x012: "OFM_BASE2",
    0x013: "OFM_BASE3",
    0x014: "OFM_STRIDE_X",
    0x015: "OFM_STRIDE_Y",
    0x016: "OFM_STRIDE_C",
    0x020: "WEIGHT_BASE",
    0x022: "SCALE_BASE",
    0x030: "DMA0_SRC",
    0x031: "DMA0_DST",
    0x032: "DMA0_LEN",
    0x033: "DMA0_SKIP0",
    0x034: "DMA0_SKIP1",
    0x080: "IFM2_BASE0",
    0x081: "IFM2_BASE1",
    0x082: "IFM2_BASE2",
    0x083: "IFM2_BASE3",
    0x084: "IFM2_STRIDE_X",
    0x085: "IFM2_STRIDE_Y",
    0x086: "IFM2_STRIDE_C",
    0x090: "WEIGHT1_BASE",
    0x092: "SCALE1_BASE",
}
_LONG: Table = (
    *((code, f"SET_{name}", ADDRESS) for code, name in _ADDRESSES.items()),
    (0x021, "SET_WEIGHT_LENGTH", (Field("length", 16, 32),)),
    (0x023, "SET_SCALE_LENGTH", (Field("length", 16, 20),)),
    (0x024, "SET_OFM_SCALE", _SCALE),
    (0x025, "SET_OPA_SCALE", _SCALE),
    (0x026, "SET_OPB_SCALE", (Field("scale", 16, 16),)),
    (0x091, "SET_WEIGHT1_LENGTH", (Field("length", 16, 32),)),
    (0x093, "SET_SCALE1_LENGTH", (Field("length", 16, 20),)),
)

#: (long, code) -> what it is.
LAYOUTS = layouts(_SHORT, _LONG)
