"""Corrected cycles of rows of Vela's table, without what Vela charges for nothing.

Of an elementwise operator with an operand that broadcasts, on U55 and U65, Vela charges one read of the operand for
each element of the result (MeasureElementAccess in ethos_u55_performance.cpp).
The hardware broadcasts and reads the operand once a block (NPU_SET_IFM2_BROADCAST).
A row takes the larger of the NPU's cycles and of the cycles of each memory (EstimateFullOpPerformance in
network_performance.cpp): bytes read and written over its bandwidth, with the waste of bursts (ElementTransferToBytes).
The corrected cycles are this maximum with the elements of each block in place of those of the result.

The hardware dilates a kernel by 2 at most.
If a convolution is dilated by d >= 3 along an axis, Vela cuts it into d pieces along that axis (HandleDilation in
scheduler_decompose.cpp).
Piece k computes every d-th element from k on, but Vela estimates it as if it computed all of them, d * d times as many.
The corrected cycles of a piece are the sum of
- the cycles in which it waits for its weights;
- its share of the cycles of MAC array and output path ("mac_cycles", "ao_cycles");
- the cycles until the first block has come through them.
Instead of the last two, its share of all cycles after the weights counts if that is larger.
This share alone counts if the piece waits for memory most of the time.
Of 72 convolutions on three targets, 66 are then at .5 to 2 times the price of their commands; by Vela, at 2 to 69.

Operators next to each other with equal weights share one buffer, which one DMA fills (CoalesceWeightBufferTensors in
scheduler.cpp), but Vela charges each the whole copy (`fullWeightTransferCycles` in network_performance.cpp).
The corrected cycles are the larger of
- the cycles without buffering ("est_op_cycles_without_buffering"); in the table of versions before 5.2, which does not
  have them, the larger of the cycles of MAC array and output path;
- the cycles of the memory that takes longest, without reads of weights and scales from the memory of constants.

No other row depends on what is corrected.
Everywhere `details` and `blocks` are the rows of "perf_debug" and "perf_debug_main" for the same operator.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import ceil, prod
from typing import NamedTuple

from eqsat.vela.table import Columns, InSram
from eqsat.vela.traffic import NHWC, Cut, burst, elements_read

#: Vela's names of the elementwise operators that take two operands.
#: (s_ElementwiseMap in ethos_u55_register_cs_generator.cpp.)
_BINARY = frozenset({"Add", "Sub", "Mul", "Minimum", "Maximum", "SHL", "Asr"})
#: Vela's names of the convolutions that it cuts.
_CONVOLUTIONS = frozenset({"Conv2D", "DepthwiseConv2D"})
#: Channels of a brick.
_BRICK = 16


def correct(
    row: Columns, details: Columns, blocks: Columns, reuses: bool, constants: str, bursts: Mapping[str, int]
) -> int:
    """Returns the least cycles of a row of Vela's table "perf" by any correction.

    reuses: whether its weights are in SRAM already (`reusing`).
    constants: the memory from which weights are copied.
    bursts: {name of a memory: bytes of its longest burst}; empty if operands that broadcast need no correction.
    """
    cycles = [int(row["op_cycles"]), correct_piece(row, details, blocks)]
    if bursts:
        cycles.append(correct_broadcast(row, details, blocks, bursts))
    if reuses:
        cycles.append(correct_reuse(row, details, blocks, constants))
    return min(cycles)


# ---- operands that broadcast -------------------------------------------------------------------


def correct_broadcast(row: Columns, details: Columns, blocks: Columns, bursts: Mapping[str, int]) -> int:
    """Returns the corrected cycles of a row, its own if no operand broadcasts."""
    charged = int(row["op_cycles"])
    if row["operator"] not in _BINARY or not charged:
        return charged
    operands, result = [_Tensor.of(details, name) for name in ("ifm", "ifm2")], _Tensor.of(details, "ofm")
    broadcast = [any(n == 1 < out for n, out in zip(t.shape, result.shape)) for t in operands]
    if any(prod(t.shape) <= 1 for t in operands) or not any(broadcast):
        return charged
    cut = Cut(_shape(details, "ofm_stripe"), _shape(blocks, "ofm_block"))
    count, asked = operands[0].get_stored(result.shape), _shape(blocks, "ifm_block")
    by_vela = [prod(count) * t.bytes(asked, bursts[t.memory]) for t in operands]
    by_block = [
        min(old, _read_by_block(t, result.shape, cut, bursts[t.memory])) if is_broadcast else old
        for t, old, is_broadcast in zip(operands, by_vela, broadcast)
    ]
    cycles = [int(row["npu_cycles"])]
    for memory in bursts:
        here = [k for k, t in enumerate(operands) if t.memory == memory]
        kept = sum(by_block[k] for k in here) / sum(by_vela[k] for k in here) if here else 1.0
        read, written = (int(details.get(f"{memory}FeatureMap_{what}") or 0) for what in ("read", "write"))
        share = (kept * read + written) / max(1, read + written)
        cycles.append(int(share * int(row.get(f"{memory}_ac") or 0)))
    return min(charged, max(cycles))


class _Tensor(NamedTuple):
    """A feature map that an operator reads or writes.

    memory: the name of the memory in which it lies
    bricks: whether it is in bricks of 16 channels, not in rows
    bits  : of an element
    """

    shape: NHWC
    memory: str
    bricks: bool
    bits: int

    @staticmethod
    def of(details: Columns, name: str) -> _Tensor:
        """Returns an operand ("ifm", "ifm2") or the result ("ofm"), or the part of it that is meant."""
        part, bits = _shape(details, f"{name}_slice"), re.search(r"\d+", details[f"{name}_dtype"])
        return _Tensor(
            part if prod(part) else _shape(details, f"{name}_shape"),
            details[f"{name}_memory"],
            details[f"{name}_format"] == "NHCWB16",
            int(bits[0]) if bits else 8,
        )

    def get_stored(self, shape: NHWC) -> NHWC:
        """Returns a shape with as many channels as are stored."""
        return (*shape[:3], ceil(shape[3] / _BRICK) * _BRICK if self.bricks else shape[3])

    def bytes(self, block: NHWC, longest: int) -> float:
        """Returns the bytes that a memory moves for an element in blocks; short bursts take as long as the longest."""
        length = burst(True, not self.bricks, self.bits, block[1:], self.shape[1:])
        return self.bits / 8 * longest / min(longest, length)


def _read_by_block(t: _Tensor, result: NHWC, cut: Cut, longest: int) -> float:
    """Returns the bytes that a memory moves for an operand that broadcasts and is read once a block."""
    n, h, w, c = map(min, cut.block, t.shape)
    elements = elements_read(t.shape, result, cut) / t.shape[3] * t.get_stored(t.shape)[3]
    return elements * t.bytes((n, h, w, c), longest)


def _shape(columns: Columns, name: str) -> NHWC:
    n, h, w, c = (int(columns.get(f"{name}_{axis}") or 0) for axis in "nhwc")
    return n, h, w, c


# ---- pieces of dilated convolutions ------------------------------------------------------------


def correct_piece(row: Columns, details: Columns, blocks: Columns) -> int:
    """Returns the corrected cycles of a row, its own if it is no piece of a dilated convolution."""
    charged, share = int(row["op_cycles"]), 1.0
    if row["operator"] not in _CONVOLUTIONS:
        return charged
    for axis in "hw":
        size, stride = (int(details.get(f"ofm_{what}_{axis}") or 0) for what in ("slice", "strides"))
        if size and stride > 1:
            share *= ceil(size / stride) / size
    if share == 1.0:
        return charged
    is_waited_for = details.get("weight_buffering", "None") != "None" and not int(details.get("weight_pre_buffer") or 0)
    weights = int(details.get("weight_transfer_cycles") or 0) if is_waited_for else 0
    busy = _busy(blocks)
    first = int(row["npu_cycles"]) - weights - busy
    computed = share * busy + first if 0 <= first <= busy else 0.0
    return min(charged, int(weights + max(share * (charged - weights), computed)))


def _busy(blocks: Columns) -> int:
    """Returns the cycles in which the MAC array or the output path is busy."""
    return max(int(blocks["mac_cycles"]), int(blocks["ao_cycles"]))


# ---- weights that are in SRAM already ----------------------------------------------------------


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


def correct_reuse(row: Columns, details: Columns, blocks: Columns, constants: str) -> int:
    """Returns the corrected cycles of the row of such an operator."""
    alone = int(details.get("est_op_cycles_without_buffering") or _busy(blocks))
    waiting = int(details.get("est_op_cycles_with_buffering") or row["npu_cycles"])
    cycles = [int(row["npu_cycles"]) - waiting + alone]
    for memory in (name.removesuffix("_ac") for name in row if name.endswith("_ac")):
        copied = ("Weights", "Scales") if memory == constants else ()
        cycles.append(int(row[f"{memory}_ac"] or 0) - sum(int(details.get(f"{memory}{w}_ac") or 0) for w in copied))
    return min(int(row["op_cycles"]), max(cycles))
