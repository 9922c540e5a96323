"""What is written to a terminal: names out of files and of files are text there, and no commands to it."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

#: Control characters as Python spells them, but for the end of a line and the tabulator.
_SPELLED = {n: f"\\x{n:02x}" for n in (*range(32), *range(127, 160)) if chr(n) not in "\n\t"}


def visible(text: str) -> str:
    """The same with control characters spelled out.

    >>> print(visible("a" + chr(27) + "[31mred").replace(chr(92), "/"))
    a/x1b[31mred
    """
    return text.translate(_SPELLED)


class TextConsole(Console):
    """A console whose colours are its own: what it is given has none."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)
