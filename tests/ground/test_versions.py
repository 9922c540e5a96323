"""The version of eqsat is written down once, and found also where eqsat is not installed."""

from __future__ import annotations

import re
import subprocess
import tomllib
from importlib.metadata import requires
from pathlib import Path

import eqsat
from eqsat import __version__
from eqsat.ground.versions import ABSENT
from tests.command import ROOT, python


def test_the_commit_is_of_the_checkout_that_the_sources_are(tmp_path: Path) -> None:
    def git(*command: str) -> str:
        how = {"cwd": tmp_path, "stdout": subprocess.PIPE, "text": True, "check": True}
        return subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *command], **how).stdout.strip()

    def seen(place: Path) -> str:
        code = "import sys; sys.path.insert(0, '.'); from eqsat.ground.versions import commit; print(commit())"
        return python("-I", "-c", code, cwd=place, check=True).stdout.strip()

    for place in (tmp_path, tmp_path / "site-packages"):
        (place / "eqsat" / "ground").mkdir(parents=True)
        for name in ("__init__.py", *(f"ground/{f}.py" for f in ("__init__", "_version", "digest", "versions"))):
            (place / "eqsat" / name).write_text((ROOT / "eqsat" / name).read_text())
    git("init", "-q")
    assert seen(tmp_path) == ABSENT, "nothing is committed"
    record = tmp_path / "benchmarks" / "results" / "run.json"
    record.parent.mkdir(parents=True)
    record.write_text("{}")
    git("add", "eqsat", "benchmarks")
    git("commit", "-qm", "first")
    record.write_text('{"commit": ""}')
    assert seen(tmp_path) == git("rev-parse", "HEAD")[:12]
    assert seen(tmp_path / "site-packages") == ABSENT
    (tmp_path / "eqsat" / "ground" / "versions.py").open("a").write("\n")
    assert seen(tmp_path).endswith("-dirty")


def test_of_a_clone_that_is_not_installed(tmp_path: Path) -> None:
    """Without site-packages there is no metadata of eqsat at all, only its sources, nor of another package."""
    (tmp_path / "eqsat").symlink_to(ROOT / "eqsat")
    code = "import sys; sys.path.insert(0, '.'); from eqsat.ground.versions import versions"
    code += "; print(versions(['eqsat', 'numpy']))"
    done = python("-I", "-S", "-c", code, cwd=tmp_path)
    assert done.stdout.strip() == str({"eqsat": eqsat.__version__, "numpy": ABSENT}), done.stderr


def test_the_package_takes_its_version_from_the_sources() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"] and "version" not in project["project"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "eqsat.ground._version.__version__"}


def test_the_second_file_of_constraints_is_what_executorch_pins() -> None:
    """Where ExecuTorch's next version pins others, continuous integration is to run with those."""
    theirs = {r.split(";")[0].strip() for r in requires("executorch") or () if 'extra == "ethos-u"' in r}
    lines = (ROOT / "constraints-executorch.txt").read_text().splitlines()
    assert {line for line in lines if not line.startswith("#")} == theirs


def test_the_changelog_begins_with_the_changes_of_this_version() -> None:
    first = (ROOT / "CHANGELOG.md").read_text().removeprefix("# Changelog\n\n").splitlines()[0]
    assert re.fullmatch(
        r"## Unreleased" if ".dev" in __version__ else rf"## {__version__} \(\d{{4}}-\d\d-\d\d\)", first
    )
