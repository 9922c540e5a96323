"""Defaults of the command line from a project's `pyproject.toml`.

The table `tool.eqsat` lists them by the names of options.

[tool.eqsat]
target = "ethos-u85-256"
max-sram = "512K"
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from os.path import isfile
from pathlib import Path
from typing import Any

import typer.core

from eqsat.cli.removed import why_gone
from eqsat.ground.files import InputError

#: Keys of the table that are not options: the package of the project's models.
#: `eqsat/bench/cells.py` reads it.
_DECLARED = {"models"}


def defaults(commands: Mapping[str, typer.core.TyperCommand], start: Path) -> dict[str, dict[str, Any]]:
    """Returns the options that the nearest `pyproject.toml` sets for each command.

    start: the directory in which the search for the file starts; it continues in the parents.
    Raises InputError if the file is not TOML, or has an option that no command has.
    """
    commands = dict(_flat(commands))
    place = next((d / "pyproject.toml" for d in (start, *start.parents) if isfile(d / "pyproject.toml")), None)
    given = _table(place) if place else {}
    known = {name: {p.name for p in c.params if p.param_type_name == "option"} for name, c in commands.items()}
    every = set().union(*known.values())
    for key in given.keys() - every:
        if gone := why_gone(f"--{key.replace('_', '-')}"):
            raise InputError(f"{place}: [tool.eqsat]: {gone}")
        near = difflib.get_close_matches(key, sorted(map(str, every)), 1)
        meant = f"; did you mean {near[0].replace('_', '-')}?" if near else ""
        raise InputError(f"{place}: [tool.eqsat] has {key.replace('_', '-')!r}, which is no option of a command{meant}")
    several = {name: {p.name for p in c.params if getattr(p, "multiple", False)} for name, c in commands.items()}
    own = {
        name: {k: [v] if k in several[name] and isinstance(v, str) else v for k, v in given.items() if k in options}
        for name, options in known.items()
    }
    for name in [n for n in own if " " in n]:
        group, _, command = name.partition(" ")
        own[group][command] = own.pop(name)
    return own


def _flat(commands: Mapping[str, typer.core.TyperCommand]) -> Iterator[tuple[str, typer.core.TyperCommand]]:
    """Yields commands by name; the commands of a group follow the group, by both names."""
    for name, command in commands.items():
        yield name, command
        for inner, c in getattr(command, "commands", {}).items():
            yield f"{name} {inner}", c


def _table(place: Path) -> dict[str, Any]:
    """Returns the options that a file sets, by the names of parameters."""
    try:
        tools = tomllib.loads(place.read_text(encoding="utf-8")).get("tool", {})
    except (OSError, ValueError, RecursionError) as e:
        raise InputError(f"{place} cannot be read: {e}") from e
    table = tools.get("eqsat", {}) if isinstance(tools, dict) else {}
    if not isinstance(table, dict):
        raise InputError(f"{place}: tool.eqsat is no table")
    return {k.replace("-", "_"): v for k, v in table.items() if k not in _DECLARED}
