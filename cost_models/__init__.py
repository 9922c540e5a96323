"""Cost models: cycles for candidates of a choice. One file per model; the protocol is in `protocol.py`."""
from cost_models.protocol import CostModel, Unit

__all__ = ["CostModel", "Unit"]
