"""What a fuzzed format is, and how what became of an input is called."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


class Finding(Exception):
    """What should not have happened, in words."""


@dataclass(frozen=True, slots=True)
class Format:
    """prepare: makes the corpus in a directory, which may take what `read` must not. damage: all mutators, or the blind
    ones only.
    read: reads one damaged file in a directory of its own."""

    name: str
    prepare: Callable[[Path], None]
    damage: Callable[[random.Random, Sequence[bytes]], tuple[bytes, str]]
    read: Callable[[bytes, Path], str]


def error_class(e: BaseException) -> str:
    """The error's name and message without what depends on the file; the cause where that is another kind of error."""
    name, cause = type(e).__name__, e.__cause__
    if isinstance(cause, MemoryError):
        raise Finding("the memory limit was reached") from e
    if cause is not None and type(cause).__name__ not in (name, "GraphError"):
        return f"{name} from {type(cause).__name__}"
    text = re.sub(r"^\S*(/\S*|the TOSA buffer):? ", "", str(e))
    for pattern in (
        r"'[^']*'|\"[^\"]*\"",
        r"\([^()]*\)",
        r"\([^()]*\)",
        r"\[[^\[\]]*\]",
        r"Type\S*",
        r"-?\d+(, -?\d+)*",
    ):
        text = re.sub(pattern, "_", text)
    return f"{name}: {text[:110]}"
