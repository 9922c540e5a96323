"""What a release holds: the wheel and the sdist, built as pip builds them."""

from __future__ import annotations

import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.command import ROOT, python

pytestmark = pytest.mark.slow

PACKAGES = ("eqsat", "extraction", "cost_models")
#: What is no code and has to be there.
DATA = ("**/*.in", "**/*.html", "**/py.typed")


def test_wheel_and_sdist_have_all_code_and_data(tmp_path: Path) -> None:
    command = ["git", "ls-files", *PACKAGES, "pyproject.toml", "README.md", "LICENSE"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("no clone: nobody knows which files belong to it")
    names = listed.stdout.split()
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    build = "import setuptools.build_meta as b; b.build_wheel('dist'); b.build_sdist('dist')"
    done = python("-c", build, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    wanted = {n for n in names if n.startswith(PACKAGES)}
    assert {p.relative_to(ROOT).as_posix() for k in DATA for d in PACKAGES for p in (ROOT / d).glob(k)} <= wanted
    (wheel,), (sdist,) = (tmp_path / "dist").glob("*.whl"), (tmp_path / "dist").glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as z:
        held = set(z.namelist())
        (points,) = (n for n in held if n.endswith("entry_points.txt"))
        assert "eqsat = eqsat.cli.__main__:main" in z.read(points).decode()
    assert wanted <= held and any(n.endswith("licenses/LICENSE") for n in held)
    assert not [n for n in held if n.partition("/")[0] in ("tests", "benchmarks", "docs")]
    with tarfile.open(sdist) as t:
        inside = {n.partition("/")[2] for n in t.getnames()}
    assert {*names} <= inside


def test_setting_up_asks_the_system_for_nothing() -> None:
    """Only `.ci/browser` installs by apt, and only CI and those who want it call that."""
    assert [p.name for p in (ROOT / ".ci").iterdir() if "apt-get" in p.read_text()] == ["browser"]
    assert [p.name for p in (ROOT / ".ci").iterdir() if "/browser" in p.read_text()] == ["run"]
