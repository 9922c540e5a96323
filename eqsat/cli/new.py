"""`eqsat new`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from keyword import iskeyword
from pathlib import Path
from typing import Annotated

import typer

from eqsat.cli.common import app, console
from eqsat.ground.files import InputError, check_directory, write_atomically


class Plugin(StrEnum):
    """The kinds of plug-ins for which there is a template."""

    RULE = "rule"
    COST_MODEL = "cost-model"
    EXTRACTOR = "extractor"


@dataclass(frozen=True, slots=True)
class _Start:
    """The template of a plug-in.

    template: stem of the files in `templates`.
    group: the group of its entry points.
    place: the object that its entry point names.
    use: the option that names its file.
    """

    template: str
    group: str
    place: str
    use: str


_STARTS = {
    Plugin.RULE: _Start("rule", "eqsat.rules", "{name}", "--user-rules {name}.py"),
    Plugin.COST_MODEL: _Start("cost_model", "cost_models.models", "{name}:{kind}", "--cost-model {name}.py:{kind}"),
    Plugin.EXTRACTOR: _Start("extractor", "extraction.extractors", "{name}:extract", "--extractor {name}.py:extract"),
}


@app.command()
def new(
    plugin: Annotated[Plugin, typer.Argument(help="the kind of plug-in")],
    name: Annotated[str, typer.Argument(help="name of the plug-in, which becomes the name of a Python module")],
    directory: Annotated[Path, typer.Option("--directory", "-d", help="directory of the files")] = Path(),
    package: Annotated[
        bool, typer.Option("--package", help="also write a pyproject.toml that installs the plug-in under its name")
    ] = False,
) -> None:
    """Create your own rule, cost model or extractor: a working module and its tests."""
    written = begin(plugin, name, directory, package)
    module, test = written[:2]
    use = _STARTS[plugin].use.format(name=directory / module.stem, kind=_class(module.stem))
    lines = [
        f"wrote {', '.join(map(str, written))}",
        f"try it: python -m pytest {test}",
        f"use it: eqsat optimize ... {use}",
    ]
    if package:
        lines.append(
            f"or, after pip install -e {directory}, by its name: {_STARTS[plugin].use.split()[0]} {module.stem}"
        )
    console.say("\n".join(lines))


def begin(plugin: Plugin, name: str, directory: Path, package: bool) -> list[Path]:
    """Writes the module, its test and, for a package, a pyproject.toml, and returns their paths.

    Raises InputError before anything is written.
    """
    module = name.replace("-", "_")
    if not module.isidentifier() or iskeyword(module):
        raise InputError(f"{name!r} is no name of a Python module: use letters, digits and underscores")
    start = _STARTS[plugin]
    places = {
        directory / f"{module}.py": f"{start.template}.py.in",
        directory / f"test_{module}.py": f"test_{start.template}.py.in",
        **({directory / "pyproject.toml": "pyproject.toml.in"} if package else {}),
    }
    check_directory(directory, "--directory")
    if there := [str(p) for p in places if p.exists()]:
        raise InputError(f"{', '.join(there)} is there already: choose another name or directory")
    words = {
        "@NAME@": module,
        "@DASHED@": module.replace("_", "-"),
        "@CLASS@": _class(module),
        "@GROUP@": start.group,
        "@ENTRY@": module,
        "@PLACE@": start.place.format(name=module, kind=_class(module)),
    }
    for place, template in places.items():
        text = (files("eqsat.cli") / "templates" / template).read_text()
        for word, meaning in words.items():
            text = text.replace(word, meaning)
        write_atomically(place, text.encode())
    return list(places)


def _class(module: str) -> str:
    return "".join(part.capitalize() for part in module.split("_"))
