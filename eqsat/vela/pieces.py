"""Corrected cycles of the pieces of a dilated convolution.

The hardware dilates a kernel by 2 at most.
If a convolution is dilated by d >= 3 along an axis, Vela cuts it into d pieces along that axis.
Piece k computes every d-th element from k on, of every d-th element of the input.
(HandleDilation in scheduler_decompose.cpp.)
Vela estimates each piece as if it computed all elements from k on.
So d * d pieces are charged like as many whole convolutions.

The corrected cycles of a piece are the sum of
- the cycles in which it waits for its weights;
- its share of the cycles of MAC array and output path ("mac_cycles", "ao_cycles");
- the cycles until the first block has come through them.

Instead of the last two, its share of all cycles after the weights counts if that is larger.
This share alone counts if the piece waits for memory most of the time.

72 convolutions were tried on three targets, with pieces of 2 x 2 to 11 x 11 elements.
66 of them are then at .5 to 2 times the price of their commands, and all at .1 to 3.
By Vela's own total they are at 2 to 69 times that price.
"""

from __future__ import annotations

from math import ceil

from eqsat.vela.table import Columns

#: Vela's names of the convolutions that it cuts.
_CONVOLUTIONS = frozenset({"Conv2D", "DepthwiseConv2D"})


def corrected_piece(row: Columns, details: Columns, blocks: Columns) -> int:
    """Returns the corrected cycles of a row of Vela's table "perf".

    If it is no piece of a dilated convolution, they are the row's own.
    details, blocks: the rows of "perf_debug" and "perf_debug_main" for the same operator.
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
