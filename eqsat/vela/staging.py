"""Corrected cycles of an operator whose weights an earlier one has brought into SRAM.

Operators next to each other with equal weights share one buffer, into which one DMA copies them
(CoalesceWeightBufferTensors in scheduler.cpp).
Vela charges each of them the whole copy (`fullWeightTransferCycles` in network_performance.cpp): 8 products of one
matrix [256, 40] on U55 take 121,491 cycles by its total, 14,880 each, of which 12,384 are those of the copy, and the
stream has one copy.

The corrected cycles are those without buffering ("est_op_cycles_without_buffering"; before 5.2, whose table has no such
column, those in which the MAC array or the output path computes), or those of the memory that takes longest, without
the reads of weights and scales from where constants lie.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

_Columns = Mapping[str, str]


class Buffer(NamedTuple):
    """A buffer of weights in SRAM. name: ends with the number of the operator that it was made for; first, last: steps
    at which it is needed."""

    name: str
    first: int
    last: int


def reusing(operators: Sequence[_Columns], buffers: Sequence[Buffer]) -> set[str]:
    """Ids of the operators that read a buffer which an earlier one of them filled.

    operators: Vela's table "perf_debug", in the order in which they run.
    Of cascades, whose operators share a step, nothing is said.
    """
    out, filled = set[str](), set[Buffer]()
    for number, o in enumerate(operators):
        if o.get("weight_buffering") != "Single" or int(o.get("cascade") or 0):
            continue
        step, name = int(o.get("time_index") or 0), f"WB_single_{o['weight_max_range_bytes']}_op"
        live = {b for b in buffers if b.first <= step <= b.last and b.name.startswith(name)}
        # a buffer of its own is filled while the operator before it runs, at the earliest
        own = any(b.first >= step - 1 or b.name == f"{name}{number}" for b in live)
        if live & filled and not own:
            out.add(o["id"])
        filled |= live
    return out


def corrected_reuse(row: _Columns, details: _Columns, blocks: _Columns, constants: str) -> int:
    """Cycles of such an operator's row of Vela's table "perf", with what "perf_debug" and "perf_debug_main" tell of it.

    constants: the memory that weights are copied from.
    """
    busy = max(int(blocks["mac_cycles"]), int(blocks["ao_cycles"]))
    alone = int(details.get("est_op_cycles_without_buffering") or busy)
    waiting = int(details.get("est_op_cycles_with_buffering") or row["npu_cycles"])
    cycles = [int(row["npu_cycles"]) - waiting + alone]
    for memory in (name.removesuffix("_ac") for name in row if name.endswith("_ac")):
        copied = ("Weights", "Scales") if memory == constants else ()
        cycles.append(int(row[f"{memory}_ac"] or 0) - sum(int(details.get(f"{memory}{w}_ac") or 0) for w in copied))
    return min(int(row["op_cycles"]), max(cycles))
