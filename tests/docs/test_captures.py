"""The captures of a terminal: they show what their page says, or what their command says now."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from docs import blocks, captures
from tests.command import run

PAGE = captures.ROOT / "docs" / "start.md"


def output(command: str) -> str:
    """The output of a command: as the page says, which `test_docs.py` checks, or of a run of it, if it is not there."""
    for block, after in pairwise(blocks.blocks(PAGE)):
        if block.code == f"{command}\n":
            return after.code
    return run(*command.split()[1:]).stderr


@pytest.mark.parametrize("name", captures.CAPTURES)
def test_a_capture_shows_its_commands_and_their_output(name: str) -> None:
    """If not: python -m docs.captures NAME."""
    _, commands = captures.CAPTURES[name]
    lines = "".join(f"$ {c}\n{output(c)}" for c in commands).splitlines()
    width = captures.COLUMNS
    rows = [line[i : i + width].rstrip() for line in lines for i in range(0, max(len(line), 1), width)]
    assert captures.screen((captures.DIRECTORY / f"{name}.svg").read_text(encoding="utf-8")) == rows


def test_every_capture_is_on_the_page() -> None:
    shown = [Path(part.partition(")")[0]).name for part in PAGE.read_text(encoding="utf-8").split("](captures/")[1:]]
    assert shown == [f"{name}.svg" for name in captures.CAPTURES]
    assert sorted(shown) == sorted(path.name for path in captures.DIRECTORY.iterdir())
