r"""Functions called in a process of their own, so that they cannot harm the caller.

>>> with Process("example") as process:
...     process.call("math:factorial", 5), process.call("builtins:bytes", [1, 2])
(120, b'\x01\x02')

Solvers, Vela, the reference model and cells of a benchmark run in such processes.
Arguments and results are JSON values and byte strings (`_child.py`); nothing is pickled.

No library is used: multiprocessing, concurrent.futures and Pebble pickle, import the user's script again in each
worker, and do not limit memory; with Pebble 5.2 hanging native code outlives its deadline by 3 s.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ._child import pack, unpack

#: Seconds between checks of what a process uses, if that is limited.
_POLL = 0.2
#: Variables of the environment that change all the time.
_FLEETING = frozenset({"PYTEST_CURRENT_TEST"})
#: The script that a process runs.
_CHILD = Path(__file__).with_name("_child.py")


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one call.

    seconds: wall time
    mib    : MiB of resident memory of the process and all that it starts
    """

    seconds: float = math.inf
    mib: float = math.inf


class WorkerError(RuntimeError):
    """A call that failed.

    refused: the function raised and would do so again; otherwise the process died
    killed : the process was killed from outside, such as by a system without memory
    stopped: the call passed a limit
    place  : file and line of the exception, if the function raised
    """

    def __init__(
        self, message: str, refused: bool = False, killed: bool = False, stopped: bool = False, place: str = ""
    ):
        super().__init__(message)
        self.refused, self.killed, self.stopped, self.place = refused, killed, stopped, place


class _LimitPassed(Exception):
    """The limit that was passed, in words."""


def caller_environment() -> dict[str, str]:
    """Returns this process's environment, without variables that change all the time."""
    return {k: v for k, v in os.environ.items() if k not in _FLEETING}


class Process:
    """One process, started on first use and again after a failure; calls from several threads follow each other.

    name: the first argument of its command line, to recognise it in a list of processes.
    env: environment variables that differ from this process's.
    """

    def __init__(self, name: str, *, env: Mapping[str, str] | None = None) -> None:
        self.name, self.env = name, dict(env or {})
        #: MiB that the last call used at most, if its memory was limited; checked every 0.2 s.
        self.peak_mib = 0.0
        #: Environment of the caller when the process was started.
        self.environment: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = False
        self._lock = threading.RLock()

    @property
    def runs(self) -> bool:
        """Whether the process has been started, and has neither ended nor been ended for good."""
        return self._process is not None and not self._ended and self._process.poll() is None

    def resident_mib(self) -> float:
        """Returns the MiB of resident memory of the process and all that it started, 0 if it does not run."""
        return _resident_mib(self._process.pid) if self._process is not None else 0.0

    def start(self) -> subprocess.Popen[bytes]:
        """Returns the process, started unless it runs. Raises OSError, and WorkerError if it was ended."""
        if not self._ended and not self.runs:
            self.close()
            self.environment = caller_environment()
            path = [str(_CHILD.parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(_CHILD), self.name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C reaches the caller only, which then decides
                env={**self.environment, "PYTHONPATH": os.pathsep.join(path), **self.env},
            )
            assert self._process.stdin
            os.set_blocking(self._process.stdin.fileno(), False)
        if self._ended:
            self.kill()
            raise WorkerError("the process was ended", killed=True)
        assert self._process
        return self._process

    def call(
        self,
        function: str | Callable[..., Any],
        *args: Any,
        limits: Limits = Limits(),  # noqa: B008 - frozen
    ) -> Any:
        """Calls a function and returns its result.

        function: "module:name", or a function that can be named so.
        Raises WorkerError, OSError, and TypeError for arguments that cannot be sent.
        """
        name = function if isinstance(function, str) else f"{function.__module__}:{function.__qualname__}"
        what = name.partition(":")[2]
        request = pack({"function": name, "args": args})
        with self._lock:
            process = self.start()
            watch = _CallPipes(process, limits)
            try:
                watch.write(request)
                answer = unpack(watch.read)
            except _LimitPassed as e:
                self.close()
                raise WorkerError(f"{what} was stopped at the {e}", stopped=True) from None
            except (OSError, EOFError, struct.error):
                code = process.wait()
                self.close()
                how = f"signal {-code}" if code < 0 else f"exit code {code}"
                raise WorkerError(f"the worker died in {what} ({how})", killed=code == -signal.SIGKILL) from None
            except BaseException:
                self.close()  # an interrupted exchange leaves the pipes out of step
                raise
            finally:
                self.peak_mib = watch.peak_mib
        if "error" in answer:
            raise WorkerError(answer["error"], refused=True, place=answer["place"])
        return answer["value"]

    def kill(self) -> None:
        """Ends the process and all that it started in its session; a call under way in another thread fails then."""
        if (process := self._process) is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)

    def end(self) -> None:
        """Ends the process for good; a call under way or about to begin in another thread fails then."""
        self._ended = True
        self.kill()

    def close(self) -> None:
        """Ends the process and a call under way in another thread; the next call starts another process."""
        self.kill()
        with self._lock:
            process = self._process
            if process is not None:
                process.wait()
                assert process.stdin and process.stdout
                with contextlib.suppress(OSError):
                    process.stdin.close()
                process.stdout.close()
                self._process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class _CallPipes:
    """The pipes of a process during one call; methods raise _LimitPassed, and EOFError if the process is gone."""

    def __init__(self, process: subprocess.Popen[bytes], limits: Limits):
        assert process.stdin and process.stdout
        self._pid, self._in, self._out = process.pid, process.stdin.fileno(), process.stdout.fileno()
        self._limits, self._end = limits, time.monotonic() + limits.seconds
        self._polls, self._look = limits.mib < math.inf, time.monotonic()
        self.peak_mib = 0.0

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            self._wait([], [self._in])
            rest = rest[os.write(self._in, rest) :]

    def read(self, n: int) -> bytes:
        out = bytearray()
        while len(out) < n:
            self._wait([self._out], [])
            piece = os.read(self._out, min(n - len(out), 1 << 20))
            if not piece:
                raise EOFError
            out += piece
        return bytes(out)

    def _wait(self, reads: list[int], writes: list[int]) -> None:
        """Waits until one of the pipes is ready."""
        while True:
            self._check()
            left = self._end - time.monotonic()
            timeout = min(left, _POLL) if self._polls else left
            if any(select.select(reads, writes, [], None if timeout == math.inf else max(0.0, timeout))):
                return

    def _check(self) -> None:
        now = time.monotonic()
        if now > self._end:
            raise _LimitPassed(f"time limit of {self._limits.seconds:.3g} s")
        if not self._polls or now < self._look:
            return
        self._look = now + _POLL
        self.peak_mib = max(self.peak_mib, _resident_mib(self._pid))
        if not self.peak_mib:  # it is only starting
            self._look = now
        if self.peak_mib > self._limits.mib:
            raise _LimitPassed(f"memory limit: {self.peak_mib:.0f} MiB of {self._limits.mib:.0f}")


def _resident_mib(pid: int) -> float:
    import psutil

    total = 0
    with contextlib.suppress(psutil.Error):
        parent = psutil.Process(pid)
        for p in [parent, *parent.children(recursive=True)]:
            with contextlib.suppress(psutil.Error):
                total += p.memory_info().rss
    return total / 2**20
