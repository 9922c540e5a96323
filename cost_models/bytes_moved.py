"""The number of bytes that each operator reads and writes; this model is a baseline.

Memory-bound cost models, such as nncase's, count these bytes.
A RESHAPE is free. The model does not know fusion, so a RESCALE counts like any other operator.
"""

from __future__ import annotations

from cost_models.node_model import NodeModel
from cost_models.protocol import Unit


class BytesMoved(NodeModel):
    """Prices are bytes, not cycles."""

    in_cycles = False

    def cycles(self, unit: Unit) -> float:
        return 0.0 if unit.op == "reshape" else float(sum(t.bytes for t in (*unit.operands, unit.result)))
