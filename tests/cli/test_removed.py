"""What is gone says so in one line, with what to use instead."""

from __future__ import annotations

import json

import pytest
import typer.main
from typer.testing import CliRunner

from eqsat.cli.app import app
from eqsat.cli.removed import REMOVED

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", REMOVED)
def test_what_is_gone_ends_in_one_line(name: str) -> None:
    given = ["optimize", "x.tosa", f"{name}=1"] if name.startswith("--") else [name, "--some-option"]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 2 and done.stdout == ""
    assert done.stderr == f"error: {name}: removed in 0.2: {REMOVED[name]}\n"


def test_it_is_told_in_json_too() -> None:
    done = CliRunner().invoke(app, ["discover", "--json"])
    assert json.loads(done.stdout)["error"]["message"].startswith("discover: removed in 0.2: ")


def test_what_is_there_is_not_gone() -> None:
    options = {o for c in COMMANDS.values() for p in c.params for o in p.opts}
    assert not REMOVED.keys() & {*COMMANDS, *options}


def test_an_argument_is_not_taken_for_a_command() -> None:
    done = CliRunner().invoke(app, ["rules", "discover"])
    assert "removed" not in done.stderr
