"""How a caller ends extractions early, wherever they are under way: with the best choice so far.

    with stopping(event.is_set):
        found = extract(graph)

A context and no argument, so that extractors of others, which know nothing of it, are extractors still; those that are
built on ours end as ours do. It counts for what this thread does. Processes of solvers are ended from here (`race`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_asked: ContextVar[Callable[[], bool]] = ContextVar("asked", default=lambda: False)


@contextmanager
def stopping(asked: Callable[[], bool]) -> Iterator[None]:
    """Within it extractions end, as if their time were up, once `asked()` is true. It is called often."""
    token = _asked.set(asked)
    try:
        yield
    finally:
        _asked.reset(token)


def stop_asked() -> bool:
    """Whether the caller wants no more."""
    return _asked.get()()


def clock() -> float:
    """Seconds for which this thread has computed: what limits searches within it, so that on a busy machine they take
    longer and find the same."""
    return time.thread_time()


def is_over(deadline: float) -> bool:
    """Whether `deadline`, on `clock`, has passed or the caller wants no more."""
    return clock() > deadline or stop_asked()
