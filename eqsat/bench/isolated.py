"""Runs a task in a process of its own, with a limit on time and memory.

What happens to it does not affect other tasks.
Each thread keeps one such process for its next call, so that imports are paid once.
"""

from __future__ import annotations

import threading
from typing import Any

from eqsat.ground.process import Limits, Process

#: Default limits of a task.
LIMITS = Limits(seconds=1800.0, mib=8192.0)

_local = threading.local()
_live: set[Process] = set()


def call(function: str, args: tuple[Any, ...], limits: Limits) -> tuple[Any, float]:
    """Calls `module:function` with `args` in this thread's process.

    Returns (value, peak MiB).
    Raises WorkerError.
    """
    process: Process | None = getattr(_local, "process", None)
    if process is None or _local.function != function:
        if process is not None:  # another function would inherit the imports, and the peak, of the last
            _close(process)
        process = _local.process = Process(__name__)
        _local.function = function
    _live.add(process)
    value = process.call(function, *args, limits=limits)
    return value, process.peak_mib


def kill_all() -> None:
    """Kills every task's process, so that current calls fail at once."""
    for process in list(_live):
        process.kill()


def close_all() -> None:
    """Closes the processes that are kept for later tasks; no call may be under way."""
    for process in list(_live):
        _close(process)


def _close(process: Process) -> None:
    process.close()
    _live.discard(process)
