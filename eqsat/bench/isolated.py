"""A task in a process of its own, with a limit on time and memory: what happens to it happens to nobody else.

Each thread that calls keeps one such process for its next call, so that imports are paid for once.
"""

from __future__ import annotations

import threading
from typing import Any

from eqsat.ground.process import Limits, Process

#: Of one task, unless the caller gives others.
LIMITS = Limits(seconds=1800.0, mib=8192.0)

_local = threading.local()
_live: set[Process] = set()


def call(function: str, args: tuple[Any, ...], limits: Limits) -> tuple[Any, float]:
    """(value, peak MiB) of `module:function` called with `args` in this thread's process. Raises WorkerError."""
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
    """Ends every task of this process, so that the calls under way fail now."""
    for process in list(_live):
        process.kill()


def close_all() -> None:
    """Ends the processes that are kept for the next tasks; no call may be under way."""
    for process in list(_live):
        _close(process)


def _close(process: Process) -> None:
    process.close()
    _live.discard(process)
