"""Cost models: cycles for candidates of a choice. One file per model; the protocol is in `protocol.py`.

Another package adds a model by an entry point in the group `cost_models.models`, the object being a class that is
called with (target, pool of Vela workers, price cache) and follows `CostModel`; `NodeModel` leaves one method to write.
"""

from __future__ import annotations

from collections.abc import Callable

from cost_models.node_model import NodeModel
from cost_models.protocol import CostModel, Fusion, Price, Traffic, Unit
from eqsat.ground.registry import Registry

BUILT_IN = {
    "op_count": "cost_models.op_count:OpCount",
    "bytes_moved": "cost_models.bytes_moved:BytesMoved",
    "analytic": "cost_models.analytic:Analytic",
    "vela_groups": "cost_models.vela_groups:VelaGroups",
    "vela_graph": "cost_models.vela_graph:VelaGraph",
}
DEFAULT = "vela_groups"


COST_MODELS = Registry("cost model", "cost_models.models", BUILT_IN)


def available() -> dict[str, str]:
    """Name -> `module:Class`. Built-in names win over entry points."""
    return COST_MODELS.available()


def find(name: str) -> Callable[..., CostModel]:
    """The class of a model by its name, `module:Class` or `file.py:Class`. Raises UnknownName, a ValueError."""
    model: Callable[..., CostModel] = COST_MODELS.find_callable(name, "target", "pool of Vela workers", "price cache")
    return model


__all__ = ["DEFAULT", "CostModel", "Fusion", "NodeModel", "Price", "Traffic", "Unit", "available", "find"]
