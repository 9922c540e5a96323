"""A function that runs in a fork of this process, while this one goes on.

>>> with Forked(lambda: 6 * 7) as forked:
...     forked.result()
42

The function's changes stay in the fork, so its arguments need no copy.
A fork has only one thread, and a lock that another thread held stays held.
So the fork neither logs nor prints, and PyTorch computes in a single thread there.
The workers of PyTorch's DataLoader do so, too.
If the fork dies or makes no progress, the caller gets an error.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

from eqsat.ground.process import cpu_seconds

_Value = TypeVar("_Value")
_Here = TypeVar("_Here")

#: Seconds between checks of the fork.
_POLL = 1.0
#: Checks in a row without any computing after which the fork counts as hung.
_IDLE_LOOKS = 30


class ForkError(RuntimeError):
    """A fork could not be made, died or made no progress; the message says which."""


class Forked(Generic[_Value]):
    """A running `function`, whose value can be pickled.

    Raises ForkError if processes cannot be forked.
    That is so on systems other than Linux, and in processes that may have no children.
    """

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
        """Returns the function's value, and blocks until it is there.

        Raises whatever the function raises, and ForkError.
        """
        before, idle = -1.0, 0
        while not self._connection.poll(_POLL):
            now = cpu_seconds(self._process.pid or 0)
            idle = idle + 1 if now == before else 0
            before = now
            if idle >= _IDLE_LOOKS:
                raise ForkError("the copy of this process stands still")
        value: _Value
        try:
            value, error = self._connection.recv()
        except EOFError:
            self._process.join()
            raise ForkError(f"the copy of this process died with exit code {self._process.exitcode}") from None
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        """Ends the fork."""
        self._process.kill()
        self._process.join()
        self._process.close()
        self._connection.close()

    def __enter__(self) -> Forked[_Value]:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def beside(here: Callable[[], _Here], there: Callable[[], _Value]) -> tuple[_Here, _Value]:
    """Returns the values of two functions; the second one runs in a fork if that is possible.

    Raises whatever the functions raise.
    """
    try:
        forked = Forked(there)
    except ForkError:
        return here(), there()
    with forked:
        value = here()
        with suppress(ForkError):
            return value, forked.result()
    return value, there()


def _run(function: Callable[[], Any], connection: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the caller's
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    sys.stdout = sys.stderr = nowhere = open(os.devnull, "w")  # noqa: SIM115 - open until the end
    for stream in (1, 2):
        os.dup2(nowhere.fileno(), stream)  # native code prints there
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)
    try:
        outcome: tuple[Any, BaseException | None] = (function(), None)
    except Exception as e:  # noqa: BLE001 - raised again in `result`
        outcome = (None, e)
    connection.send(outcome)
