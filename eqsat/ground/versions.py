"""Versions that a result depends on: of eqsat, as its sources and their commit say, and of the packages that it uses,
as they are installed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from eqsat import __version__

ABSENT = "absent"
_ROOT = Path(__file__).resolve().parents[2]


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Version by package name, ABSENT for one that is not installed. A clone of eqsat that nobody installed knows its
    own too."""
    return {p: __version__ if p == "eqsat" else _installed(p) for p in packages}


def commit() -> str:
    """The commit of the checkout that these sources are, with "-dirty" where they differ from it; ABSENT where they are
    none, as within a package directory that lies in somebody else's checkout."""
    if _git("rev-parse", "--show-toplevel") != str(_ROOT):
        return ABSENT
    return _git("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")


def _git(*command: str) -> str:
    try:
        return subprocess.run(["git", *command], cwd=_ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ABSENT


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ABSENT
