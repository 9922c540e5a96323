"""`eqsat new`: what it writes works as it is."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from eqsat.ground.registry import Registry, load
from tests.command import ROOT, python, run

PLUGINS = ("rule", "cost-model", "extractor")


def new(*args: object):
    return run("new", *args)


@pytest.mark.slow
def test_what_is_begun_passes_its_own_tests_and_the_linter(tmp_path: Path) -> None:
    for plugin in PLUGINS:
        done = new(plugin, f"my-{plugin}", "-d", tmp_path)
        assert done.exit_code == 0 and f"test_my_{plugin.replace('-', '_')}.py" in done.output, done.output
    assert len(list(tmp_path.iterdir())) == 2 * len(PLUGINS)
    assert not re.findall(r"@[A-Z]+@", "".join(p.read_text() for p in tmp_path.iterdir()))
    for place, command in ((ROOT, ["ruff", "check", "--line-length=140"]), (tmp_path, ["pytest", "-q"])):
        done = python("-m", *command, tmp_path, cwd=place)
        assert done.returncode == 0, done.stdout


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
