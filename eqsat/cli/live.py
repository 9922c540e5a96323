"""Shows the work of a command on a terminal: the stage, the delegate, the fewest cycles so far.

eqsat's modules only log. A record of the level INFO may have `delegate` ("forward/0"), `number` and `total`, `stage`,
and `cycles`. These become one live line on a terminal, and elsewhere a line per delegate and per improvement.
`-v` shows the records themselves with time and place, `-vv` also those of the level DEBUG, `-q` nothing.
The output of ExecuTorch, PyTorch and Vela, also of native code, is kept from the terminal but for `--debug`.
"""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import Progress, SpinnerColumn, TextColumn
from rich.segment import Segment
from rich.table import Column
from rich.text import Text

from eqsat.cli import interrupt
from eqsat.search.clock import name_stage

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


logger = logging.getLogger("eqsat")


@dataclass(slots=True)
class Command:
    """The command that runs: when it began, and its options `-v`, `--debug` and, if it has them, `-q` and `--json`."""

    level: int = 0
    debug: bool = False
    quiet: bool = False
    as_json: bool = False
    started: float = field(default_factory=time.perf_counter)


COMMAND = Command()


@dataclass(slots=True)
class Work:
    """The state of a command's work, from the records so far, and the terminal's line about it."""

    title: str
    shown: Progress
    delegate: str = ""
    started: float = field(default_factory=time.perf_counter)
    stage: str = ""
    best: int | None = None

    def update(self, record: logging.LogRecord) -> str:
        """Updates the state from a record and returns a line if there is news, else ""."""
        more = vars(record)
        self.stage = name_stage(more["stage"]) if "stage" in more else self.stage
        if "delegate" in more:
            self.delegate, self.best = f"{more['delegate']} ({more['number']} of {more['total']})", None
            return f"{self.title}: {self.delegate}"
        cycles = more.get("cycles")
        if cycles is None or (self.best is not None and cycles >= self.best):
            return ""
        self.best = cycles
        return ": ".join(filter(None, [self.title, self.delegate, record.getMessage()]))

    def line(self, record: logging.LogRecord) -> str:
        """Returns a record with its time, its delegate and its stage."""
        message = record.getMessage()
        place = " ".join(filter(None, [self.delegate.partition(" ")[0], self.stage if self.stage != message else ""]))
        return f"[{time.perf_counter() - self.started:.1f} s] {': '.join(filter(None, [place, message]))}"

    def show(self, stage: str) -> None:
        """Shows a stage that is not logged, at once, since the display's timer misses one shorter than its period."""
        self.stage = stage
        for task in self.shown.tasks:
            if task.description != str(self):
                self.shown.update(task.id, description=str(self), refresh=True)

    def __str__(self) -> str:
        best = "" if self.best is None else f"best so far {self.best:,} cycles"
        return ", ".join(filter(None, [self.title, self.delegate, self.stage, best]))


class _Display(logging.Handler):
    """Shows records on `console`: the records themselves with -v, and the state of the work."""

    def __init__(self, console: TextConsole, state: Work) -> None:
        super().__init__(logging.DEBUG if COMMAND.level > 1 or COMMAND.debug else logging.INFO)
        self.console, self.state = console, state

    def emit(self, record: logging.LogRecord) -> None:
        news = self.state.update(record)
        if COMMAND.level or COMMAND.debug:
            self.console.say(self.state.line(record))
            if record.exc_info and COMMAND.debug:
                self.console.say(logging.Formatter().formatException(record.exc_info))
        elif news and not self.console.is_terminal and not COMMAND.quiet:
            self.console.say(news)
        self.state.show(self.state.stage)


@contextlib.contextmanager
def working(title: str) -> Iterator[Work]:
    """Within it the work is shown on stderr, and nothing else reaches stdout or stderr."""
    with contextlib.ExitStack() as stack:
        stream = sys.stderr if COMMAND.debug else stack.enter_context(_apart())
        console = TextConsole(file=stream)
        shown = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False, table_column=Column()),  # wraps: the cycles are at its end
            console=console,
            transient=True,
            redirect_stdout=False,  # rich would send what others write to stdout and stderr to the terminal
            redirect_stderr=False,
            disable=not console.is_terminal or COMMAND.quiet,
        )
        state = Work(title, stack.enter_context(shown))
        shown.add_task(title)
        display = _Display(console, state)
        before = logger.level, logger.propagate
        logger.addHandler(display)
        logger.setLevel(display.level)
        logger.propagate = False
        try:
            yield state
        finally:
            logger.removeHandler(display)
            logger.setLevel(before[0])
            logger.propagate = before[1]


@contextlib.contextmanager
def _apart() -> Iterator[TextIO]:
    """Yields the current stderr, and discards all other output to stdout and stderr, also of native code."""
    with contextlib.ExitStack() as stack:
        sys.stdout.flush()
        stream: TextIO = sys.stderr
        if _descriptor(sys.stderr) == 2:
            stream = stack.enter_context(os.fdopen(os.dup(2), "w", buffering=1, encoding="utf-8"))
            stack.enter_context(interrupt.speaking_on(stream.fileno()))
        null = stack.enter_context(open(os.devnull, "w"))
        for number in (1, 2):
            stack.callback(_restore, number, os.dup(number))
            os.dup2(null.fileno(), number)
        stack.enter_context(contextlib.redirect_stdout(null))
        stack.enter_context(contextlib.redirect_stderr(null))
        yield stream


def _descriptor(stream: TextIO) -> int | None:
    """Returns the file descriptor of a stream, None if it is no file, such as a test's."""
    try:
        return stream.fileno()
    except (OSError, io.UnsupportedOperation, AttributeError):
        return None


def _restore(number: int, kept: int) -> None:
    os.dup2(kept, number)
    os.close(kept)
