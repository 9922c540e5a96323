"""Objects that users name by a string: extractors, cost models, rules and models.

>>> built_in = {"dag_greedy": "extraction.dag_greedy:extract"}
>>> extractors = Registry("extractor", "extraction.extractors", built_in)
>>> extractors.find("dag_greedy").__module__
'extraction.dag_greedy'

A name is that of a built-in object, that of an entry point of an installed package, `module:Name` or `file.py:Name`.
Modules are also found in the working directory, as by `python -m`, and a file finds its neighbours, as a script does.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import inspect
import os
import re
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from eqsat.ground.files import InputError, PluginError


class UnknownName(InputError):
    """Nothing has this name; other InputErrors may come from a module while it is imported."""


@dataclass(frozen=True, slots=True)
class Registry:
    """One kind of objects that users name.

    what    : the kind, for messages
    group   : of entry points
    built_in: {name: `module:Name`}
    """

    what: str
    group: str
    built_in: Mapping[str, str]

    def available(self) -> dict[str, str]:
        """Returns {name: `module:Name`}; built-in names win over entry points."""
        named = {e.name: f"{e.module}:{e.attr}" if e.attr else e.module for e in entry_points(group=self.group)}
        return {**named, **self.built_in}

    def place(self, name: str) -> str:
        """Returns `module:Name` or `file.py:Name` for a name, without Name for a whole module. Raises InputError."""
        if name in self.built_in:  # wins over entry points, whose search reads the metadata of every package
            return self.built_in[name]
        known = self.available()
        if name in known:
            return known[name]
        if ":" not in name and not name.endswith(".py") and not _is_module(name):
            raise UnknownName(
                f"no {self.what} is called {name!r}; there are {', '.join(sorted(known)) or 'none by a name alone'}; "
                f"or give file.py:Name, module:Name or an entry point in the group {self.group!r}"
            )
        return name

    def find(self, name: str) -> Any:
        """Returns the object, or the module, of a name. Raises InputError, PluginError."""
        return load(self.place(name))

    def find_callable(self, name: str, *parameters: str, **keywords: str) -> Any:
        """Returns the object of a name, if it takes as many arguments and these keywords. Raises like `find`."""
        found = self.find(name)
        form = ", ".join([*parameters, *(f"{k}={v}" for k, v in keywords.items())])
        if not callable(found):
            raise UnknownName(f"{name} is no {self.what}: name something in it that is called as ({form})")
        try:
            inspect.signature(found).bind(*parameters, **keywords)
        except TypeError as e:
            raise UnknownName(f"{name} is no {self.what}: it is called as ({form}), and that says: {e}") from e
        except ValueError:  # native code without a signature
            pass
        return found


def load(place: str) -> Any:
    """Returns the object of `module:Name` or `file.py:Name`, or the module. Raises InputError, PluginError."""
    module_place, attribute = split(place)
    module = _module(module_place)
    if not attribute:
        return module
    if not hasattr(module, attribute):
        near = difflib.get_close_matches(attribute, [name for name in vars(module) if not name.startswith("_")], 1)
        raise UnknownName(f"{module_place} has no {attribute!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    return getattr(module, attribute)


def split(place: str) -> tuple[str, str]:
    """Returns (module or file, name in it or "")."""
    if place.endswith(".py") or ":" not in place:
        return place, ""
    module, _, attribute = place.rpartition(":")
    return module, attribute


#: {path of a file that was imported: (its content then, its module)}.
_files: dict[str, tuple[bytes, ModuleType]] = {}


def _module(place: str) -> ModuleType:
    try:
        if place.endswith(".py"):
            return _file(place)
        if not _is_module(place):
            raise UnknownName(f"there is no module {place!r}")
        return importlib.import_module(place)
    except (UnknownName, PluginError):
        raise
    except (Exception, SystemExit) as e:  # noqa: BLE001 - a user's module can raise anything, or be a script
        path = os.path.abspath(place)
        lines = [f.lineno for f in traceback.extract_tb(e.__traceback__) if f.filename == path]
        where = f"{place}, line {lines[-1]}" if lines and f"{path}:" not in str(e) else place
        raise PluginError(f"cannot import {where}: {type(e).__name__}: {e}") from e


def _is_module(name: str) -> bool:
    """Whether there is a module of this name."""
    return module_spec(name) is not None or name in sys.modules


def module_spec(name: str) -> ModuleSpec | None:
    """Returns the spec of a module, None if there is none. Raises PluginError."""
    _add_to_path(os.getcwd())
    try:
        return importlib.util.find_spec(name) if name else None
    except (ModuleNotFoundError, ValueError):  # no such package, or not a module name
        return None
    except Exception as e:  # noqa: BLE001 - the package is a user's, too
        raise PluginError(f"cannot import the package of {name}: {type(e).__name__}: {e}") from e


def _file(place: str) -> ModuleType:
    """Returns the module of a file; executes it again if the file has changed."""
    path = os.path.abspath(place)
    _add_to_path(os.getcwd())
    _add_to_path(os.path.dirname(path))
    try:
        source = Path(path).read_bytes()
    except FileNotFoundError:
        raise UnknownName(f"{place} does not exist") from None
    if path in _files and _files[path][0] == source:
        return _files[path][1]
    stem = re.sub(r"\W", "_", Path(path).stem)
    name = f"{stem}_{hashlib.sha256(path.encode()).hexdigest()[:8]}"  # unique among all modules
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and inspect look for a class's module there
    spec.loader.exec_module(module)
    _files[path] = source, module
    return module


def _add_to_path(directory: str) -> None:
    if directory not in sys.path:
        sys.path.append(directory)
