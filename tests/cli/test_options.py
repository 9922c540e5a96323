"""The optimizer's options on the command line."""

from __future__ import annotations

from dataclasses import fields

import pytest
import typer
from typer.testing import CliRunner

from eqsat.cli.options import OPTIONS, OptionsMaker, takes_options
from eqsat.ground.files import InputError
from eqsat.options.options import Options
from eqsat.store.setting import VARIABLE
from tests.command import run

#: Fields of `Options` that are for programs: a saturation's limits, and what --user-rules brings.
LEFT_OUT = {"budget", "rounds", "rules", "externs"}


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


def test_options_arrive_and_defaults_are_those_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert made() == Options()
    given = ("--rules", "none", "--time-limit", "3", "--extractor", "dag_greedy", "--max-flash", "5%")
    options = Options(preset="none", time_limit=3, extractor="dag_greedy", max_flash="5%", max_sram="+16K")
    assert made(*given, "--max-sram", "+16K") == options


def test_every_option_of_the_library_can_be_given() -> None:
    there = {"preset" if n == "rules" else n for n in OPTIONS} - {"user_rules"}
    assert there == {f.name for f in fields(Options)} - LEFT_OUT


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--rules", "nope", "no preset of rules is called 'nope'"),
        ("--max-sram", "64Q", "^--max-sram is '64Q'"),
        ("--max-flash", "64Q", "^--max-flash is '64Q'"),
    ],
)
def test_a_wrong_value_is_bad_input_and_the_option_is_called_as_it_was_typed(
    option: str, value: str, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        made(option, value)


def test_help_says_which_defaults_the_effort_decides() -> None:
    shown = run("optimize", "--help", env={"COLUMNS": "200"}).output
    assert shown.count("[default: (by --effort)]") == 3


def test_the_zoo_is_measured_by_default() -> None:
    result = run("bench", "--help", env={"COLUMNS": "200"})
    assert "[default: (zoo)]" in result.output
