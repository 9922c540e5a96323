"""Corrected cycles of the pieces of a dilated convolution.

The hardware dilates a kernel by 2 at most.
Vela cuts a convolution that is dilated by d, 3 or more, along each such axis into d pieces: piece k computes every d-th element from k on, of every d-th
element of the input (HandleDilation in scheduler_decompose.cpp).
It estimates each of them as if it computed all elements from k on: d * d pieces are charged as as many whole convolutions.

The corrected cycles of a piece are its share of that, and those in which it waits for its weights.
What a short command waits for at its start is not in them: by the price of the commands, pieces of 8 x 8 elements take .7 to 1.4 of what is corrected,
and the smaller they are the more, pieces of 2 x 2 nine times as much.
Vela's own total charges dilations by 3, 4 and 8 some 7, 13 and 45 times too much.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

_CONVOLUTIONS = frozenset({"Conv2D", "DepthwiseConv2D"})
_Columns = Mapping[str, str]


def corrected_piece(row: _Columns, details: _Columns) -> int:
    """Cycles of a row of Vela's table "perf", with what "perf_debug" tells of the same operator.

    Those of the row itself where it is no piece of a dilated convolution.
    """
    charged, share = int(row["op_cycles"]), 1.0
    if row["operator"] not in _CONVOLUTIONS:
        return charged
    for axis in "hw":
        size, stride = (int(details.get(f"ofm_{what}_{axis}") or 0) for what in ("slice", "strides"))
        if size and stride > 1:
            share *= ceil(size / stride) / size
    is_waited_for = details.get("weight_buffering", "None") != "None" and not int(details.get("weight_pre_buffer") or 0)
    weights = int(details.get("weight_transfer_cycles") or 0) if is_waited_for else 0
    return min(charged, int(weights + share * (charged - weights))) if share < 1 else charged
