"""The request to end a search early, made by a signal handler or another thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class SearchInterrupted(Exception):
    """The search was asked to end."""


class Interruption:
    """Ends searches, with the best results that they have so far.

    The flags are plain ones: a signal handler must not wait for a lock, as that of an Event.
    It would wait for ever if it had interrupted the thread that holds the lock.

    >>> interruption = Interruption()
    >>> interruption.ask()  # nothing is under way
    False
    >>> with interruption.active():
    ...     interruption.ask()
    True
    """

    __slots__ = ("_active", "_asked")

    def __init__(self) -> None:
        self._active = self._asked = False

    def ask(self) -> bool:
        """Ends the search that is under way, and all later ones.

        Returns False, and does nothing, if none is under way and none was ended before.
        """
        self._asked = self._asked or self._active
        return self._asked

    def asked(self) -> bool:
        """Whether searches are to end."""
        return self._asked

    def check(self) -> None:
        """Raises SearchInterrupted if searches are to end."""
        if self._asked:
            raise SearchInterrupted

    @contextmanager
    def active(self) -> Iterator[None]:
        """While it is open, `ask` ends the search that is under way."""
        self._active = True
        try:
            yield
        finally:
            self._active = False
