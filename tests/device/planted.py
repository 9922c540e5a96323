"""Errors planted in binaries, which must show when they run, and must not be proved."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from eqsat.device.binary import Binary, read_header
from eqsat.ground.worker import Worker
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps
from tests.device.pieces import OF_U85, PIECES, compiled, of

U55, U65, U85 = (Target.of(name) for name in ("ethos-u55-128", "ethos-u65-512", "ethos-u85-256"))
Change = Callable[[Binary], Binary]


def with_commands(data: bytes, words: Sequence[int]) -> bytes:
    """The driver payload with other words behind its header."""
    _, before = read_header(data)
    start, length = len(data) - 4 * len(before), len(words)
    header = struct.pack("<I", 2 | (length >> 16 & 0xFF) << 8 | (length & 0xFFFF) << 16)
    return data[: start - 4] + header + struct.pack(f"<{length}I", *words)


def with_word(binary: Binary, name: str, change: Callable[[int], int], nth: int = 0) -> Binary:
    """The binary with the parameter of the nth such instruction changed."""
    found = [i for i in binary.instructions() if i.name == name][nth]
    at = _place(binary, found.offset)
    word = int.from_bytes(binary.stream[at : at + 4], "little")
    changed = word & 0xFFFF | (change(word >> 16) & 0xFFFF) << 16
    return replace(binary, stream=binary.stream[:at] + changed.to_bytes(4, "little") + binary.stream[at + 4 :])


def with_payload(binary: Binary, name: str, change: Callable[[int], int]) -> Binary:
    """The binary with the payload of the first such instruction changed."""
    found = next(i for i in binary.instructions() if i.name == name)
    at = _place(binary, found.offset + 4)
    word = (change(found.payload or 0) & 0xFFFFFFFF).to_bytes(4, "little")
    return replace(binary, stream=binary.stream[:at] + word + binary.stream[at + 4 :])


def _place(binary: Binary, offset: int) -> int:
    return len(binary.stream) - 4 * sum(1 + i.layout.long for i in binary.instructions()) + offset


def flipped(binary: Binary, at: int) -> Binary:
    """The binary with a bit of its constants changed."""
    data = bytearray(binary.read_only)
    data[at] ^= 4
    return replace(binary, read_only=bytes(data))


def with_swapped_strides(binary: Binary) -> Binary:
    stream, by_name = bytearray(binary.stream), {i.name: i for i in binary.instructions()[::-1]}
    x, y = (_place(binary, by_name[f"SET_IFM_STRIDE_{axis}"].offset + 4) for axis in "XY")
    stream[x : x + 4], stream[y : y + 4] = stream[y : y + 4], stream[x : x + 4]
    return replace(binary, stream=bytes(stream))


def with_one_scale(binary: Binary) -> Binary:
    """The binary with a scale of one at its beginning, which the first command takes for all channels."""
    words = [0x4024, 1, *read_header(binary.stream)[1]]
    binary = replace(binary, stream=with_commands(binary.stream, words))
    return with_word(binary, "SET_OFM_PRECISION", lambda v: v | 256)


def _word(name: str, change: Callable[[int], int], nth: int = 0) -> Change:
    return lambda b: with_word(b, name, change, nth)


def _bit(at: int, base: str = "") -> Change:
    """A bit of the constants, `at` bytes behind where the first instruction `base` says."""
    return lambda b: flipped(b, at + next((i.fields["addr"] for i in b.instructions() if i.name == base), 0))


def graph_of(piece: str) -> TensorGraph:
    """The graph of a piece, in its first dtype."""
    return of(next(p for p in (*PIECES, *OF_U85) if p.name == piece))


@dataclass(frozen=True)
class Planted:
    target: Target
    piece: str
    what: str
    plant: Change

    def __str__(self) -> str:
        return f"{self.what} of {self.piece} {self.target.accelerator}"

    def binaries(self, worker: Worker) -> tuple[TensorGraph, Binary, Binary]:
        """The graph, its binary, and that with the error."""
        graph = graph_of(self.piece)
        binary = compiled(dumps(graph), self.target, worker)
        return graph, binary, self.plant(binary)


def _planted(targets: tuple[Target, ...], *rows: tuple[str, str, Change]) -> list[Planted]:
    return [Planted(t, *row) for t in targets for row in rows]


ERRORS = [
    *_planted(
        (U55, U65),
        ("convolution", "a bit of a bias", _bit(0)),
        ("convolution", "a bit of a scale", _bit(7)),
        ("convolution", "a bit of the weights", _bit(40 * 10 + 60)),
        ("convolution", "the zero point", _word("SET_OFM_ZERO_POINT", lambda v: v + 1)),
        ("convolution", "the zero point of the input", _word("SET_IFM_ZERO_POINT", lambda v: v + 1)),
        ("convolution", "a stride of the kernel", _word("SET_KERNEL_STRIDE", lambda v: v ^ 4)),
        ("convolution", "padding", _word("SET_IFM_PAD_LEFT", lambda v: 0)),
        ("convolution", "the rounding", _word("SET_OFM_PRECISION", lambda v: v ^ 0xC000)),
        ("convolution", "the clamp", _word("SET_ACTIVATION_MAX", lambda v: 20)),
        ("convolution", "the number of input channels", _word("SET_IFM_DEPTH_M1", lambda v: v - 1)),
    ),
    *_planted(
        (U55,),
        ("convolution", "swapped strides", with_swapped_strides),
        # poolings that only copy take a short way
        ("transposition", "the clamp", _word("SET_ACTIVATION_MAX", lambda v: 20)),
        ("transposition", "the zero point", _word("SET_OFM_ZERO_POINT", lambda v: v + 1)),
        ("transposition", "the scale", _word("SET_OFM_SCALE", lambda v: v + 1)),
        ("transposition", "upscaling", _word("SET_IFM_UPSCALE", lambda v: 1)),
        ("transposition", "the width", _word("SET_OFM_WIDTH_M1", lambda v: v - 1)),
        ("addition", "the scale", _word("SET_OFM_SCALE", lambda v: v + 1)),
        ("sum_of_channels", "the zero point of the input", _word("SET_IFM_ZERO_POINT", lambda v: v + 1)),
        ("table", "the clamp", _word("SET_ACTIVATION_MIN", lambda v: 0)),
    ),
    *_planted(
        (U85,),
        ("convolution", "the zero point", _word("SET_OFM_ZERO_POINT", lambda v: v + 1)),
        ("convolution", "the clamp", _word("SET_ACTIVATION_MAX", lambda v: 20)),
        ("convolution", "padding", _word("SET_IFM_PAD_LEFT", lambda v: 0)),
        ("addition", "the zero point of an operand", _word("SET_IFM2_ZERO_POINT", lambda v: v + 1)),
        ("product", "the zero point of the input", _word("SET_IFM_ZERO_POINT", lambda v: v + 1)),
        ("convolution_1x1", "a bit of a bias", _bit(1, "SET_SCALE_BASE")),
        ("convolution_1x1", "a bit of a scale", _bit(7, "SET_SCALE_BASE")),
        ("convolution_1x1", "a bit of the weights", _bit(60, "SET_WEIGHT_BASE")),
        ("convolution_1x1", "a micro block", _word("SET_ACC_FORMAT", lambda v: v ^ 0x300)),
        ("convolution_strided", "the order of weights", _word("SET_KERNEL_STRIDE", lambda v: v ^ 4)),
        ("convolution_strided", "padding", _word("SET_IFM_PAD_LEFT", lambda v: v - 1)),
        ("matrices", "the zero point of an operand", _word("SET_IFM2_ZERO_POINT", lambda v: v + 1)),
        ("transpose_0213", "the transposition", _word("SET_OFM_PRECISION", lambda v: v ^ 0x800)),
        ("reverse_2", "the reversal", _word("SET_OFM_PRECISION", lambda v: v & ~0x600)),
        ("chain", "the clamp", _word("SET_ACTIVATION_MAX", lambda v: 20, -1)),
        ("chain", "a chaining buffer", _word("SET_OFM_REGION", lambda v: v + 3)),
        ("sums_of_broadcasts", "the shift", _word("SET_OFM_SCALE", lambda v: v + 1, -1)),
        ("sums_of_broadcasts", "a broadcast", _word("SET_IFM2_BROADCAST", lambda v: v ^ 4)),
        ("table_after_a_convolution", "the table", _bit(128, "SET_DMA0_SRC")),
        ("chosen_rows", "an index", _bit(4, "SET_DMA0_IDX")),
        ("resize_between", "the offset", _word("SET_RESIZE_X_OFFSET", lambda v: v + 1)),
    ),
]
#: Changes to what the functional model does not know, each named by what it says.
UNKNOWN = [
    # Vela 5.1 makes such poolings of some transpositions in five axes
    Planted(U55, "convolution", "nothing but padding", _word("SET_IFM_PAD_TOP", lambda v: 127)),
    *(
        Planted(t, "convolution_dilated", "ends between its elements", _word(f"SET_KERNEL_{name}_M1", lambda v: v + 1))
        for t, name in ((U55, "HEIGHT"), (U85, "WIDTH"))
    ),
    Planted(U55, "convolution", "OP_CONV with one scale for all channels", with_one_scale),
    Planted(U55, "chain", "OP_ELEMENTWISE with one scale", _word("SET_OFM_PRECISION", lambda v: v | 256, -1)),
    Planted(U55, "average_padded", "padded average that is scaled", _word("SET_OFM_SCALE", lambda v: v + 1)),
    Planted(U85, "chain", "does not know IFM in TILE3X1", _word("SET_IFM_PRECISION", lambda v: v | 0x4000)),
    Planted(U85, "convolution_1x1", "does not know D4X4", _word("SET_KERNEL_STRIDE", lambda v: v | 0x20)),
    Planted(U85, "average_padded", "average that is scaled", _word("SET_OFM_SCALE", lambda v: v + 1)),
    Planted(U85, "matrices", "were not kept", _word("SET_ACC_FORMAT", lambda v: v | 0x10, -1)),
    Planted(U85, "table_of_shorts", "activation LUT_TANH", _word("SET_ACTIVATION", lambda v: v & ~0x1F | 10)),
    Planted(U85, "convolution_1x1", "unknown microblock 7", _word("SET_ACC_FORMAT", lambda v: v | 0x700)),
    Planted(U85, "addition", "with a scale for each channel", _word("SET_OFM_PRECISION", lambda v: v & ~0x100, -1)),
    Planted(U55, "addition", "with a scale for each channel", _word("SET_OFM_PRECISION", lambda v: v & ~0x100, -1)),
    Planted(U85, "matrices", "in a format of weights", _word("SET_WEIGHT_FORMAT", lambda v: v | 1)),
    Planted(U85, "matrices", "in a format of weights", _word("SET_WEIGHT_FORMAT", lambda v: v | 16)),
    *(
        Planted(t, "sums_of_broadcasts", "of operands of", _word("SET_IFM2_PRECISION", lambda v: v & ~0xC, -1))
        for t in (U55, U85)
    ),
    Planted(U85, "zeros_and_quotients", "DIV with a scaled result", _word("SET_OFM_SCALE", lambda v: v + 1, 1)),
    Planted(U85, "chain", "chained, transposed, reversed", _word("SET_OFM_PRECISION", lambda v: v | 0x400, 1)),
    Planted(U85, "transpose_0213", "chained, transposed, reversed", _word("SET_OFM_PRECISION", lambda v: v | 0x400)),
    Planted(U85, "weights_as_an_input", "I48 that begin with int32", _word("SET_ACC_FORMAT", lambda v: v ^ 1, 1)),
    Planted(U85, "addition", "rounded twice", _word("SET_OFM_SCALE", lambda v: v | 0x40)),
    Planted(U85, "resize_between", "do not follow each other along X", _word("SET_RESIZE_X", lambda v: v + 16)),
    Planted(U85, "resize_between", "do not follow each other along Y", _word("SET_RESIZE_Y", lambda v: v + 16)),
    Planted(U85, "resize_between", "upscaled RESIZE", _word("SET_IFM_UPSCALE", lambda v: 1)),
    Planted(U85, "resize_between", "zero point of IFM2", _word("SET_IFM2_ZERO_POINT", lambda v: 3)),
    Planted(U85, "chain", "chaining buffer 1 holds no int32", _word("SET_IFM_PRECISION", lambda v: v | 0x8000, -1)),
]
