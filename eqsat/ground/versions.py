"""Versions that a result depends on."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from eqsat.ground._version import __version__
from eqsat.ground.digest import digest

#: The version of a package that is not installed.
ABSENT = "absent"
_ROOT = Path(__file__).resolve().parents[2]
#: The top-level packages of this project.
PACKAGES = ("eqsat", "extraction", "cost_models")
_RECORDS = "benchmarks/results"


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Returns {package: version}, ABSENT for a package that is not installed; eqsat's own is always known."""
    return {p: __version__ if p == "eqsat" else _find_installed(p) for p in packages}


def commit() -> str:
    """Returns the commit of the checkout of these sources, with "-dirty" if they differ from it, ABSENT without one.

    Recorded results do not count as sources, since a run may write them into the checkout.
    """
    if _git("rev-parse", "--show-toplevel") != str(_ROOT):
        return ABSENT
    found = _git("describe", "--always", "--abbrev=12", "--exclude=*")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", f":!{_RECORDS}")
    return f"{found}-dirty" if changed and found != ABSENT else found


@cache
def code() -> str:
    """Returns the digest of these sources."""
    files = sorted(f for package in PACKAGES for f in (_ROOT / package).rglob("*.py"))
    return digest(part for f in files for part in (str(f.relative_to(_ROOT)).encode(), f.read_bytes()))


def _git(*command: str) -> str:
    try:
        return subprocess.run(["git", *command], cwd=_ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ABSENT


@cache
def _find_installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ABSENT
