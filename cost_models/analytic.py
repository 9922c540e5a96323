"""Closed forms of Vela's estimate (`estimator.py`): no Vela at run time, so an unseen op costs microseconds.

Of a concrete graph it also sees what Vela fuses: RESCALEs, activations, the copies that CONCAT and RESHAPE need.
"""

from __future__ import annotations

from collections.abc import Sequence

from cost_models.forms import Setting, copy, part, standalone
from cost_models.fusion import ACTIVATIONS, fuses, is_noop
from cost_models.node_model import NodeModel, behind_views, units_of
from cost_models.protocol import Fusion, Traffic, Unit
from cost_models.storage import Storage
from eqsat.tensor.graph import TensorGraph


class Analytic(NodeModel):
    """See the module's text."""

    def cycles(self, unit: Unit) -> float:
        return 1.0 + standalone(self.target, unit, Setting())[0]

    def traffic(self, unit: Unit) -> Traffic:
        constants = sum(t.bytes for k, t in enumerate(unit.operands) if unit.is_constant(k))
        return Traffic(sum(t.bytes for t in unit.operands) - constants + unit.result.bytes, constants)

    def fusion(self, reader: Unit, read: Unit, behind: Sequence[Unit]) -> Fusion | None:
        return fuses(reader, read, behind, self.target.family)

    def total(self, graph: TensorGraph) -> float:
        return sum(self.by_node(graph).values())

    def by_node(self, graph: TensorGraph) -> dict[int, float]:
        """Cycles of every op of a concrete graph; what is fused into another op has none."""
        units, readers = units_of(graph), graph.readers()
        absorbed, activated, turned = self._fused(graph, units, readers)
        where = Storage(graph, units, readers, absorbed, self.target)
        # constants, and views of them that Vela folds
        fixed = {n for n in readers if graph.nodes[n].op == "const"}
        out: dict[int, float] = {}
        ahead: float | None = 0.0
        for n, u in units.items():
            inputs = graph.nodes[n].inputs
            if u.op in ("rescale", "reshape", "transpose") and all(i in fixed for i in inputs):
                fixed.add(n)
                out[n] = 0.0
            elif n in absorbed:
                out[n] = 0.0
            elif u.op == "reshape":
                out[n] = copy(self.target, u, where.place(n)) if len(readers[inputs[0]]) > 1 else 0.0
            elif u.op == "concat":
                out[n] = sum(
                    part(self.target, graph.type(i), where.place(n))
                    for i in inputs
                    if not self._in_place(graph, units, readers, i)
                )
            elif u.op == "slice":
                by = {graph.nodes[r].op for r in readers[n]}
                copied = n in graph.outputs or by == {"slice"} or by & {"reshape", "transpose", "concat", "matmul"}
                out[n] = part(self.target, u.result, where.place(n)) if copied else 0.0
            else:
                narrow = all(i in fixed or i in absorbed or graph.nodes[i].dtype != "INT32" for i in inputs)
                stored = next((graph.type(i).shape for i in inputs if i in fixed), None)
                out[n], ahead = standalone(
                    self.target,
                    u,
                    Setting(where.place(n), activated.get(n), narrow, stored, ahead, where.narrows(n), turned.get(n)),
                )
                continue
            ahead = out[n] or ahead
        return out

    @staticmethod
    def _in_place(graph: TensorGraph, units, readers, i: int) -> bool:
        """Whether the producer of `i` can write its part of a concat itself."""
        while i in units and units[i].op in ("rescale", *ACTIVATIONS, "reshape") and len(readers[i]) == 1:
            i = graph.nodes[i].inputs[0]
        return i in units and len(readers[i]) == 1 and units[i].op not in ("concat", "slice", "transpose", "reshape")

    def _fused(
        self, graph: TensorGraph, units: dict[int, Unit], readers: dict[int, list[int]]
    ) -> tuple[set[int], dict[int, str], dict[int, tuple[int, ...]]]:
        """Ops that cost nothing; the activation ("clamp" or "table") that a multiply-accumulate op or a sum carries; the permutation that
        a convolution is written in."""
        absorbed: set[int] = set()
        activated: dict[int, str] = {}
        turned: dict[int, tuple[int, ...]] = {}
        for n, u in units.items():
            sources = [i for i in graph.nodes[n].inputs if i in units]
            if u.op == "reduce_sum":  # it takes the operand's scale itself
                absorbed.update(
                    i
                    for i in (behind_views(graph, readers, i) for i in sources)
                    if i in units
                    and units[i].op == "rescale"
                    and len(readers[i]) == 1
                    and units[i].result.dtype == "INT32"
                )
            if u.op in ("add", "sub", "mul", "maximum", "minimum"):
                scales = [
                    k
                    for k in (behind_views(graph, readers, i) for i in sources)
                    if k in units and units[k].op == "rescale"
                ]
                if self.target.family.scaled_sums or u.op not in ("add", "sub") or _fusable([units[k] for k in scales]):
                    absorbed.update(k for k in scales if units[k].result.dtype == "INT32")
            if (
                self.target.family.transposes.fused
                and u.op == "transpose"
                and (writer := self._convolution(graph, units, readers, sources)) is not None
            ):
                absorbed.add(n)
                turned[writer] = u.attr("perms")
            for i in (behind_views(graph, readers, i) for i in sources[:1]):
                head = behind_views(graph, readers, graph.nodes[i].inputs[0]) if graph.nodes[i].inputs else i
                term = (
                    fuses(u, units[i], [units[head]] if head in units else [], self.target.family)
                    if i in units
                    else None
                )
                if term is None or term.of_reader < 1 or len(readers[i]) > 1 or is_noop(u):
                    continue
                absorbed.add(n)
                if u.op in ACTIVATIONS:
                    activated[head if units[i].op == "rescale" else i] = u.op
        return absorbed, activated, turned

    @staticmethod
    def _convolution(graph: TensorGraph, units, readers, sources: list[int]) -> int | None:
        """The convolution of which `sources` is the only reader."""
        i = next(iter(sources), -1)
        while i in units and units[i].op in ("rescale", "table") and len(readers[i]) == 1:
            i = graph.nodes[i].inputs[0]
        return i if i in units and len(readers[i]) == 1 and units[i].op in ("conv2d", "depthwise_conv2d") else None


def _fusable(scales: Sequence[Unit]) -> bool:
    """Sums that do not take operands of any scale take them if both are one, or if they differ and the larger is 2^19 or 2^14."""
    values = [s.attr("multiplier")[0] / 2.0 ** s.attr("shift")[0] for s in scales]
    return bool(values) and (all(v == 1 for v in values) or len(set(values)) > 1 and max(values) in (2.0**19, 2.0**14))
