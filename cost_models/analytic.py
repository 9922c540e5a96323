"""The closed form (`closed_form.py`) as a cost model, which prices a new operator in microseconds without Vela."""

from __future__ import annotations

from collections.abc import Sequence

from cost_models.closed_form import estimate_cycles
from cost_models.fusion import fuses
from cost_models.node_model import NodeModel
from cost_models.protocol import Fusion, Unit


class Analytic(NodeModel):
    """Prices single ops by the closed form."""

    def cycles(self, unit: Unit) -> float:
        return estimate_cycles(unit, self.target)

    def fusion(self, reader: Unit, read: Unit, producers: Sequence[Unit]) -> Fusion | None:
        return fuses(reader, read, producers, self.target.family)
