"""Corrected cycles of an operator whose weights an earlier one has copied into SRAM.

Operators next to each other with equal weights share one buffer, which one DMA fills.
(CoalesceWeightBufferTensors in scheduler.cpp.)
Vela charges each of them the whole copy.
(`fullWeightTransferCycles` in network_performance.cpp.)
On U55, 8 products of one matrix [256, 40] take 121,491 cycles by its total, 14,880 each.
12,384 of these are the copy, of which the stream has one.

The corrected cycles are the larger of
- the cycles without buffering ("est_op_cycles_without_buffering");
- the cycles of the memory that takes longest, without reads of weights and scales from the memory
  of constants.

The table of versions before 5.2 has no cycles without buffering.
The larger of the cycles of MAC array and output path takes their place.
"""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.vela.table import Columns, InSram


def reusing(operators: Sequence[Columns], tensors: Sequence[InSram]) -> set[str]:
    """Returns the ids of the operators that read a buffer of weights which an earlier one filled.

    operators: rows of Vela's table "perf_debug", in the order in which they run.
    tensors: the allocation of SRAM; the name of a buffer ends with the number of the operator that it was made for.
    Operators of cascades are left out, because they share a step.
    """
    out, filled = set[str](), set[InSram]()
    for number, o in enumerate(operators):
        if o.get("weight_buffering") != "Single" or int(o.get("cascade") or 0):
            continue
        step, name = int(o.get("time_index") or 0), f"WB_single_{o['weight_max_range_bytes']}_op"
        live = {b for b in tensors if b.first <= step <= b.last and b.name.startswith(name)}
        # a buffer of its own is filled while the operator before it runs, at the earliest
        own = any(b.first >= step - 1 or b.name == f"{name}{number}" for b in live)
        if live & filled and not own:
            out.add(o["id"])
        filled |= live
    return out


def corrected_reuse(row: Columns, details: Columns, blocks: Columns, constants: str) -> int:
    """Returns the corrected cycles of such an operator's row of Vela's table "perf".

    details, blocks: the rows of "perf_debug" and "perf_debug_main" for the same operator.
    constants: the memory from which weights are copied.
    """
    busy = max(int(blocks["mac_cycles"]), int(blocks["ao_cycles"]))
    alone = int(details.get("est_op_cycles_without_buffering") or busy)
    waiting = int(details.get("est_op_cycles_with_buffering") or row["npu_cycles"])
    cycles = [int(row["npu_cycles"]) - waiting + alone]
    for memory in (name.removesuffix("_ac") for name in row if name.endswith("_ac")):
        copied = ("Weights", "Scales") if memory == constants else ()
        cycles.append(int(row[f"{memory}_ac"] or 0) - sum(int(details.get(f"{memory}{w}_ac") or 0) for w in copied))
    return min(int(row["op_cycles"]), max(cycles))
