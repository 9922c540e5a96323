"""`[tool.eqsat]`: which options it gives to which command, and what it may not say."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

from eqsat.cli.app import app
from eqsat.cli.defaults import defaults
from eqsat.ground.files import InputError

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def written(place: Path, text: str) -> Path:
    (place / "pyproject.toml").write_text(text)
    return place


def test_each_command_gets_the_options_that_it_has(tmp_path: Path) -> None:
    found = defaults(
        COMMANDS, written(tmp_path, '[tool.eqsat]\ntarget = "ethos-u85-256"\nmax-sram = "512K"\njobs = 2\n')
    )
    assert found["compile"] == {"target": "ethos-u85-256", "max_sram": "512K"}
    assert found["bench"] == {"jobs": 2} and found["rules"] == {}


def test_an_option_that_takes_several_may_have_one(tmp_path: Path) -> None:
    found = defaults(COMMANDS, written(tmp_path, '[tool.eqsat]\ntargets = "a,b"\nuser-rules = ["c", "d"]\n'))
    assert found["bench"] == {"targets": ["a,b"]} and found["compile"] == {"user_rules": ["c", "d"]}


def test_commands_of_a_group_get_them_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EQSAT_CACHE", raising=False)
    monkeypatch.chdir(written(tmp_path, '[tool.eqsat]\ncache = "here"\n'))
    assert defaults(COMMANDS, tmp_path)["cache"]["info"] == {"cache": "here"}
    assert CliRunner().invoke(app, ["cache", "info"]).output.startswith("here/store.sqlite")


def test_the_package_of_models_is_no_option() -> None:
    """This project names its own, and `eqsat bench` measures the zoo by default."""
    assert defaults(COMMANDS, Path(__file__).parents[2])["bench"] == {}
    result = CliRunner().invoke(app, ["bench", "--help"], env={"COLUMNS": "200"})
    assert "[default: (zoo)]" in result.output


def test_the_nearest_file_counts(tmp_path: Path) -> None:
    written(tmp_path, "[tool.eqsat]\neffort = 1\n")
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert defaults(COMMANDS, tmp_path / "a" / "b")["compile"] == {"effort": 1}
    written(tmp_path / "a", "[project]\nname = 'x'\n")
    assert defaults(COMMANDS, tmp_path / "a" / "b")["compile"] == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.eqsat]\nefort = 1\n", "'efort', which is no option of a command; did you mean effort?"),
        ("[tool]\neqsat = 1\n", "tool.eqsat is no table"),
        ("[tool.eqsat\n", "cannot be read"),
    ],
)
def test_what_cannot_be_followed_is_an_error_with_the_file(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"pyproject\.toml.*" + message.replace("?", r"\?")):
        defaults(COMMANDS, written(tmp_path, text))


def test_what_is_typed_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(written(tmp_path, '[tool.eqsat]\ntarget = "ethos-u999"\n'))
    wrong = CliRunner().invoke(app, ["optimize", "x.tosa", "-o", "y.tosa"])
    assert wrong.exit_code == 2 and "ethos-u999" in wrong.stderr
    typed = CliRunner().invoke(app, ["optimize", "x.tosa", "-t", "ethos-u85-256", "-o", "y.tosa"])
    assert typed.exit_code == 2 and "ethos-u999" not in typed.stderr and "x.tosa" in typed.stderr
