"""How tables and pages write figures; a figure that is not known is "-"."""

from __future__ import annotations


def number(x: float | None) -> str:
    return "-" if x is None else f"{x:,.0f}"


def ratio(x: float | None) -> str:
    return "" if x is None else f"{x:.3f}"


def share(x: float | None) -> str:
    return "" if x is None else f"{x:.1%}"


def kib(size: float | None) -> str:
    """Returns bytes as KiB."""
    return "-" if size is None else f"{size / 1024:,.1f}"
