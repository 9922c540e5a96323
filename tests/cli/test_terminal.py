"""Names out of files and of files are text on a terminal: no markup, no escapes."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import typer
from rich.text import Text

from eqsat.cli.app import app
from eqsat.cli.terminal import TextConsole, visible
from eqsat.options.options import Options
from eqsat.runs import save
from eqsat.search.optimizer import optimize_tosa
from eqsat.target import Target
from eqsat.tosa import dumps
from tests.command import run
from tests.graphs import transposed_relus

NAME = "a[red]b\x1b[31m\x1b]0;title\x07\x9b1m.tosa"


def test_control_characters_are_spelled_out() -> None:
    assert visible(NAME) == "a[red]b\\x1b[31m\\x1b]0;title\\x07\\x9b1m.tosa"
    assert visible("lines\nand\ttabs and ümläute") == "lines\nand\ttabs and ümläute"


def test_a_console_has_its_own_colours_only() -> None:
    stream = io.StringIO()
    console = TextConsole(file=stream, force_terminal=True, color_system="standard")
    console.print("[red]error:[/red]", Text(f"cannot read {NAME}"), soft_wrap=True, highlight=False)
    assert stream.getvalue().startswith("\x1b[31merror:\x1b[0m cannot read a[red]b\\x1b[31m")
    assert stream.getvalue().count("\x1b") == 2


@pytest.mark.parametrize("terminal", [False, True])
def test_text_is_broken_on_a_terminal_alone(terminal: bool) -> None:
    stream = io.StringIO()
    console = TextConsole(file=stream, force_terminal=terminal, width=20, color_system=None)
    console.print("warning:", Text("does not fit"), "into this")
    assert (stream.getvalue() == "warning: does not fit into this\n") is not terminal


def test_a_name_is_shown_as_text_in_an_error_and_out_of_a_saved_run(tmp_path: Path) -> None:
    failed = run("prove", tmp_path / NAME, "b.tosa")
    assert failed.exit_code == 2 and "a[red]b\\x1b[31m" in failed.output and "\x1b" not in failed.output
    options = Options(effort=1, remember=False)
    result = optimize_tosa(dumps(transposed_relus()), Target.of("ethos-u85-256"), options=options, name=NAME)
    save(result, tmp_path / "run")
    done = run("explain", tmp_path / "run", "--no-removals")
    assert done.exit_code == 0 and "\x1b" not in done.output and "\x07" not in done.output
    assert done.output.startswith("a[red]b\\x1b[31m\\x1b]0;title")


def test_help_begins_with_compile_and_shows_types_of_values_alone() -> None:
    shown = run("--help").output
    assert -1 < shown.index("compile ") < shown.index("optimize ") < shown.index("bench ")
    shown += run("compile", "--help").output + run("cache", "-h").output
    assert "<path>" in shown and "<bool>" not in shown
    helps = [run(c, "--help").output for c in typer.main.get_command(app).commands]
    assert not any("range>" in text for text in helps)
