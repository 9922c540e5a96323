"""Closed forms of Vela's estimate (`estimator.py`): without Vela, a new op costs microseconds.

In a concrete graph it also sees fusions of RESCALEs and activations.
It sees the copies that CONCAT and RESHAPE need, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from cost_models.forms import copy, part, standalone
from cost_models.fused_ops import FusedOps, fused_ops
from cost_models.fusion import ACTIVATIONS, fuses
from cost_models.node_model import NodeModel
from cost_models.placement import Placement
from cost_models.protocol import Fusion, Traffic, Unit
from cost_models.setting import Setting
from cost_models.unit_graph import UnitGraph
from eqsat.target import Target
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph


class Analytic(NodeModel):
    """Prices single ops and graphs by closed forms."""

    def cycles(self, unit: Unit) -> float:
        return 1.0 + standalone(self.target, unit, Setting())[0]

    def traffic(self, unit: Unit) -> Traffic:
        return Traffic.of(unit)

    def fusion(self, reader: Unit, read: Unit, producers: Sequence[Unit]) -> Fusion | None:
        return fuses(reader, read, producers, self.target.family)

    def total(self, graph: TensorGraph) -> float:
        return sum(self.by_node(graph).values())

    def by_node(self, graph: TensorGraph) -> dict[int, float]:
        """Returns {op: cycles} of a concrete graph; an op that is fused into another has 0."""
        unit_graph = UnitGraph(graph)
        in_context = _InContext(unit_graph, fused_ops(unit_graph, self.target.family), self.target)
        out: dict[int, float] = {}
        ahead: float | None = 0.0
        for n in unit_graph.units:
            out[n], computed = in_context.cycles(n, ahead)
            ahead = out[n] or ahead if computed is None else computed
        return out


class _InContext:
    """Prices the ops of one concrete graph in their context."""

    def __init__(self, graph: UnitGraph, fused: FusedOps, target: Target):
        self.graph, self.fused, self.target = graph, fused, target
        self.placement = Placement(graph, fused.absorbed, target)
        self.constants = _constants(graph)

    def cycles(self, n: int, ahead: float | None) -> tuple[float, float | None]:
        """Returns the cycles of `n`, and those of them in which the NPU computes (None: all).

        ahead: the computing cycles of the op before.
        """
        unit = self.graph.units[n]
        if n in self.constants or n in self.fused.absorbed:
            return 0.0, None
        if unit.op == "reshape":
            shared = len(self.graph.readers[self.graph.inputs(n)[0]]) > 1
            return copy(self.target, unit, self.placement.place(n)) if shared else 0.0, None
        if unit.op == "concat":
            copied = [self.graph.type(i) for i in self.graph.inputs(n) if not self._writes_in_place(i)]
            return sum(part(self.target, t, self.placement.place(n)) for t in copied), None
        if unit.op == "slice":
            return part(self.target, unit.result, self.placement.place(n)) if self._is_copied(n) else 0.0, None
        return standalone(self.target, unit, self._setting(n, ahead))

    def _setting(self, n: int, ahead: float | None) -> Setting:
        inputs = self.graph.inputs(n)
        return Setting(
            place=self.placement.place(n),
            activation=self.fused.activation.get(n),
            narrow=all(
                i in self.constants or i in self.fused.absorbed or not DType.of(self.graph.type(i).dtype).is_wide
                for i in inputs
            ),
            constant=next((self.graph.type(i).shape for i in inputs if i in self.constants), None),
            ahead=ahead,
            narrows=self.placement.narrows(n),
            permutation=self.fused.permutation.get(n),
        )

    def _writes_in_place(self, i: int) -> bool:
        """Whether the producer of `i` can write its part of a concat itself."""
        while self.graph.is_unit(i, "rescale", *ACTIVATIONS, "reshape") and len(self.graph.readers[i]) == 1:
            i = self.graph.inputs(i)[0]
        moves = self.graph.is_unit(i, "concat", "slice", "transpose", "reshape")
        return self.graph.is_unit(i) and len(self.graph.readers[i]) == 1 and not moves

    def _is_copied(self, n: int) -> bool:
        """Whether a slice is a copy, as an output or because a reader cannot read a part of a tensor itself."""
        readers = {self.graph.op(r) for r in self.graph.readers[n]}
        return (
            n in self.graph.outputs
            or readers == {"slice"}
            or bool(readers & {"reshape", "transpose", "concat", "matmul"})
        )


def _constants(graph: UnitGraph) -> set[int]:
    """Returns the constants, and views and movements of them, which Vela folds."""
    found = {n for n in graph.readers if graph.op(n) == "const"}
    for n in graph.units:
        if graph.is_unit(n, "rescale", "reshape", "transpose") and all(i in found for i in graph.inputs(n)):
            found.add(n)
    return found
