"""How somebody else, such as a signal handler or another thread, ends a search."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class SearchInterrupted(Exception):
    """The search was asked to end."""


class Interruption:
    """Ends searches, with the best that they have found so far. Plain flags: a handler that waits for a lock, as an
    Event's, waits for ever where it has interrupted the thread that holds it.

    >>> interruption = Interruption()
    >>> interruption.ask()  # nothing is under way
    False
    >>> with interruption.heeded():
    ...     interruption.ask()
    True
    """

    __slots__ = ("_asked", "_heeded")

    def __init__(self) -> None:
        self._heeded = self._asked = False

    def ask(self) -> bool:
        """Ends the search that is under way, and those that come. False where none is and none was ended before: then
        nothing happens."""
        self._asked = self._asked or self._heeded
        return self._asked

    def asked(self) -> bool:
        """Whether searches are to end."""
        return self._asked

    def check(self) -> None:
        """Raises SearchInterrupted if searches are to end."""
        if self._asked:
            raise SearchInterrupted

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """Within it a search is under way."""
        self._heeded = True
        try:
            yield
        finally:
            self._heeded = False
