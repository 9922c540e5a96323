"""The commands that all families share: their codes, names and fields.

Commands that only one family has are in its own folder.
Sources: Arm's register descriptions in Vela (Apache-2.0), which are `ethosu/vela/ethos_u55_regs` and, in
`ethosu/regor/architecture`, `ethosu65/ethos_u65_interface.hpp` and `ethosu85/ethos_u85_interface.hpp`.

A short command is one word: bits 0-14 are the code, bits 16-31 the parameter.
A long one has bit 14 set and a second word, the payload.
Positions of fields count from the parameter's first bit; the payload follows at bit 16.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from eqsat.device.core.errors import DeviceError

#: The bit of the code of a long command.
LONG = 1 << 14

ActivationType = IntEnum("ActivationType", "UNSIGNED SIGNED", start=0)
ActivationPrecision = IntEnum("ActivationPrecision", "B8 B16 B32 B64", start=0)
ActivationFormat = IntEnum("ActivationFormat", "NHWC NHCWB16", start=0)
OfmScaleMode = IntEnum("OfmScaleMode", "PER_CHANNEL GLOBAL", start=0)


class IfmUpscaleMode(IntEnum):
    NONE = 0
    NEAREST = 1
    ZEROS = 2

    @property
    def factor(self) -> int:
        """The factor by which upscaling multiplies the rows and columns of the IFM."""
        return 1 if self == IfmUpscaleMode.NONE else 2


WeightOrder = IntEnum("WeightOrder", "DEPTH_FIRST PART_KERNEL_FIRST", start=0)


class RoundingMode(IntEnum):
    """A rounding of scaled values, by the name that a register has for it."""

    @property
    def rule(self) -> Rounding:
        """The rounding of this mode.

        `ethosu/vela/api.py` describes DBL as TFL's, TRUNCATE as towards zero, NATURAL as to nearest, x.5 to infinity.
        `graphir_optimiser.cpp` maps the double rounding of TOSA's RESCALE to DBL and the single one to NATURAL.
        """
        return Rounding[{"DBL": "DOUBLE_SYMMETRIC", "TRUNCATE": "TRUNCATE_TO_ZERO"}.get(self.name, self.name)]


class Rounding(RoundingMode):
    """All roundings, with the numbers of Ethos-U85's OFM_SCALE."""

    DOUBLE_SYMMETRIC = 0
    NATURAL = 1
    DOUBLE_ASYMMETRIC = 2
    SYMMETRIC = 3
    TRUNCATE_TO_ZERO = 4
    TRUNCATE_TO_LOWER = 5


KernelDilation = IntEnum("KernelDilation", "NONE X2", start=0)
KernelDecomposition = IntEnum("KernelDecomposition", "D8X8 D4X4", start=0)
DmaRegionMode = IntEnum("DmaRegionMode", "EXTERNAL INTERNAL", start=0)
DmaStrideMode = IntEnum("DmaStrideMode", "D1 D2 D3", start=0)

# U55 and U65 have at most the first values of these enumerations.
PoolingMode = IntEnum("PoolingMode", "MAX AVERAGE REDUCE_SUM SUM NONE MIN ARGMAX_X ARGMAX_Y", start=0)


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
    LSR = 10
    DIV = 11
    CMP_EQ = 16
    CMP_NE = 17
    CMP_GE = 18
    CMP_GT = 19
    AND = 33
    OR = 34
    XOR = 35
    NOT = 36
    AND_NOT = 42

    @property
    def is_unary(self) -> bool:
        return self.name in ("ABS", "CLZ", "NOT", "LRELU")


ResizeMode = IntEnum("ResizeMode", "BILINEAR REPLICATE NEAREST", start=0)
ActivationReverse = IntEnum("ActivationReverse", "NONE H W C", start=0)


class ActivationTranspose(IntEnum):
    HWC = 0
    WHC = 1
    HCW = 2
    WCH = 3
    CHW = 6
    CWH = 7

    @property
    def axes(self) -> tuple[int, int, int]:
        """The axis of the result before transposition, for each of (height, width, depth) after it."""
        height, width, depth = ("HWC".index(axis) for axis in self.name)
        return height, width, depth


AccInput = IntEnum("AccInput", "RESET KEEP IFM2", start=0)
WeightFormat = IntEnum("WeightFormat", "SWD FWD", start=0)
WeightSparsity = IntEnum("WeightSparsity", "NONE SPARSE_2_4", start=0)


@dataclass(frozen=True, slots=True)
class Field:
    """`bits` bits of a command from bit `first` on; values: the enumeration of its values, None for a number."""

    name: str
    first: int
    bits: int
    values: type[IntEnum] | None = None


@dataclass(frozen=True, slots=True)
class CommandLayout:
    """The layout of an instruction.

    code: with the bit of a long one.
    name: Arm's name without "NPU_".
    """

    code: int
    name: str
    fields: tuple[Field, ...]

    @property
    def long(self) -> bool:
        """Whether it has a payload."""
        return bool(self.code & LONG)

    @property
    def operation(self) -> bool:
        """Whether it is an operation; the others set a register."""
        return self.name.startswith("OP_")


def layout(code: int, name: str, *fields: Field) -> CommandLayout:
    return CommandLayout(code, name, fields)


def activation(precision_at: int) -> tuple[Field, ...]:
    """Returns the fields for type, precision and format of a feature map."""
    return (
        Field("activation_type", 0, 1, ActivationType),
        Field("activation_precision", precision_at, 2, ActivationPrecision),
        Field("activation_format", 6, 2, ActivationFormat),
    )


REGION = Field("region", 0, 3)
#: The common fields. U55 has a stride mode for both sides of a copy, U85 only for the source.
DMA_REGION = (REGION, Field("region_mode", 8, 1, DmaRegionMode))
_HEIGHT, _WIDTH, _DEPTH = (Field(f"{of}_m1", 0, 16) for of in ("height", "width", "depth"))
_ZERO_POINT = Field("zero_point", 0, 16)
_CLIP_BOUNDARY = Field("clip_boundary", 0, 16)
_SIZE = Field("size", 0, 16)
#: An address: the payload is its low word, the parameter has bits 32-39.
ADDRESS = Field("addr", 0, 40)
WEIGHT_LENGTH, SCALE_LENGTH = Field("length", 16, 32), Field("length", 16, 20)

#: The layout of an instruction by its code.
Layouts = Mapping[int, CommandLayout]

#: Feature maps with the first code of their short and of their long registers.
_MAPS = (("IFM", 0x0100, 0x4000), ("OFM", 0x0110, 0x4010), ("IFM2", 0x0180, 0x4080))
_OF_MAPS = (
    (0xA, "WIDTH0_M1", _WIDTH),
    (0xB, "HEIGHT0_M1", _HEIGHT),
    (0xC, "HEIGHT1_M1", _HEIGHT),
    (0xF, "REGION", REGION),
)
_PLACES = ("BASE0", "BASE1", "BASE2", "BASE3", "STRIDE_X", "STRIDE_Y", "STRIDE_C")

_COMMON = (
    *(layout(short + k, f"SET_{of}_{name}", field) for of, short, _ in _MAPS for k, name, field in _OF_MAPS),
    *(layout(long + k, f"SET_{of}_{name}", ADDRESS) for of, _, long in _MAPS for k, name in enumerate(_PLACES)),
    layout(0x0000, "OP_STOP", Field("mask", 0, 16)),
    layout(0x0001, "OP_IRQ", Field("mask", 0, 16)),
    layout(0x0003, "OP_DEPTHWISE"),
    layout(0x0010, "OP_DMA_START"),
    layout(0x0013, "OP_PMU_MASK", Field("enable", 0, 1)),
    layout(0x0100, "SET_IFM_PAD_TOP", Field("pad", 0, 7)),
    layout(0x0101, "SET_IFM_PAD_LEFT", Field("pad", 0, 7)),
    layout(0x0102, "SET_IFM_PAD_RIGHT", Field("pad", 0, 8)),
    layout(0x0103, "SET_IFM_PAD_BOTTOM", Field("pad", 0, 8)),
    layout(0x0104, "SET_IFM_DEPTH_M1", _DEPTH),
    layout(0x0107, "SET_IFM_UPSCALE", Field("mode", 0, 2, IfmUpscaleMode)),
    layout(0x0109, "SET_IFM_ZERO_POINT", _ZERO_POINT),
    layout(0x0111, "SET_OFM_WIDTH_M1", _WIDTH),
    layout(0x0112, "SET_OFM_HEIGHT_M1", _HEIGHT),
    layout(0x0113, "SET_OFM_DEPTH_M1", _DEPTH),
    layout(0x0118, "SET_OFM_ZERO_POINT", _ZERO_POINT),
    layout(0x0120, "SET_KERNEL_WIDTH_M1", _WIDTH),
    layout(0x0121, "SET_KERNEL_HEIGHT_M1", _HEIGHT),
    layout(
        0x0122,
        "SET_KERNEL_STRIDE",
        Field("stride_x_lsb", 0, 1),
        Field("stride_y_lsb", 1, 1),
        Field("weight_order", 2, 1, WeightOrder),
        Field("dilation_x", 3, 1, KernelDilation),
        Field("dilation_y", 4, 1, KernelDilation),
        Field("decomposition", 5, 1, KernelDecomposition),
        Field("stride_x_msb", 6, 1),
        Field("stride_y_msb", 9, 1),
    ),
    layout(0x0126, "SET_ACTIVATION_MIN", _CLIP_BOUNDARY),
    layout(0x0127, "SET_ACTIVATION_MAX", _CLIP_BOUNDARY),
    layout(0x0128, "SET_WEIGHT_REGION", REGION),
    layout(0x0129, "SET_SCALE_REGION", REGION),
    layout(0x0132, "SET_DMA0_SIZE0", _SIZE),
    layout(0x0133, "SET_DMA0_SIZE1", _SIZE),
    layout(0x0189, "SET_IFM2_ZERO_POINT", _ZERO_POINT),
    layout(0x4020, "SET_WEIGHT_BASE", ADDRESS),
    layout(0x4022, "SET_SCALE_BASE", ADDRESS),
    layout(0x4090, "SET_WEIGHT1_BASE", ADDRESS),
    layout(0x4030, "SET_DMA0_SRC", ADDRESS),
    layout(0x4031, "SET_DMA0_DST", ADDRESS),
    layout(0x4032, "SET_DMA0_LEN", ADDRESS),
    layout(0x4021, "SET_WEIGHT_LENGTH", WEIGHT_LENGTH),
    layout(0x4023, "SET_SCALE_LENGTH", SCALE_LENGTH),
    layout(0x4091, "SET_WEIGHT1_LENGTH", WEIGHT_LENGTH),
)


def layouts(*own: CommandLayout) -> Layouts:
    """Returns the layouts of a family: the common ones and its own."""
    return {found.code: found for found in (*_COMMON, *own)}


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction of a command stream.

    offset: of its first byte in the stream.
    parameter, payload: of 16 and 32 bits; payload is None for a short one.
    """

    offset: int
    layout: CommandLayout
    parameter: int
    payload: int | None
    fields: Mapping[str, int]

    @property
    def name(self) -> str:
        return self.layout.name

    def describe(self) -> dict[str, str]:
        """Returns the fields by name, as text: enumerations by name, addresses hexadecimal."""
        address = self.layout.fields == (ADDRESS,)
        return {
            k: v.name if isinstance(v, IntEnum) else f"{v:#x}" if address else str(int(v))
            for k, v in self.fields.items()
        }

    def __str__(self) -> str:
        return " ".join([self.name, *(f"{k}={v}" for k, v in self.describe().items())])


def instructions(words: Sequence[int], layouts: Layouts) -> Iterator[Instruction]:
    """Yields the instructions of a stream's words. Raises DeviceError for an unknown instruction, value or bit."""
    at = 0
    while at < len(words):
        word = words[at]
        layout = layouts.get(word & 0xFFFF)
        if layout is None:
            raise DeviceError(f"unknown command {word:#010x} at byte {4 * at}")
        if layout.long and at + 1 == len(words):
            raise DeviceError(f"the command stream ends inside {layout.name}")
        payload = words[at + 1] if layout.long else None
        yield Instruction(4 * at, layout, word >> 16, payload, _fields(layout, word >> 16, payload, 4 * at))
        at += 1 + layout.long


def _fields(layout: CommandLayout, parameter: int, payload: int | None, offset: int) -> dict[str, int]:
    if layout.fields == (ADDRESS,):
        if parameter >> 8:
            raise DeviceError(f"{layout.name} at byte {offset}: unknown bits {parameter >> 8 << 8:#x}")
        return {"addr": (parameter & 0xFF) << 32 | (payload or 0)}
    bits = left = parameter | (payload or 0) << 16
    out: dict[str, int] = {}
    for f in layout.fields:
        value = bits >> f.first & (1 << f.bits) - 1
        left &= ~((1 << f.bits) - 1 << f.first)
        if f.values is not None:
            try:
                value = f.values(value)
            except ValueError as e:
                raise DeviceError(f"{layout.name} at byte {offset}: unknown {f.name} {value}") from e
        out[f.name] = value
    if left:
        raise DeviceError(f"{layout.name} at byte {offset}: unknown bits {left:#x}")
    return out
