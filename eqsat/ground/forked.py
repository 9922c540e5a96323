"""Two functions at once: one runs here, the other one in a fork of this process.

A fork has only one thread, and a lock that another thread held stays held.
So the fork neither logs nor prints, and PyTorch computes in a single thread there, as in PyTorch's DataLoader.
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
from typing import Any, TypeVar

from eqsat.ground.process import cpu_seconds

_Value = TypeVar("_Value")
_Here = TypeVar("_Here")

#: Seconds between checks of the fork.
_POLL = 1.0
#: Checks in a row without any computing after which the fork counts as hung.
_IDLE_LOOKS = 30


class _ForkError(Exception):
    """A fork could not be made, died or made no progress."""


def beside(here: Callable[[], _Here], there: Callable[[], _Value]) -> tuple[_Here, _Value]:
    """Returns the values of two functions, of which the second runs in a fork of this process, if that is possible.

    Its value can be pickled; its changes stay in the fork, so its arguments need no copy.
    If the fork cannot be made, dies or makes no progress, it runs here.
    Raises whatever the functions raise.
    """
    try:
        process, connection = _forked(there)
    except _ForkError:
        return here(), there()
    try:
        value = here()
        other: _Value = _received(process.pid or 0, connection)
    except _ForkError:
        return value, there()
    finally:
        process.kill()
        process.join()
        process.close()
        connection.close()
    return value, other


def _forked(function: Callable[[], Any]) -> tuple[Any, Connection]:
    """Returns (process, connection) of a fork that runs a function.

    Raises _ForkError on systems other than Linux, and in processes that may have no children.
    """
    if sys.platform != "linux":
        raise _ForkError
    context = multiprocessing.get_context("fork")
    connection, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(function, theirs), daemon=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of threads
            process.start()
    except (OSError, AssertionError) as e:
        raise _ForkError from e
    theirs.close()
    return process, connection


def _received(pid: int, connection: Connection) -> Any:
    """Returns the value of a fork's function when it is there.

    Raises whatever the function raises, and _ForkError.
    """
    before, idle = -1.0, 0
    while not connection.poll(_POLL):
        now = cpu_seconds(pid)
        idle = idle + 1 if now == before else 0
        before = now
        if idle >= _IDLE_LOOKS:
            raise _ForkError
    try:
        value, error = connection.recv()
    except EOFError:
        raise _ForkError from None
    if error is not None:
        raise error
    return value


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
    except Exception as e:  # noqa: BLE001 - raised again in `_received`
        outcome = (None, e)
    connection.send(outcome)
