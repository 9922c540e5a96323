"""Corrected cycles of an operator whose weights an earlier one has brought into SRAM.

Operators next to each other with equal weights share one buffer, into which one DMA copies them (CoalesceWeightBufferTensors in scheduler.cpp).
Vela charges each of them the whole copy (`fullWeightTransferCycles` in network_performance.cpp): 8 products of one matrix [256, 40] on U55 take 121,491
cycles by its total, 14,880 each, of which 12,384 are those of the copy, and the stream has one copy.

The corrected cycles are those without buffering ("est_op_cycles_without_buffering"; before 5.2, whose table has no such column, those in which the MAC array or
the output path computes), or those of the memory that takes longest, without the reads of weights and scales from where constants lie.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

_Columns = Mapping[str, str]


def corrected_reuse(
    row: _Columns, details: _Columns, blocks: _Columns, buffers: Collection[str], constants: str
) -> int:
    """Cycles of a row of Vela's table "perf", with what "perf_debug" and "perf_debug_main" tell of the same operator; those of the row itself where it has a buffer of its own.

    buffers: names of all buffers of weights; constants: the memory that weights are copied from.
    """
    charged = int(row["op_cycles"])
    if details.get("weight_buffering") != "Single":
        return charged
    number = int(details.get("time_index") or 0) // 2  # steps are counted by two
    if any(name.endswith(f"_op{number}") for name in buffers):
        return charged
    busy = max(int(blocks["mac_cycles"]), int(blocks["ao_cycles"]))
    alone = int(details.get("est_op_cycles_without_buffering") or busy)
    waiting = int(details.get("est_op_cycles_with_buffering") or row["npu_cycles"])
    cycles = [int(row["npu_cycles"]) - waiting + alone]
    for memory in (name.removesuffix("_ac") for name in row if name.endswith("_ac")):
        copied = ("Weights", "Scales") if memory == constants else ()
        cycles.append(int(row[f"{memory}_ac"] or 0) - sum(int(details.get(f"{memory}{w}_ac") or 0) for w in copied))
    return min(charged, max(cycles))
