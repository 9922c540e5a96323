"""The optimizer's options on the command line: stated once, with the library's defaults."""

from __future__ import annotations

from dataclasses import fields

import pytest
import typer
from typer.testing import CliRunner

from eqsat.cli.app import app as commands
from eqsat.cli.options import OPTIONS, OptionsMaker, takes_options
from eqsat.ground.files import InputError
from eqsat.options.options import Options
from eqsat.store.setting import VARIABLE

#: Fields of `Options` that are for programs: a saturation's limits, and what --user-rules brings.
LEFT_OUT = {"budget", "rounds", "trials", "rules", "externs"}


def made(*arguments: str) -> Options:
    """The options that a command gets."""
    app, got = typer.Typer(), []

    @app.command()
    @takes_options
    def command(name: str, *, options: OptionsMaker) -> None:
        got.append((name, options()))

    done = CliRunner().invoke(app, ["x", *arguments])
    if isinstance(done.exception, InputError):
        raise done.exception
    assert done.exit_code == 0, done.output
    ((name, options),) = got
    assert name == "x"
    return options


def test_defaults_are_those_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert made() == Options()


def test_every_option_of_the_library_can_be_given() -> None:
    there = {"preset" if n == "rules" else n for n in OPTIONS} - {"user_rules"}
    assert there == {f.name for f in fields(Options)} - LEFT_OUT


def test_options_arrive() -> None:
    options = made("--rules", "none", "--time-limit", "3", "--extractor", "dag_greedy")
    assert (options.preset, options.time_limit) == ("none", 3)
    assert options.extractor == "dag_greedy"


def test_an_unknown_name_is_bad_input() -> None:
    with pytest.raises(InputError, match="no preset of rules is called 'nope'"):
        made("--rules", "nope")


def test_limits_of_memory_are_called_as_they_were_typed() -> None:
    assert made("--max-flash", "5%", "--max-sram", "+16K").max_flash == "5%"
    for option in ("--max-sram", "--max-flash"):
        with pytest.raises(InputError, match=f"^{option} is '64Q'"):
            made(option, "64Q")


def test_help_says_which_defaults_the_effort_decides() -> None:
    shown = CliRunner().invoke(commands, ["optimize", "--help"], env={"COLUMNS": "200"}).output
    assert shown.count("[default: (by --effort)]") == 3
