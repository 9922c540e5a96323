"""`eqsat new`: what it writes works as it is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eqsat.cli.app import app
from eqsat.ground.registry import Registry, load

ROOT = Path(__file__).parents[2]
ABSOLUTE = """
from typing import Annotated

from eqsat import Call, kinds, op, rule, symbols
from eqsat.tensor.graph import TensorGraph

absolute, x = symbols("absolute", Annotated[Call, op("abs")]), symbols("x", kinds.Value)
RULES = [rule("absolute-twice", absolute(absolute(x)), absolute(x))]


def example():
    g = TensorGraph()
    y = g.add_input("x", (1, 4, 4, 8), "INT32")
    for _ in range(2):
        y = g.add("abs", [y])
    g.outputs.append(y)
    g.output_names.append("y")
    return g


GRAPHS = [example]
"""
PLUGINS = ("rule", "cost-model", "extractor")


def new(*args: object):
    return CliRunner().invoke(app, ["new", *map(str, args)])


def run_tests_in(directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize("plugin", PLUGINS)
def test_a_start_passes_its_own_tests_and_the_linter(plugin: str, tmp_path: Path) -> None:
    done = new(plugin, "my-first", "-d", tmp_path)
    assert done.exit_code == 0, done.output
    assert sorted(p.name for p in tmp_path.iterdir()) == ["my_first.py", "test_my_first.py"]
    assert "test_my_first.py" in done.output
    assert not re.findall(r"@[A-Z]+@", "".join(p.read_text() for p in tmp_path.iterdir()))
    linted = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--line-length=140", str(tmp_path)], capture_output=True, text=True
    )
    assert linted.returncode == 0, linted.stdout
    tested = run_tests_in(tmp_path)
    assert tested.returncode == 0 and " passed" in tested.stdout, tested.stdout


@pytest.mark.slow
def test_the_tests_of_a_rule_serve_the_rule_that_replaces_it(tmp_path: Path) -> None:
    assert new("rule", "mine", "-d", tmp_path).exit_code == 0
    (tmp_path / "mine.py").write_text(ABSOLUTE)
    tested = run_tests_in(tmp_path)
    assert tested.returncode == 0 and "2 passed" in tested.stdout, tested.stdout


@pytest.mark.parametrize("plugin", PLUGINS)
def test_a_package_has_an_entry_point_that_is_there(
    plugin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert new(plugin, "mine", "-d", tmp_path, "--package").exit_code == 0
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]
    ((group, entries),) = project["entry-points"].items()
    assert project["name"] == "mine" and list(entries) == ["mine"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    assert load(entries["mine"]) is Registry("plug-in", group, entries).find("mine")
    sys.modules.pop("mine")


def test_nothing_is_overwritten_and_names_are_checked(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text("precious")
    for args, words in (
        (("rule", "mine", "-d", tmp_path), "is there already"),
        (("rule", "2nd", "-d", tmp_path), "no name of a Python module"),
        (("rule", "class", "-d", tmp_path), "no name of a Python module"),
        (("rule", "other", "-d", tmp_path / "absent"), "does not exist"),
    ):
        done = new(*args)
        assert done.exit_code == 2 and words in done.stderr, done.output
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("test_mine.py", "precious")]
    assert new("optimizer", "mine").exit_code == 2
