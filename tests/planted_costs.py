"""Cost models that are wrong on purpose."""

from __future__ import annotations

import math

from cost_models.node_model import NodeModel
from cost_models.protocol import Unit


class Refusing(NodeModel):
    """Nothing may be used."""

    def cycles(self, unit: Unit) -> float:
        return math.inf


class Negative(NodeModel):
    """Work that gives cycles back."""

    def cycles(self, unit: Unit) -> float:
        return -1.0


class Raises(NodeModel):
    """A mistake of its author's."""

    def cycles(self, unit: Unit) -> float:
        return 1 / (unit.result.bytes - unit.result.bytes)
