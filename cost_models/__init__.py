"""Cost models, which give the candidates of a choice their prices, by default in cycles.

There is one file per model; the protocol is in `protocol.py`.
Another package adds a model by an entry point in the group `cost_models.models`.
Its object is a class that is called with (target, pool of Vela workers, price cache).
The class follows `CostModel`; with `NodeModel` as base it has only one method to write.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

from cost_models.node_model import NodeModel
from cost_models.protocol import CostModel, Fusion, Price, Unit
from eqsat.ground.files import PluginError
from eqsat.ground.registry import Registry

#: {name: `module:Class`} of the built-in models.
BUILT_IN = {
    "op_count": "cost_models.op_count:OpCount",
    "bytes_moved": "cost_models.bytes_moved:BytesMoved",
    "analytic": "cost_models.analytic:Analytic",
    "vela_groups": "cost_models.vela_groups:VelaGroups",
}
#: The name of the default model.
DEFAULT = "vela_groups"


#: Finds models by name.
COST_MODELS = Registry("cost model", "cost_models.models", BUILT_IN)


def available() -> dict[str, str]:
    """Returns {name: `module:Class`}; built-in names win over entry points."""
    return COST_MODELS.available()


def find(name: str) -> Callable[..., CostModel]:
    """Returns the class of a model by its name, `module:Class` or `file.py:Class`.

    Raises InputError for an unknown name and for a class that takes other arguments.
    Raises PluginError if its import fails, and for a NodeModel without `cycles`.
    """
    model: Callable[..., CostModel] = COST_MODELS.find_callable(name, "target", "pool of Vela workers", "price cache")
    if inspect.isclass(model) and issubclass(model, NodeModel) and model.lacks_cycles():
        raise PluginError(
            f"{name!r} is no cost model: the class {model.__name__} has no method cycles; "
            "define it: it takes a Unit and returns its cycles"
        )
    return model


__all__ = ["DEFAULT", "CostModel", "Fusion", "NodeModel", "Price", "Unit", "available", "find"]
