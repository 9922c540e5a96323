"""Writes text to a terminal without control characters, which file names may contain."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

#: Python's escape sequences of control characters, except for newline and tab.
_SPELLED = {n: f"\\x{n:02x}" for n in (*range(32), *range(127, 160)) if chr(n) not in "\n\t"}


def visible(text: str) -> str:
    """Returns the text with control characters replaced by escape sequences.

    >>> print(visible("a" + chr(27) + "[31mred").replace(chr(92), "/"))
    a/x1b[31mred
    """
    return text.translate(_SPELLED)


class TextConsole(Console):
    """A console that prints control characters as escape sequences; only its own styles have colours.

    It breaks lines on a terminal only. Text that cannot be printed is lost, but not the work of the command.
    failure: why text was lost; empty if none was, or if the reader of a pipe has read all that it wanted.
    """

    failure = ""

    @contextmanager
    def _losing(self) -> Iterator[None]:
        """Within it a failure of the stream is kept in `failure`, and all that follows is discarded."""
        stream = self.file
        try:
            yield
        except OSError as e:
            self.failure = self.failure or ("" if e.errno == errno.EPIPE else e.strerror or str(e))
            with suppress(OSError, ValueError), open(os.devnull, "wb") as null:  # also what the stream still holds
                os.dup2(null.fileno(), stream.fileno())

    def on_broken_pipe(self) -> None:
        """Does not end the process, as rich would, but leaves it to `_losing`."""
        raise

    def write(self, text: str) -> None:
        """Prints text that may be long; its lines are never broken."""
        with self._losing():
            self.file.write(f"{visible(text)}\n")
            self.file.flush()

    def say(self, text: str, style: str = "") -> None:
        """Prints text unchanged: it contains no markup, and its lines are not broken on a terminal."""
        self.print(Text(text, style), soft_wrap=True, highlight=False)

    def print(self, *objects: Any, soft_wrap: bool | None = None, **how: Any) -> None:
        whole = not self.is_terminal and all(isinstance(o, str | Text) for o in objects)
        with self._losing():
            super().print(*objects, soft_wrap=whole or soft_wrap, **how)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)
