"""Fusions of Vela as pairwise terms, shared by the models that price in cycles.

All were measured on Vela 5.1, by compiling such pairs, on all families.
`tests/cost_models/test_vela_groups.py` checks them with the installed Vela.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cost_models.protocol import Fusion, Unit
from eqsat.target import Family
from eqsat.target.staging import step_cycles
from eqsat.tensor.types import DType
from eqsat.vela.patterns import ACTIVATIONS

#: Ops of the MAC array.
MACS = ("conv2d", "depthwise_conv2d", "transpose_conv2d", "matmul", "avg_pool2d", "max_pool2d", "reduce_sum")
#: Ops of the MAC array that slide a window over a feature map.
_WINDOWS = ("conv2d", "depthwise_conv2d", "transpose_conv2d", "avg_pool2d", "max_pool2d")
#: Arithmetic on two operands.
SUMS = ("add", "sub", "mul", "maximum", "minimum")
#: Ops, besides RESCALE, that read a SLICE of a tensor where it lies.
#: A CONCAT copies the part, which its own price has.
#: MATMUL, another SLICE and outputs read a copy.
#: TRANSPOSE and a RESHAPE of more than axes of size 1 read a copy, too (see `_reads_parts`).
#: A remedy copies the part that a reduction reads (`eqsat/vela/defects.py`).
_READING_PARTS = frozenset((*_WINDOWS, *ACTIVATIONS, *SUMS, "concat"))
#: Ops of one operator each, besides the arithmetic, that carry an activation.
#: CONCAT, SLICE and TILE carry none.
_CARRYING = ("transpose", "reverse", "reduce_max", "reduce_min")
#: The factor of the operand of a sum that has the larger scale, by dtype, as ExecuTorch and TFLite have it.
_OF_SUMMANDS = {"INT8": 1 << 19, "INT16": 1 << 14}
#: The ratio of the scales of two operands of a sum, at most.
_MOST_UNLIKE = 1 << 10
#: Cycles per element up to which a native transpose is expected to fuse without loss.
_FUSABLE_CYCLES = 1.5
#: Cycles that are allowed in addition to _FUSABLE_CYCLES per element.
_FUSABLE_START = 500


def fuses(reader: Unit, read: Unit, producers: Sequence[Unit], family: Family) -> Fusion | None:
    """Returns the term of `reader` reading `read`, whose operands may come from `producers`; None if nothing fuses."""
    op = reader.op
    if is_part(read):
        return Fusion(of_read=1.0) if _reads_parts(reader, family) else None
    if op == "rescale":
        return _fuse_rescale(reader, read)
    if op in SUMS or op == "reduce_sum":
        return _fuse_operand_scale(reader, read)
    if op == "concat":
        return _write_in_place(reader, read, producers)
    if op in ACTIVATIONS and not is_noop(reader):
        return _fuse_activation(reader, read, producers, family)
    if op == "transpose" and family.transposes.fused and reader.steps and read.op == "rescale":
        return _fuse_transpose(reader, family) if any(p.op in MACS for p in producers) else None
    return None


def is_part(unit: Unit) -> bool:
    """Whether it is a SLICE that its readers read where it lies, or copy; SLICEs of sums are not."""
    return unit.op == "slice" and not DType.of(unit.result.dtype).is_accumulator


def _reads_parts(reader: Unit, family: Family) -> bool:
    """Whether a reader of a SLICE needs no copy of it, or costs about a copy less on a copy.

    On U85 the copy of a part is written in the order of the TRANSPOSE that reads it, which then costs nothing.
    """
    if reader.op == "transpose":
        return family.transposes.fused
    if reader.op == "reshape":
        before, after = ([n for n in t.shape if n > 1] for t in (reader.operands[0], reader.result))
        return before == after
    return _rescales_parts(reader, family) if reader.op == "rescale" else reader.op in _READING_PARTS


def _rescales_parts(rescale: Unit, family: Family) -> bool:
    """Whether a RESCALE of a part costs as much as one of a whole tensor of that shape.

    To INT32 by a factor of one, or by one of a summand, it fuses into a product or a sum.
    By another factor it computes the whole tensor, except on U85 (Vela 5.2).
    """
    is_wide = DType.of(rescale.result.dtype).is_wide
    return not is_wide or family.rescales_wide or is_times_one(rescale) or _scales_summand(rescale)


def _scales_summand(rescale: Unit) -> bool:
    """Whether a RESCALE has the factor of an operand of a sum, as far as it shows."""
    largest = _OF_SUMMANDS.get(rescale.operands[0].dtype, 0)
    factors = zip(rescale.attr("multiplier"), rescale.attr("shift"))
    return all(largest << s <= _MOST_UNLIKE * m and m <= largest << s for m, s in factors)


def _fuse_rescale(reader: Unit, read: Unit) -> Fusion | None:
    """Returns the term of a RESCALE that reads a sum of products, or a sum."""
    arithmetic = read.op in MACS or read.op in SUMS
    return Fusion(of_reader=1.0) if arithmetic and DType.of(reader.operands[0].dtype).is_accumulator else None


def _write_in_place(reader: Unit, read: Unit, producers: Sequence[Unit]) -> Fusion | None:
    """Returns the term of a CONCAT for a computed operand.

    The operator of the operand writes it where it belongs; only the other operands are copied.
    A producer with other readers copies after all, which the table of the whole graph tells.
    The RESCALE of a TRANSPOSE_CONV2D does not fuse: nothing is saved.
    """
    computed = (*MACS, *SUMS)
    fused = any(p.op in computed and p.op != "transpose_conv2d" for p in producers)
    if read.op in computed or read.op in ("rescale", *ACTIVATIONS) and fused:
        return Fusion(of_reader=read.result.elements / reader.result.elements)
    return None


def _fuse_operand_scale(reader: Unit, read: Unit) -> Fusion | None:
    """Returns the term of a sum for an operand's RESCALE to INT32, unless that fuses into a sum of products."""
    widens = read.op == "rescale" and DType.of(read.result.dtype).is_wide
    if widens and DType.of(read.operands[0].dtype).is_accumulator:
        return None
    return Fusion(of_read=1.0) if widens and (reader.op in SUMS or is_times_one(read)) else None


def _fuse_activation(reader: Unit, read: Unit, producers: Sequence[Unit], family: Family) -> Fusion | None:
    """Returns the term of a CLAMP or TABLE, also behind a RESCALE that fuses; only the RESCALE fuses into a MATMUL.

    A CLAMP costs nothing, nor does a TABLE that is a command of its own in a chain.
    Otherwise a TABLE slows down the output path of the operator that carries it, which works beside the MAC array.
    Measured with Vela 5.2 on U65-256 by calibrated cycles, INT8: a convolution 1x1 of (1, 1, 256, 32) takes 3,124, a
    TABLE 8,812, both together 9,588; a convolution 3x3 of (1, 16, 16, 64) takes 41,544, a TABLE 17,364, both 42,984.
    """
    if read.op in (*MACS, *_CARRYING):
        carriers = [] if _on_a_batch(read) else [read]
    elif read.op != "rescale" or any(p.op == "matmul" for p in producers):
        carriers = []
    else:
        carriers = [
            p
            for p in producers
            if p.op in MACS and not _on_a_batch(p) or p.op in SUMS and not (reader.op == "table" and _splits(p))
        ]
    if not carriers:
        return None
    return Fusion(of_reader=1.0, beside=() if reader.op == "clamp" or family.chains else tuple(carriers))


def _fuse_transpose(reader: Unit, family: Family) -> Fusion | None:
    """Returns the term of a native transpose, in whose order a convolution or pooling writes its result itself."""
    native = family.transposes.native_of(reader.attr("perms"))
    if native is None:
        return None
    _, h, w, c = reader.operands[0].shape
    if step_cycles(h, w, c, native, 1, family) > _FUSABLE_CYCLES * h * w * c + _FUSABLE_START:
        return None  # deep or shallow shapes: many times as expensive if fused
    return Fusion(of_reader=0.5 if native in family.transposes.doubled else 1.0)


def _on_a_batch(unit: Unit) -> bool:
    """Whether a convolution or pooling has several images, so that no activation fuses.

    It becomes one operator per image, or one of its own whose rows are pixels of all images.
    """
    return unit.op in _WINDOWS and unit.result.shape[0] > 1


def _splits(unit: Unit) -> bool:
    """Whether a sum broadcasts on more than three axes: it becomes several operators, into which no TABLE fuses."""
    return math.prod(unit.result.shape[:-3]) > 1 and any(t.shape != unit.result.shape for t in unit.operands)


def is_times_one(rescale: Unit) -> bool:
    """Whether a RESCALE multiplies by one: then it fuses into a REDUCE_SUM, whatever its zero points."""
    return all(m == 1 << s for m, s in zip(rescale.attr("multiplier"), rescale.attr("shift")))


def is_noop(unit: Unit) -> bool:
    """Whether it is a CLAMP to the dtype's limits.

    Vela's U55/U65 estimate falls if one follows a convolution, but hardware does not get faster.
    So the CLAMP keeps its full price, and its removal always wins.
    """
    dtype = DType.of(unit.result.dtype)
    if unit.op != "clamp" or not dtype.is_integral:
        return False
    return (unit.attr("min_val"), unit.attr("max_val")) == tuple(map(dtype.to_bytes, dtype.limits))
