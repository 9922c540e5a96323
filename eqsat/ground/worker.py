"""Worker processes for Vela and the TOSA reference model, whose native code can crash, leak or hang.

Every failure is a `WorkerError`; `eqsat/ground/process.py` has the protocol.
Vela leaks about 9 kB for each compile, so a worker that has grown is replaced between pools.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from typing import Any, TypeVar

from eqsat.ground.process import Limits, Process, WorkerError, caller_environment

_Value = TypeVar("_Value")

#: Environment of workers. With an empty search path the reference model finds no gdb, which it would start for a
#: backtrace at every refusal (over 1 s each).
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PATH": os.devnull}
#: Calls that run beside the caller, at most; most of the time they wait for processes.
_BESIDE = 8
#: Idle workers that are kept for later pools, at most.
_MOST_SPARE = 4
#: MiB of resident memory above which an idle worker is ended; Vela and the reference model take about 150.
_SPARE_MIB = 512
#: Seconds in which a worker must free what it remembers, and import modules.
_FORGETTING, _IMPORTING = 10.0, 60.0


class Worker(Process):
    """One worker process."""

    def __init__(self) -> None:
        super().__init__(__name__, env=_ENVIRONMENT)


def import_modules(*modules: str) -> None:
    """Imports modules by their names; called in a worker."""
    for name in modules:
        importlib.import_module(name)


class _Spare:
    """Idle workers of pools that were closed, so that a process imports Vela once and not for each search.

    They end with this process, or if its environment has changed; a fork of it starts workers of its own.
    """

    def __init__(self) -> None:
        self._workers: list[Worker] = []

    def take(self) -> Worker:
        while self._workers:
            worker = self._workers.pop()
            if worker.environment == caller_environment():
                return worker
            worker.close()
        return Worker()

    def give(self, worker: Worker) -> None:
        """Keeps an idle worker, unless there are enough of them or its memory has grown."""
        if worker.runs and len(self._workers) < _MOST_SPARE and worker.resident_mib() < _SPARE_MIB:
            self._workers.append(worker)
        else:
            worker.close()

    def begin(self, number: int, modules: Sequence[str]) -> None:
        """Starts workers until `number` are kept; all import modules, one after the other, while the caller goes on."""
        while len(self._workers) < number:
            self._workers.append(Worker())
            self._workers[-1].start()
        threading.Thread(target=self._import, args=(list(self._workers), modules), daemon=True).start()

    def _import(self, workers: Iterable[Worker], modules: Sequence[str]) -> None:
        for w in workers:
            if w in self._workers:  # a taken one imports what it needs, and a closed one must not start again
                with contextlib.suppress(WorkerError, OSError):  # a pool that meets this again raises it
                    w.call(import_modules, *modules, limits=Limits(_IMPORTING))

    def forget(self) -> None:
        """Drops all workers without ending them."""
        self._workers = []

    def close(self) -> None:
        """Ends all workers."""
        while self._workers:
            self._workers.pop().close()


_SPARE = _Spare()


def begin_workers(modules: Sequence[str]) -> None:
    """Starts the workers of the next pool and a reserved one, which import modules meanwhile. Raises OSError."""
    _SPARE.begin(_size() + 1, modules)


def _size() -> int:
    return max(1, min(os.cpu_count() or 1, 4))


atexit.register(_SPARE.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_SPARE.forget)


class PooledWorker:
    """A worker of a pool, which is kept for later pools if it is idle when the pool is closed.

    forget: called in it then, to free what its functions remember between calls.
    """

    def __init__(self, forget: Callable[[], None] | None = None) -> None:
        self._worker, self._forget = _SPARE.take(), forget
        self._lock, self._closed = threading.Lock(), False

    def call(self, function: Callable[..., Any], *args: Any, limits: Limits) -> Any:
        """Calls a function, after the calls of other threads, once more if it was killed; see `Process.call`."""
        try:
            return self._call(function, *args, limits=limits)
        except WorkerError as e:
            if not e.killed:
                raise
            return self._call(function, *args, limits=limits)

    def _call(self, function: Callable[..., Any], *args: Any, limits: Limits) -> Any:
        with self._lock:
            if self._closed:
                raise WorkerError("the workers are gone")
            return self._worker.call(function, *args, limits=limits)

    def close(self) -> None:
        """Ends a call under way with the worker, or keeps the idle worker for later pools."""
        self._closed = True
        if not self._lock.acquire(blocking=False):
            self._worker.end()
            self._lock.acquire()
        if self._forget and self._worker.runs:
            with contextlib.suppress(WorkerError):
                self._worker.call(self._forget, limits=Limits(_FORGETTING))
        _SPARE.give(self._worker)
        self._lock.release()


class Pool:
    """A fixed number of workers behind threads, as a context manager; the next pool has the same workers."""

    def __init__(self, size: int | None = None):
        self.size = size or _size()
        self._idle: queue.SimpleQueue[PooledWorker] = queue.SimpleQueue()
        self._all = [PooledWorker() for _ in range(self.size)]
        self._reserved: list[PooledWorker] = []
        for w in self._all:
            self._idle.put(w)
        self._threads = ThreadPoolExecutor(self.size, thread_name_prefix="eqsat-worker")
        self._beside = ThreadPoolExecutor(_BESIDE, thread_name_prefix="eqsat-beside")
        self._check: Callable[[], None] = lambda: None

    def call(self, function: Callable[..., Any], *args: Any, limits: Limits) -> Any:
        """Calls a function in a free worker, like `Process.call`. Raises what the check of `with_check` raises, too."""
        self._check()
        worker = self._idle.get()
        try:
            return worker.call(function, *args, limits=limits)
        finally:
            self._idle.put(worker)

    def reserve(self, forget: Callable[[], None]) -> PooledWorker:
        """Returns one more worker, for one purpose."""
        self._reserved.append(PooledWorker(forget))
        return self._reserved[-1]

    def map(self, fn: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        """Returns `fn` of all `items`, at most `size` at a time; exceptions propagate."""
        return list(self._threads.map(fn, items))

    def with_check(self, check: Callable[[], None]) -> Pool:
        """Returns this pool for a caller whose calls are checked: what `check` raises takes the place of a call."""
        pool = copy(self)
        pool._check = check
        return pool

    def start(self, fn: Callable[..., _Value], *args: Any) -> Future[_Value]:
        """Calls `fn` in a thread of its own, while the caller does something else."""
        return self._beside.submit(fn, *args)

    def close(self) -> None:
        """Ends everything at once, calls under way included; idle workers are kept for later pools."""
        for threads in (self._beside, self._threads):
            threads.shutdown(wait=False, cancel_futures=True)
        for worker in (*self._reserved, *self._all):
            worker.close()
        for threads in (self._beside, self._threads):
            threads.shutdown()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
