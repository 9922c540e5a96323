"""Bytes that an op reads and writes; a baseline.

Memory-bound cost models count them (nncase's is one).
A RESHAPE is free.
Fusion is not known here: a RESCALE counts like any other op.
"""

from __future__ import annotations

from cost_models.node_model import NodeModel
from cost_models.protocol import Unit


class BytesMoved(NodeModel):
    """Prices are bytes, not cycles."""

    in_cycles = False

    def cycles(self, unit: Unit) -> float:
        return 0.0 if unit.op == "reshape" else float(sum(t.bytes for t in (*unit.operands, unit.result)))
