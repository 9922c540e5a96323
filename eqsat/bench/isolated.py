"""Runs tasks in processes of their own, with a limit on time and memory.

Each thread keeps its process for the next task of the same function, so that imports are paid once.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from eqsat.ground.process import Limits, Process, WorkerError

#: Default limits of a task.
LIMITS = Limits(seconds=1800.0, mib=8192.0)

_local = threading.local()
_live: set[Process] = set()


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """The outcome of a task: a value or an error. lost: whether the error may not be the task's own."""

    value: Any = None
    peak_mib: float = 0.0
    error: str = ""
    lost: bool = False


def attempt(function: str, args: tuple[Any, ...], limits: Limits) -> TaskOutcome:
    """Calls `module:function` with `args` in this thread's process."""
    try:
        process = _process_for(function)
        value = process.call(function, *args, limits=limits)
        return TaskOutcome(value, round(process.peak_mib, 1))
    except WorkerError as e:
        return TaskOutcome(error=f"{e} ({e.place})" if e.place else str(e), lost=not e.refused)
    except Exception as e:  # noqa: BLE001 - whatever it is, such as no memory for a process, it is this task's loss
        return TaskOutcome(error=f"{type(e).__name__}: {e}", lost=True)


def _process_for(function: str) -> Process:
    """Returns this thread's process; another function gets a new one, without the imports and the peak of the last."""
    process: Process | None = getattr(_local, "process", None)
    if process is None or _local.function != function:
        if process is not None:
            _close(process)
        process, _local.function = Process(__name__), function
        _local.process = process
    _live.add(process)
    return process


@contextmanager
def threads(jobs: int) -> Iterator[Executor]:
    """Yields so many threads; at the end what still runs in their processes is lost, and no process is left."""
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="eqsat-bench")
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in list(_live):
            process.kill()
        pool.shutdown()
        for process in list(_live):
            _close(process)


def _close(process: Process) -> None:
    process.close()
    _live.discard(process)
