"""Versions that a result depends on: of eqsat, as its sources say, and of the packages that it uses, as they are installed."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

from eqsat import __version__

ABSENT = "absent"


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Version by package name, ABSENT for one that is not installed. A clone of eqsat that nobody installed knows its own too."""
    return {p: __version__ if p == "eqsat" else _installed(p) for p in packages}


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ABSENT
