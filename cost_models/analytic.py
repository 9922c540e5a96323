"""Closed forms of Vela's estimate (`estimator.py`): no Vela at run time, so an unseen op costs microseconds.

Of a concrete graph it also sees what Vela fuses: RESCALEs, activations, the copies that CONCAT and RESHAPE need.
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
from eqsat.tensor.graph import TensorGraph


class Analytic(NodeModel):
    """See the module's text."""

    def cycles(self, unit: Unit) -> float:
        return 1.0 + standalone(self.target, unit, Setting())[0]

    def traffic(self, unit: Unit) -> Traffic:
        constants = sum(t.bytes for k, t in enumerate(unit.operands) if unit.is_constant(k))
        return Traffic(sum(t.bytes for t in unit.operands) - constants + unit.result.bytes, constants)

    def fusion(self, reader: Unit, read: Unit, producers: Sequence[Unit]) -> Fusion | None:
        return fuses(reader, read, producers, self.target.family)

    def total(self, graph: TensorGraph) -> float:
        return sum(self.by_node(graph).values())

    def by_node(self, graph: TensorGraph) -> dict[int, float]:
        """Cycles of every op of a concrete graph; what is fused into another op has none."""
        g = UnitGraph(graph)
        in_context = _InContext(g, fused_ops(g, self.target.family), self.target)
        out: dict[int, float] = {}
        ahead: float | None = 0.0
        for n in g.units:
            out[n], computed = in_context.cycles(n, ahead)
            ahead = out[n] or ahead if computed is None else computed
        return out


class _InContext:
    """Prices the ops of one concrete graph where they are."""

    def __init__(self, g: UnitGraph, fused: FusedOps, target: Target):
        self.g, self.fused, self.target = g, fused, target
        self.placement = Placement(g, fused.absorbed, target)
        self.constants = _constants(g)

    def cycles(self, n: int, ahead: float | None) -> tuple[float, float | None]:
        """Cycles of `n`, and those that the NPU computes of them (None: all); ahead: the same of the op before it."""
        u = self.g.units[n]
        if n in self.constants or n in self.fused.absorbed:
            return 0.0, None
        if u.op == "reshape":
            shared = len(self.g.readers[self.g.inputs(n)[0]]) > 1
            return copy(self.target, u, self.placement.place(n)) if shared else 0.0, None
        if u.op == "concat":
            copied = [self.g.type(i) for i in self.g.inputs(n) if not self._writes_in_place(i)]
            return sum(part(self.target, t, self.placement.place(n)) for t in copied), None
        if u.op == "slice":
            return part(self.target, u.result, self.placement.place(n)) if self._is_copied(n) else 0.0, None
        return standalone(self.target, u, self._setting(n, ahead))

    def _setting(self, n: int, ahead: float | None) -> Setting:
        inputs = self.g.inputs(n)
        return Setting(
            place=self.placement.place(n),
            activation=self.fused.activation.get(n),
            narrow=all(
                i in self.constants or i in self.fused.absorbed or self.g.type(i).dtype != "INT32" for i in inputs
            ),
            constant=next((self.g.type(i).shape for i in inputs if i in self.constants), None),
            ahead=ahead,
            narrows=self.placement.narrows(n),
            permutation=self.fused.permutation.get(n),
        )

    def _writes_in_place(self, i: int) -> bool:
        """Whether the producer of `i` can write its part of a concat itself."""
        while self.g.is_unit(i, "rescale", *ACTIVATIONS, "reshape") and len(self.g.readers[i]) == 1:
            i = self.g.inputs(i)[0]
        moves = self.g.is_unit(i, "concat", "slice", "transpose", "reshape")
        return self.g.is_unit(i) and len(self.g.readers[i]) == 1 and not moves

    def _is_copied(self, n: int) -> bool:
        """Whether a slice is a copy: its readers cannot read a part of a tensor themselves, or there are none."""
        readers = {self.g.op(r) for r in self.g.readers[n]}
        return (
            n in self.g.outputs or readers == {"slice"} or bool(readers & {"reshape", "transpose", "concat", "matmul"})
        )


def _constants(g: UnitGraph) -> set[int]:
    """Constants, and views and movements of them, which Vela folds."""
    found = {n for n in g.readers if g.op(n) == "const"}
    for n in g.units:
        if g.is_unit(n, "rescale", "reshape", "transpose") and all(i in found for i in g.inputs(n)):
            found.add(n)
    return found
