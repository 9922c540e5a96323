"""Cost models: cycles for candidates of a choice. One file per model; the protocol is in `protocol.py`.

Another package adds a model by an entry point in the group `cost_models.models`, the object being a class that is called with
(target, pool of Vela workers, price cache) and follows `CostModel`; `NodeModel` leaves one method to write.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from cost_models.node_model import NodeModel
from cost_models.protocol import CostModel, Fusion, Price, Traffic, Unit

ENTRY_POINTS = "cost_models.models"
BUILT_IN = {
    "op_count": "cost_models.op_count:OpCount",
    "bytes_moved": "cost_models.bytes_moved:BytesMoved",
    "analytic": "cost_models.analytic:Analytic",
    "vela_groups": "cost_models.vela_groups:VelaGroups",
    "vela_graph": "cost_models.vela_graph:VelaGraph",
}
DEFAULT = "vela_groups"


def available() -> dict[str, str]:
    """Name -> `module:Class`. Built-in names win over entry points."""
    return {**{e.name: e.value for e in entry_points(group=ENTRY_POINTS)}, **BUILT_IN}


def find(name: str) -> Callable[..., CostModel]:
    """The class of a model by its name or as `package.module:Class`, found from the working directory too, as `python -m` would.
    Raises ValueError that names the known ones."""
    where = available().get(name, name)
    module, _, attribute = where.partition(":")
    if attribute and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found: Any = getattr(import_module(module), attribute) if attribute else None
    except (ImportError, AttributeError) as e:
        raise ValueError(f"the cost model {name!r} cannot be loaded: {e}") from e
    if found is None:
        raise ValueError(
            f"no cost model is called {name!r}; there are {', '.join(sorted(available()))}, or give package.module:Class"
        )
    model: Callable[..., CostModel] = found
    return model


__all__ = ["DEFAULT", "CostModel", "Fusion", "NodeModel", "Price", "Traffic", "Unit", "available", "find"]
