"""The oracle: a graph compiled as a whole.

Only a graph has a price of its own here, so the prices of groups guide an extraction.
"""

from __future__ import annotations

import math

from cost_models.protocol import Granularity
from cost_models.vela_groups import VelaGroups
from eqsat.ground.process import WorkerError
from eqsat.tensor.graph import TensorGraph
from eqsat.vela.compile import compile_graph


class VelaGraph(VelaGroups):
    """Prices candidates like `VelaGroups`, and whole graphs by their corrected totals."""

    granularity: Granularity = "graph"

    def total(self, graph: TensorGraph) -> float:
        try:
            return float(compile_graph(graph, self.target, self.pool).corrected)
        except WorkerError:
            return math.inf
