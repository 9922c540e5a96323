"""Worker processes for Vela and the TOSA reference model: native code, which can crash, leak or hang there without hurting the caller.

Every failure is a `WorkerError`. The protocol is that of `extraction/process.py`. Vela leaks about 9 kB for each compile, so a worker
is replaced after some thousands; its recursion overflows a stack of 8 MB on deep graphs, so a worker has a large one.
"""

from __future__ import annotations

import os
import queue
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from extraction.process import Limits, Process, WorkerError, cpu_seconds

__all__ = ["Limits", "Pool", "Process", "Worker", "WorkerError", "cpu_seconds"]

_Value = TypeVar("_Value")

_RECYCLE = 4000
#: With an empty search path the reference model finds no gdb, which it would start for a backtrace at every refusal (over 1 s each).
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PATH": os.devnull}


class Worker(Process):
    """One worker process."""

    def __init__(self, recycle: int = _RECYCLE) -> None:
        super().__init__(__name__, recycle=recycle, env=_ENVIRONMENT)


class Pool:
    """A fixed number of workers behind threads; use as a context manager. A call whose worker was killed is made once more."""

    def __init__(self, size: int | None = None):
        self.size = size or max(1, min(os.cpu_count() or 1, 4))
        self._idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        self._all = [Worker() for _ in range(self.size)]
        for w in self._all:
            self._idle.put(w)
        self._threads = ThreadPoolExecutor(self.size, thread_name_prefix="eqsat-worker")
        self._closed = False
        self._check: Callable[[], None] = lambda: None

    def call(self, function: Callable[..., Any], *args: Any, limits: Limits) -> Any:
        """As `Process.call`, in whichever worker is free. Raises WorkerError, and what `checking` says."""
        self._check()
        worker = self._idle.get()
        try:
            return self._ask(worker, function, args, limits)
        except WorkerError as e:
            if not e.killed:
                raise
            return self._ask(worker, function, args, limits)
        finally:
            self._idle.put(worker)

    def _ask(self, worker: Worker, function: Callable[..., Any], args: tuple[Any, ...], limits: Limits) -> Any:
        if self._closed:
            raise WorkerError("the workers are gone")
        return worker.call(function, *args, limits=limits)

    def map(self, fn: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """`fn` over `items`, at most `size` at a time; exceptions propagate."""
        return list(self._threads.map(fn, items))

    @contextmanager
    def checking(self, check: Callable[[], None]) -> Iterator[None]:
        """Within it `check` runs before each call, from whichever thread; what it raises is raised in place of the call."""
        self._check = check
        try:
            yield
        finally:
            self._check = lambda: None

    def start(self, fn: Callable[..., _Value], *args: Any) -> Future[_Value]:
        """`fn` of the arguments in a thread, while the caller does something else."""
        return self._threads.submit(fn, *args)

    def close(self) -> None:
        """Ends everything at once, calls under way included."""
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        for w in self._all:
            w.kill()
        self._threads.shutdown()
        for w in self._all:
            w.close()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
