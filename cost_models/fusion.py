"""What Vela fuses, as pairwise terms: facts measured on Vela 5.1, shared by the models that price in cycles."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cost_models.protocol import Fusion, Unit
from eqsat.target import Family
from eqsat.target.staging import step_cycles
from eqsat.tensor.dtypes import DType

MACS = ("conv2d", "depthwise_conv2d", "transpose_conv2d", "matmul", "avg_pool2d", "max_pool2d", "reduce_sum")
ACTIVATIONS = ("clamp", "table")
SUMS = ("add", "sub", "mul", "maximum", "minimum")
#: Ops of one operator each, besides the arithmetic, that carry an activation (measured on Vela 5.1, all families; CONCAT, SLICE and TILE do not).
_CARRYING = ("transpose", "reverse", "reduce_max", "reduce_min")
#: Cycles per element up to which a native transpose is expected to fuse into its producer without loss, where any does.
_FUSABLE_CYCLES = 1.5


def fuses(reader: Unit, read: Unit, behind: Sequence[Unit], family: Family) -> Fusion | None:
    """The term of `reader` reading `read`, whose operands may come from `behind`."""
    arithmetic = read.op in MACS or read.op in SUMS
    if reader.op == "rescale" and arithmetic and DType.of(reader.operands[0].dtype).is_accumulator:
        return Fusion(of_reader=1.0)
    if (
        read.op == "rescale"
        and read.result.dtype == "INT32"
        and (reader.op in SUMS or reader.op == "reduce_sum" and is_times_one(read))
    ):
        return Fusion(of_read=1.0)
    fused_rescale = read.op == "rescale" and any(
        b.op in MACS or b.op in SUMS and not (reader.op == "table" and _splits(b)) for b in behind
    )
    after_matmul = any(b.op == "matmul" for b in behind)  # measured: nothing but the RESCALE fuses into a MATMUL
    if (
        reader.op in ACTIVATIONS
        and (fused_rescale and not after_matmul or read.op in (*MACS, *_CARRYING))
        and not is_noop(reader)
    ):
        return Fusion(of_reader=1.0)
    if (
        family.transposes.fused
        and reader.op == "transpose"
        and reader.steps
        and fused_rescale
        and any(b.op in MACS for b in behind)
    ):
        return _fused_transpose(reader, family)
    return None


def _fused_transpose(reader: Unit, family: Family) -> Fusion | None:
    """Convolutions, depthwise ones and poolings write one of the native transposes themselves."""
    native, shape = family.transposes.native_of(reader.attr("perms")), reader.operands[0].shape
    if native is None:
        return None
    if step_cycles(*shape[1:], native, 1, family) > _FUSABLE_CYCLES * shape[1] * shape[2] * shape[3] + 500:
        return None  # deep or shallow shapes: fused it costs many times as much as by itself
    return Fusion(of_reader=0.5 if native in family.transposes.doubled else 1.0)


def _splits(u: Unit) -> bool:
    """Whether a sum becomes several operators, behind which no TABLE fuses: it broadcasts, and has more than three axes (measured)."""
    return math.prod(u.result.shape[:-3]) > 1 and any(t.shape != u.result.shape for t in u.operands)


def is_times_one(rescale: Unit) -> bool:
    """Whether a RESCALE multiplies by one: whatever its zero points, it fuses into a REDUCE_SUM (measured on Vela 5.1, all families)."""
    return all(m == 1 << s for m, s in zip(rescale.attr("multiplier"), rescale.attr("shift")))


def is_noop(u: Unit) -> bool:
    """A CLAMP to the dtype's limits. Vela's U55/U65 estimate falls when one follows a convolution, hardware does not get
    faster: it keeps its full price, so that its removal always wins (measured on Vela 5.1)."""
    dtype = DType.of(u.result.dtype)
    if u.op != "clamp" or not dtype.is_integral:
        return False
    return (u.attr("min_val"), u.attr("max_val")) == tuple(map(dtype.to_bytes, dtype.limits))
