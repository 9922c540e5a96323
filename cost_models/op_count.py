"""The number of transposes, ties broken by the number of ops: what optimizers count that cannot ask for cycles. A
baseline."""

from __future__ import annotations

from cost_models.node_model import NodeModel
from cost_models.protocol import Unit

#: What an op counts that is no TRANSPOSE: a graph would need this many of them to weigh as much as one transpose.
_TIE = 1 / 4096


class OpCount(NodeModel):
    """Prices are counts, not cycles."""

    in_cycles = False

    def cycles(self, unit: Unit) -> float:
        return 1.0 if unit.op == "transpose" else _TIE
