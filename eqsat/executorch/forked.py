"""A function that runs in a copy of this process (a fork), while this one goes on.

>>> with Forked(lambda: 6 * 7) as forked:
...     forked.result()
42

What the function changes stays in the copy, so that nothing needs to be copied for it. A fork has only one thread, and
a lock that another thread held stays held: the copy neither logs nor prints, and PyTorch computes in its only thread,
as in the workers of PyTorch's DataLoader.
Where the copy dies or stands still the caller is told.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

import torch

from eqsat.ground.process import cpu_seconds

_Value = TypeVar("_Value")

#: Seconds between looks at a copy, and how many of them in a row without any computing mean that it stands still.
_POLL, _IDLE_LOOKS = 1.0, 30


class ForkError(RuntimeError):
    """A fork could not be made, died or stands still; the message says which."""


class Forked(Generic[_Value]):
    """`function`, whose value can be pickled, under way. Raises ForkError where processes cannot be forked: on systems
    other than Linux, and in processes that may have no children."""

    def __init__(self, function: Callable[[], _Value]) -> None:
        if sys.platform != "linux":
            raise ForkError(f"no forks on {sys.platform}")
        context = multiprocessing.get_context("fork")
        self._connection, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_run, args=(function, theirs), daemon=True)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of threads
                self._process.start()
        except (OSError, AssertionError) as e:
            raise ForkError(str(e)) from e
        theirs.close()

    def result(self) -> _Value:
        """Waits for it. Raises what the function raises, and ForkError."""
        before, idle = -1.0, 0
        while not self._connection.poll(_POLL):
            now = cpu_seconds(self._process.pid or 0)
            idle = idle + 1 if now == before else 0
            before = now
            if idle >= _IDLE_LOOKS:
                raise ForkError("the copy of this process stands still")
        try:
            value, error = self._connection.recv()
        except EOFError:
            self._process.join()
            raise ForkError(f"the copy of this process died with exit code {self._process.exitcode}") from None
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        """Ends it."""
        self._process.kill()
        self._process.join()
        self._process.close()
        self._connection.close()

    def __enter__(self) -> Forked[_Value]:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _run(function: Callable[[], Any], connection: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the caller's
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    sys.stdout = sys.stderr = nowhere = open(os.devnull, "w")  # noqa: SIM115 - for as long as the copy lives
    for stream in (1, 2):
        os.dup2(nowhere.fileno(), stream)  # of native code
    torch.set_num_threads(1)
    try:
        outcome: tuple[Any, BaseException | None] = (function(), None)
    except Exception as e:  # noqa: BLE001 - raised again where the result is asked for
        outcome = (None, e)
    connection.send(outcome)


__all__ = ["ForkError", "Forked"]
