"""How a caller ends extractions early, wherever they are under way, with the best choice so far.

    with stopping(event.is_set):
        found = extract(graph)

It is a context and not an argument, so that extractors of other packages need not know of it.
Extractors built on these modules end early, too.
It applies to extractions in this thread; solver processes are ended from here (`solver_process`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Seconds between checks of whether the caller wants an end, while a solver is at work.
POLL = 0.1

_asked: ContextVar[Callable[[], bool]] = ContextVar("asked", default=lambda: False)


@contextmanager
def stopping(asked: Callable[[], bool]) -> Iterator[None]:
    """Within it extractions end, as if their time were up, once `asked()` is true.

    `asked` is called often.
    """
    token = _asked.set(asked)
    try:
        yield
    finally:
        _asked.reset(token)


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
