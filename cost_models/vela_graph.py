"""The oracle: a graph compiled as a whole.

Only a graph has a price of its own here, so the prices of groups guide an extraction.
"""

from __future__ import annotations

from cost_models.protocol import Granularity
from cost_models.vela_groups import VelaGroups
from eqsat.tensor.graph import TensorGraph


class VelaGraph(VelaGroups):
    """Prices candidates like `VelaGroups`, and whole graphs by their corrected totals."""

    granularity: Granularity = "graph"

    def total(self, graph: TensorGraph) -> float:
        return self.whole(graph)
