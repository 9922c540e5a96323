"""Commands and options that are gone, and what to use instead."""

from __future__ import annotations

#: {command, or option with its dashes: what to use instead}.
REMOVED = {
    "discover": "use `python -m benchmarks.discovery graph` in a clone of the repository",
}


def removed(arguments: list[str]) -> str | None:
    """Returns what is said of the first removed command or option of a command line, None if it has none."""
    options = arguments[1 : arguments.index("--") if "--" in arguments else None]
    given = [*arguments[:1], *(a.partition("=")[0] for a in options if a.startswith("--"))]
    name = next((g for g in given if g in REMOVED), None)
    return name and f"{name}: removed in 0.2: {REMOVED[name]}"
