"""Closed forms of Vela's estimate (`estimator.py`), which price a new operator in microseconds without running Vela.

It guides the choice of forms of a convolution (`eqsat/options/spellings.py`), and is a cost model for research.
"""

from __future__ import annotations

from collections.abc import Sequence

from cost_models.forms import standalone
from cost_models.fusion import fuses
from cost_models.node_model import NodeModel
from cost_models.protocol import Fusion, Unit


class Analytic(NodeModel):
    """Prices single ops by closed forms."""

    def cycles(self, unit: Unit) -> float:
        return 1.0 + standalone(self.target, unit)

    def fusion(self, reader: Unit, read: Unit, producers: Sequence[Unit]) -> Fusion | None:
        return fuses(reader, read, producers, self.target.family)
