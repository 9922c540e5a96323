"""Corrected cycles of the pieces of a dilated convolution.

The hardware dilates a kernel by 2 at most.
Vela cuts a convolution that is dilated by d, 3 or more, along each such axis into d pieces: piece k computes every d-th
element from k on, of every d-th element of the input (HandleDilation in scheduler_decompose.cpp).
It estimates each of them as if it computed all elements from k on: d * d pieces are charged as as many whole
convolutions.

The corrected cycles of a piece are those in which it waits for its weights, its share of those in which the MAC array
and the output path compute ("mac_cycles", "ao_cycles"), and those until the first block has come through them; where it
waits for memory most of the time, its share of all.
Of 72 convolutions on three targets, with pieces of 2 x 2 to 11 x 11 elements, 66 are then at .5 to 2 times the price of
their commands, and all at .1 to 3; by Vela's own total they are at 2 to 69 times that price.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

_CONVOLUTIONS = frozenset({"Conv2D", "DepthwiseConv2D"})
_Columns = Mapping[str, str]


def corrected_piece(row: _Columns, details: _Columns, blocks: _Columns) -> int:
    """Cycles of a row of Vela's table "perf", with what "perf_debug" and "perf_debug_main" tell of the same operator.

    Those of the row itself where it is no piece of a dilated convolution.
    """
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
    busy = max(int(blocks["mac_cycles"]), int(blocks["ao_cycles"]))
    first = int(row["npu_cycles"]) - weights - busy
    computed = share * busy + first if 0 <= first <= busy else 0.0
    return min(charged, int(weights + max(share * (charged - weights), computed)))
