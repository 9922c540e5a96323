"""Cost models: cycles for candidates of a choice. One file per model; the protocol is in `protocol.py`.

Another package adds a model by an entry point in the group `cost_models.models`, the object being a class that is called with
(target, pool of Vela workers, price cache) and follows `CostModel`.
"""
from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from cost_models.protocol import CostModel, Unit

ENTRY_POINTS = "cost_models.models"
BUILT_IN = {"vela_ops": "cost_models.vela_ops:VelaOps"}


def available() -> dict[str, str]:
    """Name -> `module:Class`. Built-in names win over entry points."""
    return {**{e.name: e.value for e in entry_points(group=ENTRY_POINTS)}, **BUILT_IN}


def find(name: str) -> Callable[..., CostModel]:
    """The class of a model by its name or as `package.module:Class`. Raises ValueError that names the known ones."""
    where = available().get(name, name)
    module, _, attribute = where.partition(":")
    try:
        found: Any = getattr(import_module(module), attribute) if attribute else None
    except (ImportError, AttributeError) as e:
        raise ValueError(f"the cost model {name!r} cannot be loaded: {e}") from e
    if found is None:
        raise ValueError(f"no cost model is called {name!r}; there are {', '.join(sorted(available()))}, or give package.module:Class")
    return found


__all__ = ["CostModel", "Unit", "available", "find"]
