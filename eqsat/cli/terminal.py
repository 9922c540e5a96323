"""Writes text to a terminal without control characters, which file names may contain."""

from __future__ import annotations

from collections.abc import Iterable
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

    It breaks lines of text only on a terminal.
    """

    def say(self, text: str, style: str = "") -> None:
        """Prints text unchanged: it contains no markup, and its lines are not broken on a terminal."""
        self.print(Text(text, style), soft_wrap=True, highlight=False)

    def print(self, *objects: Any, soft_wrap: bool | None = None, **how: Any) -> None:
        whole = not self.is_terminal and all(isinstance(o, str | Text) for o in objects)
        super().print(*objects, soft_wrap=whole or soft_wrap, **how)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)
