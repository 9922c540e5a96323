"""Prices of FX programs, which Vela cannot compile: closed forms of the cost of data movement.

Other ops cost the same in every alternative, except that pointwise ops cost more on larger tensors.
Tensors that are not quantized are outside of the NPU, so moving data to them is priced as a loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cost_models.closed_form import estimated
from cost_models.node_model import NodeModel
from cost_models.protocol import Price, Unit
from eqsat.choice.choice import build
from eqsat.egraph.encoding import saturate
from eqsat.options.options import Options
from eqsat.target import Target
from eqsat.target.staging import shortest
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.movement import Move
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Steps, Type
from extraction import extract

#: Factor of the cost of an element that is moved or computed outside of the NPU.
_OUTSIDE = 16.0
#: Cycles of an op that costs nearly nothing, and of an element of a pointwise op.
_VIEW, _POINTWISE = 1.0, 0.5
#: Cycles of a byte of a RESHAPE, which is free or a copy.
_RESHAPE = 0.02


def cheapest(graph: TensorGraph, target: Target, options: Options) -> tuple[TensorGraph, float, float]:
    """Returns the equal graph of least data movement, its cost and that of `graph`, in cycles.

    Raises EngineError, GraphError, ExtractionError.
    """
    model = MovementCost(target)
    before = extract(build(saturate(graph, [], options.budget), model).graph, "dag_greedy").cost
    choices = build(saturate(graph, options.identities(target), options.budget), model)
    found = extract(choices.graph, options.extractor, time_limit=options.time_limit).unless_interrupted()
    return choices.written(found.choice)[0], float(found.cost), float(before)


class MovementCost(NodeModel):
    """The closed forms of TOSA's movements, for those of FX."""

    def price(self, units: Sequence[Unit]) -> list[Price]:
        plain = [replace(u, operands=tuple(map(_plain, u.operands)), result=_plain(u.result)) for u in units]
        outside = [not all(":" in t.dtype for t in (*u.operands, u.result)) for u in units]
        prices = zip(outside, super().price(plain), strict=True)
        return [replace(p, cycles=p.cycles * _OUTSIDE) if is_outside else p for is_outside, p in prices]

    def _settle(self, unit: Unit, move: Move) -> tuple[float, Steps]:
        cycles, steps = super()._settle(unit, move)
        return cycles, shortest(move) if [op for op, _ in steps].count("transpose") == 1 else steps

    def cycles(self, unit: Unit) -> float:
        if unit.op == "reshape":
            return _VIEW + _RESHAPE * unit.result.bytes
        if OPS[unit.op].tosa:
            return _VIEW + estimated(unit, self.target)
        computes = unit.op in ("fx", "reduce_fx")
        return _VIEW + computes * _POINTWISE * max(t.elements for t in (*unit.operands, unit.result))


def _plain(t: Type) -> Type:
    """Returns the type of integers of the same size."""
    return replace(t, dtype={1: "INT8", 2: "INT16"}.get(DType.of(t.dtype).size, "INT32"))
