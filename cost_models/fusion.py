"""What Vela fuses, as pairwise terms, shared by the models that price in cycles.

All of it was measured on Vela 5.1, by compiling such pairs, on all families; `tests/cost_models/test_vela_groups.py`
asks the Vela that is there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cost_models.protocol import Fusion, Unit
from eqsat.target import Family
from eqsat.target.staging import step_cycles
from eqsat.tensor.dtypes import DType

MACS = ("conv2d", "depthwise_conv2d", "transpose_conv2d", "matmul", "avg_pool2d", "max_pool2d", "reduce_sum")
_WINDOWS = ("conv2d", "depthwise_conv2d", "transpose_conv2d", "avg_pool2d", "max_pool2d")
ACTIVATIONS = ("clamp", "table")
SUMS = ("add", "sub", "mul", "maximum", "minimum")
#: What reads a SLICE of a tensor where it lies, beside RESCALE; a CONCAT copies the part, which its own price has.
#: MATMUL, TRANSPOSE, a RESHAPE of more than axes of size 1, another SLICE and outputs read a copy.
#: What a reduction reads is copied by a remedy (`eqsat/vela/defects.py`).
_READING_PARTS = frozenset((*_WINDOWS, *ACTIVATIONS, *SUMS, "concat"))
#: Ops of one operator each, besides the arithmetic, that carry an activation; CONCAT, SLICE and TILE do not.
_CARRYING = ("transpose", "reverse", "reduce_max", "reduce_min")
#: Cycles per element, and to start, up to which a native transpose is expected to fuse into its producer without loss,
#: where any does.
_FUSABLE_CYCLES, _FUSABLE_START = 1.5, 500


def fuses(reader: Unit, read: Unit, producers: Sequence[Unit], family: Family) -> Fusion | None:
    """The term of `reader` reading `read`, whose operands may come from `producers`."""
    op = reader.op
    if is_part(read):
        return Fusion(of_read=1.0) if _reads_parts(reader, family) else None
    if op == "rescale":
        return _fused_rescale(reader, read)
    if op in SUMS or op == "reduce_sum":
        return _fused_operand_scale(reader, read)
    if op == "concat":
        return _written_in_place(reader, read, producers)
    if op in ACTIVATIONS and not is_noop(reader):
        return _fused_activation(reader, read, producers)
    if op == "transpose" and family.transposes.fused and reader.steps and read.op == "rescale":
        return _fused_transpose(reader, family) if any(p.op in MACS for p in producers) else None
    return None


def is_part(unit: Unit) -> bool:
    """Whether it is a SLICE of anything but sums, which its readers read where it lies or copy."""
    return unit.op == "slice" and not DType.of(unit.result.dtype).is_accumulator


def _reads_parts(reader: Unit, family: Family) -> bool:
    """Whether an operator reads a SLICE where it lies, or costs about a copy less than where it does not.

    On U85 the copy of a part is written in the order of the TRANSPOSE that reads it, which then costs nothing.
    """
    if reader.op == "transpose":
        return family.transposes.fused
    if reader.op == "reshape":
        before, after = ([n for n in t.shape if n > 1] for t in (reader.operands[0], reader.result))
        return before == after
    return _rescales_parts(reader, family) if reader.op == "rescale" else reader.op in _READING_PARTS


def _rescales_parts(rescale: Unit, family: Family) -> bool:
    """Whether a RESCALE of a part costs what it costs of a whole.

    To INT32 it fuses into a sum by one; by another number it computes the whole tensor, except on U85 (Vela 5.2).
    """
    return not DType.of(rescale.result.dtype).is_wide or family.rescales_wide or is_times_one(rescale)


def _fused_rescale(reader: Unit, read: Unit) -> Fusion | None:
    """The RESCALE of a sum of products, or of a sum."""
    arithmetic = read.op in MACS or read.op in SUMS
    return Fusion(of_reader=1.0) if arithmetic and DType.of(reader.operands[0].dtype).is_accumulator else None


def _written_in_place(reader: Unit, read: Unit, producers: Sequence[Unit]) -> Fusion | None:
    """An operand of a CONCAT that is computed: its operator writes it where it belongs, and only the others are copied.
    A producer that others read too copies after all, which the table of the whole graph tells. The RESCALE of a
    TRANSPOSE_CONV2D does not fuse: nothing is saved."""
    computed = (*MACS, *SUMS)
    fused = any(p.op in computed and p.op != "transpose_conv2d" for p in producers)
    if read.op in computed or read.op in ("rescale", *ACTIVATIONS) and fused:
        return Fusion(of_reader=read.result.elements / reader.result.elements)
    return None


def _fused_operand_scale(reader: Unit, read: Unit) -> Fusion | None:
    """The RESCALE to INT32 of an operand; of sums of products it is part of what makes them."""
    widens = read.op == "rescale" and DType.of(read.result.dtype).is_wide
    if widens and DType.of(read.operands[0].dtype).is_accumulator:
        return None
    return Fusion(of_read=1.0) if widens and (reader.op in SUMS or is_times_one(read)) else None


def _fused_activation(reader: Unit, read: Unit, producers: Sequence[Unit]) -> Fusion | None:
    """A CLAMP or TABLE, also after the RESCALE that fused. Nothing but the RESCALE fuses into a MATMUL."""
    if read.op in (*MACS, *_CARRYING):
        return None if _on_a_batch(read) else Fusion(of_reader=1.0)
    if read.op != "rescale" or any(p.op == "matmul" for p in producers):
        return None
    carried = any(
        p.op in MACS and not _on_a_batch(p) or p.op in SUMS and not (reader.op == "table" and _splits(p))
        for p in producers
    )
    return Fusion(of_reader=1.0) if carried else None


def _fused_transpose(reader: Unit, family: Family) -> Fusion | None:
    """Convolutions, depthwise ones and poolings write one of the native transposes themselves."""
    native = family.transposes.native_of(reader.attr("perms"))
    if native is None:
        return None
    _, h, w, c = reader.operands[0].shape
    if step_cycles(h, w, c, native, 1, family) > _FUSABLE_CYCLES * h * w * c + _FUSABLE_START:
        return None  # deep or shallow shapes: fused it costs many times as much as by itself
    return Fusion(of_reader=0.5 if native in family.transposes.doubled else 1.0)


def _on_a_batch(unit: Unit) -> bool:
    """Whether a convolution or pooling becomes an operator per image, into which no activation fuses, or one by itself
    where pixels do."""
    return unit.op in _WINDOWS and unit.result.shape[0] > 1


def _splits(unit: Unit) -> bool:
    """Whether a sum becomes several operators, into which no TABLE fuses: it broadcasts, and has more than three
    axes."""
    return math.prod(unit.result.shape[:-3]) > 1 and any(t.shape != unit.result.shape for t in unit.operands)


def is_times_one(rescale: Unit) -> bool:
    """Whether a RESCALE multiplies by one: whatever its zero points, it fuses into a REDUCE_SUM."""
    return all(m == 1 << s for m, s in zip(rescale.attr("multiplier"), rescale.attr("shift")))


def is_noop(unit: Unit) -> bool:
    """A CLAMP to the dtype's limits. Vela's U55/U65 estimate falls when one follows a convolution, hardware does not
    get
    faster: it keeps its full price, so that its removal always wins."""
    dtype = DType.of(unit.result.dtype)
    if unit.op != "clamp" or not dtype.is_integral:
        return False
    return (unit.attr("min_val"), unit.attr("max_val")) == tuple(map(dtype.to_bytes, dtype.limits))
