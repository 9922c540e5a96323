"""Bytes that an op reads and writes; a baseline.

Memory-bound cost models count them (nncase's is one).
A RESHAPE is free.
Fusion is not known here: a RESCALE counts like any other op.
"""

from __future__ import annotations

from cost_models.node_model import NodeModel
from cost_models.protocol import Traffic, Unit


class BytesMoved(NodeModel):
    """Prices are bytes, not cycles."""

    in_cycles = False

    def traffic(self, unit: Unit) -> Traffic:
        return Traffic() if unit.op == "reshape" else Traffic.of(unit)

    def cycles(self, unit: Unit) -> float:
        moved = self.traffic(unit)
        return moved.activations + moved.constants
