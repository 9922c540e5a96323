"""A task in a process of its own, with a limit on time and memory: what happens to it happens to nobody else.

Each thread that calls keeps one such process for its next call, so that imports are paid for once. The process and what it
started is killed when a limit is passed, and ends by itself when the caller is gone.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import select
import struct
import subprocess
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from typing import Any

import psutil

_STACK = 512 << 20
_POLL = 0.2


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one task: wall seconds, and MiB of resident memory of its process and all that it starts."""

    seconds: float = 1800.0
    mib: float = 8192.0


class TaskFailed(RuntimeError):
    """The task raised; it would again."""


class TaskLost(RuntimeError):
    """The task's process was killed or passed a limit; another time it may go well."""


_local = threading.local()
_live: set[subprocess.Popen] = set()


def call(function: str, args: tuple, limits: Limits) -> tuple[Any, float]:
    """(value, peak MiB) of `module:function` called with `args` in this thread's process. Raises TaskFailed or TaskLost."""
    process = getattr(_local, "process", None)
    if process is not None and (_local.function != function or process.poll() is not None):
        _kill(process)  # another function would inherit the imports, and the peak, of the last
        process = None
    if process is None:
        process = _local.process = _start()
        _local.function = function
    try:
        payload = pickle.dumps((function, args))
        process.stdin.write(struct.pack("<Q", len(payload)) + payload)
        process.stdin.flush()
        kind, value, peak = _answer(process, limits)
    except BaseException as e:
        _kill(process)
        _local.process = None
        if isinstance(e, (OSError, EOFError)):
            code = process.returncode
            raise TaskLost(
                f"the process of this cell {f'was killed by signal {-code}' if code < 0 else f'ended with exit code {code}'}"
            ) from None
        raise
    if kind == "failed":
        raise TaskFailed(value)
    return value, peak


def stop_all() -> None:
    """Kills every task of this process and the processes kept for the next ones."""
    for process in list(_live):
        _kill(process)


def _start() -> subprocess.Popen:
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    # a session of its own: Ctrl-C reaches the caller only, which then decides
    process = subprocess.Popen(
        [sys.executable, "-m", "eqsat.bench.isolated"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    _live.add(process)
    return process


def _answer(process: subprocess.Popen, limits: Limits) -> tuple[str, Any, float]:
    fd, data, size, peak = process.stdout.fileno(), bytearray(), None, 0.0
    end = time.monotonic() + limits.seconds
    while size is None or len(data) < size:
        if select.select([fd], [], [], _POLL)[0]:
            piece = os.read(fd, 1 << 20)
            if not piece:
                process.wait()
                raise EOFError
            data += piece
            if size is None and len(data) >= 8:
                size = struct.unpack("<Q", data[:8])[0] + 8
        peak = max(peak, _resident_mib(process.pid))
        if peak > limits.mib:
            raise TaskLost(f"stopped at the memory limit: {peak:.0f} MiB of {limits.mib:.0f}")
        if time.monotonic() > end:
            raise TaskLost(f"stopped at the time limit of {limits.seconds:.0f} s")
    return (*pickle.loads(data[8:]), peak)


def _tree(pid: int) -> list[psutil.Process]:
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.Error:
        return []


def _resident_mib(pid: int) -> float:
    total = 0
    for p in _tree(pid):
        with contextlib.suppress(psutil.Error):
            total += p.memory_info().rss
    return total / 2**20


def _kill(process: subprocess.Popen) -> None:
    for p in _tree(process.pid):
        with contextlib.suppress(psutil.Error):
            p.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):
            stream.close()
    _live.discard(process)


# ---- the process's side ---------------------------------------------------------------------------


def _serve(read, sink) -> None:
    while True:
        function, args = pickle.loads(read())
        try:
            module, _, name = function.partition(":")
            answer = "done", getattr(importlib.import_module(module), name)(*args)
        except Exception as e:  # noqa: BLE001 - a failed cell is a row with its error
            place = traceback.extract_tb(e.__traceback__)[-1]
            answer = (
                "failed",
                f"{type(e).__name__}: {' '.join(str(e).split())[:600]} ({os.path.basename(place.filename)}:{place.lineno})",
            )
        payload = pickle.dumps(answer)
        sink.write(struct.pack("<Q", len(payload)) + payload)
        sink.flush()


def _main() -> None:
    import queue

    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)  # Vela and ExecuTorch print; the pipe is ours alone
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.stack_size(_STACK)  # Vela recurses deeply
    threading.Thread(target=_serve, args=(requests.get, sink), daemon=True).start()
    while header := source.read(8):
        requests.put(source.read(struct.unpack("<Q", header)[0]))
    for p in psutil.Process().children(recursive=True):  # the caller is gone
        with contextlib.suppress(psutil.Error):
            p.kill()
    os._exit(0)


if __name__ == "__main__":
    _main()
