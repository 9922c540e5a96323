"""What users name by a string (`extraction.registry`), with errors of bad input and of plug-ins that fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from eqsat.files import InputError, PluginError
from extraction import registry
from extraction.registry import Registry as Registry  # the rooms at the doors see nothing else of that package
from extraction.registry import split as split


def load(place: str) -> Any:
    """What is behind `file.py:Name` or `module:Name`, or the module where there is no Name. Raises InputError,
    PluginError."""
    with naming():
        return registry.load(place)


@contextmanager
def naming() -> Iterator[None]:
    """In here what users name is looked up: a name that nothing has is bad input, a module that fails is a plug-in that
    does."""
    try:
        yield
    except registry.BrokenModule as e:
        raise PluginError(str(e)) from e.__cause__
    except registry.UnknownName as e:
        raise InputError(str(e)) from e
