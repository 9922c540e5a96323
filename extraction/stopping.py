"""How a caller ends extractions early, wherever they are under way, with the best choice so far.

    with stopping(event.is_set):
        found = extract(graph)

It is a context and not an argument, so that extractors of other packages need not know of it.
Extractors built on these modules end early, too.
It applies to extractions in this thread.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType

#: Seconds between checks of whether the caller wants an end, while a solver is at work.
POLL = 0.1

_asked: ContextVar[Callable[[], bool]] = ContextVar("asked", default=lambda: False)


@contextmanager
def stopping(asked: Callable[[], bool]) -> Iterator[None]:
    """Within it extractions end, as if their time were up, once `asked()`, which is called often, is true."""
    token = _asked.set(asked)
    try:
        yield
    finally:
        _asked.reset(token)


@contextmanager
def stopping_on_interrupt() -> Iterator[Callable[[], bool]]:
    """Within it extractions also end after a SIGINT whose KeyboardInterrupt was lost.

    Python loses an exception in a finalizer or in a callback of a weak reference; importing runs such callbacks.
    Yields whether there was such an interrupt; never in other threads than the main one.
    """
    handler, asked, interrupted = signal.getsignal(signal.SIGINT), _asked.get(), False
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield lambda: False
        return

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        try:
            handler(number, frame)
        except KeyboardInterrupt:
            interrupted = True
            raise

    signal.signal(signal.SIGINT, handle)
    try:
        with stopping(lambda: interrupted or asked()):
            yield lambda: interrupted
    finally:
        signal.signal(signal.SIGINT, handler)


def stop_asked() -> bool:
    """Whether the caller wants the extraction to end now."""
    return _asked.get()()


def clock() -> float:
    """Returns the seconds for which this thread has computed.

    Searches in this thread are limited by it, so that on a busy machine they take longer and find the same.
    """
    return time.thread_time()


def is_over(deadline: float) -> bool:
    """Whether `deadline`, on `clock`, has passed or the caller wants the extraction to end now."""
    return clock() > deadline or stop_asked()
