"""Garbage collection for processes that hold many objects which are no garbage, such as all of PyTorch."""

from __future__ import annotations

import gc

#: Objects allocated between two collections; with Python's 700 the peak of memory of a lowering is the same.
_OBJECTS_BETWEEN_COLLECTIONS = 50_000


def collect_rarely() -> tuple[int, int, int]:
    """Makes the collector, unless it is disabled, run rarely; returns the former thresholds."""
    before = gc.get_threshold()
    if before[0]:  # 0: collection is disabled
        gc.set_threshold(max(before[0], _OBJECTS_BETWEEN_COLLECTIONS), *before[1:])
    return before
