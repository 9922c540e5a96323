"""What users name by a string, and one way to find it: extractors, cost models, rules and models.

>>> extractors = Registry("extractor", "extraction.extractors", {"ilp": "extraction.ilp:extract"})
>>> extractors.find("ilp").__module__
'extraction.ilp'

A name is that of something built in, an entry point of an installed package, `module:Name` or `file.py:Name`. Modules
are found from the working directory too, as `python -m` would, and a file finds its neighbours, as `python file.py`
would.
"""

from __future__ import annotations

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
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from eqsat.ground.files import InputError, PluginError


@dataclass(frozen=True, slots=True)
class Registry:
    """One kind of what users name. what: the kind, in messages; group: of entry points; built_in: name ->
    `module:Name`."""

    what: str
    group: str
    built_in: Mapping[str, str]

    def available(self) -> dict[str, str]:
        """Name -> `module:Name`. Built-in names win over entry points."""
        named = {e.name: f"{e.module}:{e.attr}" if e.attr else e.module for e in entry_points(group=self.group)}
        return {**named, **self.built_in}

    def place(self, name: str) -> str:
        """`module:Name` or `file.py:Name` of a name; a module that is looked into as a whole has no Name. Raises
        InputError."""
        known = self.available()
        if name in known:
            return known[name]
        if ":" not in name and not name.endswith(".py") and not _is_module(name):
            raise InputError(
                f"no {self.what} is called {name!r}; there are {', '.join(sorted(known)) or 'none by a name alone'}; "
                f"or give file.py:Name, module:Name or an entry point in the group {self.group!r}"
            )
        return name

    def find(self, name: str) -> Any:
        """The object, or the module, of a name. Raises InputError, PluginError."""
        return load(self.place(name))

    def find_callable(self, name: str, *parameters: str, **keywords: str) -> Any:
        """The object, which takes these arguments; only their number and the keywords matter. Raises InputError where
        it does not."""
        found = self.find(name)
        form = ", ".join([*parameters, *(f"{k}={v}" for k, v in keywords.items())])
        if not callable(found):
            raise InputError(f"{name} is no {self.what}: name something in it that is called as ({form})")
        try:
            inspect.signature(found).bind(*parameters, **keywords)
        except TypeError as e:
            raise InputError(f"{name} is no {self.what}: it is called as ({form}), and that says: {e}") from e
        except ValueError:  # native code that does not tell what it takes
            pass
        return found


def load(place: str) -> Any:
    """The object of `module:Name` or `file.py:Name`, or the module where there is no Name. Raises InputError,
    PluginError."""
    module_place, attribute = split(place)
    module = _module(module_place)
    if not attribute:
        return module
    if not hasattr(module, attribute):
        raise InputError(f"{module_place} has no {attribute!r}")
    return getattr(module, attribute)


def split(place: str) -> tuple[str, str]:
    """(module or file, name in it or "")."""
    if place.endswith(".py") or ":" not in place:
        return place, ""
    module, _, attribute = place.rpartition(":")
    return module, attribute


def place_of(kind: type) -> str:
    """What `load` takes for a class, also in another process."""
    files = [place for place, (_, module) in _files.items() if module.__name__ == kind.__module__]
    return f"{files[0] if files else kind.__module__}:{kind.__qualname__}"


#: Files that were imported: what they said then, and their modules.
_files: dict[str, tuple[bytes, ModuleType]] = {}


def _module(place: str) -> ModuleType:
    try:
        return _file(place) if place.endswith(".py") else _importable(place)
    except InputError:
        raise
    except Exception as e:  # noqa: BLE001 - a user's module can raise anything
        path = os.path.abspath(place)
        lines = [f.lineno for f in traceback.extract_tb(e.__traceback__) if f.filename == path]
        where = f"{place}, line {lines[-1]}" if lines and f"{path}:" not in str(e) else place
        raise PluginError(f"cannot import {where}: {type(e).__name__}: {e}") from e


def _importable(name: str) -> ModuleType:
    if not _is_module(name):
        raise InputError(f"there is no module {name!r}")
    return importlib.import_module(name)


def _is_module(name: str) -> bool:
    """Whether there is a module of this name. Raises PluginError where its package cannot be imported."""
    _see(os.getcwd())
    try:
        return name in sys.modules or (bool(name) and importlib.util.find_spec(name) is not None)
    except (ModuleNotFoundError, ValueError):  # its package is none, or the name is no name
        return False
    except Exception as e:  # noqa: BLE001 - the package is a user's, too
        raise PluginError(f"cannot import the package of {name}: {type(e).__name__}: {e}") from e


def _file(place: str) -> ModuleType:
    """The module of a file; executed again where the file has changed."""
    path = os.path.abspath(place)
    _see(os.getcwd())
    _see(os.path.dirname(path))
    try:
        source = Path(path).read_bytes()
    except FileNotFoundError:
        raise InputError(f"{place} does not exist") from None
    if path in _files and _files[path][0] == source:
        return _files[path][1]
    stem = re.sub(r"\W", "_", Path(path).stem)
    name = f"{stem}_{hashlib.sha256(path.encode()).hexdigest()[:8]}"  # that no other file and no package has
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and inspect look for a class's module there
    spec.loader.exec_module(module)
    _files[path] = source, module
    return module


def _see(directory: str) -> None:
    if directory not in sys.path:
        sys.path.append(directory)
