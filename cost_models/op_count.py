"""The number of transposes; ties are broken by the number of operators.

This model is a baseline, because optimizers without cycles count transposes.
"""

from __future__ import annotations

from cost_models.node_model import NodeModel
from cost_models.protocol import Unit

#: The price of an op that is no TRANSPOSE: so many of them weigh as much as one transpose.
_TIE = 1 / 4096


class OpCount(NodeModel):
    """Prices are counts, not cycles."""

    in_cycles = False

    def cycles(self, unit: Unit) -> float:
        return 1.0 if unit.op == "transpose" else _TIE
