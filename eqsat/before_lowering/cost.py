"""Prices of FX programs, which Vela cannot compile: closed forms of the cost of data movement.

Other ops cost the same in every alternative, except that pointwise ops cost more on larger tensors.
In a quantized program floats are outside of the NPU, so moving data to them is priced as a loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cost_models.closed_form import estimated
from cost_models.node_model import NodeModel
from cost_models.protocol import Price, Unit
from eqsat.before_lowering.fx import shortest
from eqsat.choice.choice import build
from eqsat.egraph.encoding import saturate
from eqsat.options.options import Options
from eqsat.target import Target
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import Type
from extraction import extract

#: Factor of the cost of an element that is moved or computed outside of the NPU.
_OUTSIDE = 16.0
#: Cycles of an op that costs nearly nothing, of an element of a pointwise op, and of a byte that a copy moves.
_VIEW, _POINTWISE, _COPY = 1.0, 0.5, 0.125
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
        quantized = any(_has_scale(t) for unit in units for t in unit.operands)
        out = []
        for unit, p in zip(units, super().price(plain), strict=True):
            outside = quantized and not all(map(_has_scale, (*unit.operands, unit.result)))
            is_one = [op for op, _ in p.steps].count("transpose") == 1
            steps = shortest(unit.move) if unit.move and is_one else p.steps
            out.append(Price(p.cycles * _OUTSIDE if outside else p.cycles, steps))
        return out

    def cycles(self, unit: Unit) -> float:
        match unit.op:
            case "fx" | "reduce_fx":
                return _VIEW + _POINTWISE * max(t.elements for t in (*unit.operands, unit.result))
            case "input" | "const" | "opaque" | "item" | "identity":
                return _VIEW
            case "reshape":
                return _VIEW + _RESHAPE * unit.result.bytes
            case "slice" | "pad" | "tile" | "reverse" | "concat":
                return _VIEW + _COPY * sum(t.bytes for t in (*unit.operands, unit.result))
            case _:
                return estimated(unit, self.target)


def _has_scale(t: Type) -> bool:
    return ":" in t.dtype


def _plain(t: Type) -> Type:
    """Returns the type of integers of the same size."""
    return replace(t, dtype={1: "INT8", 2: "INT16"}.get(DType.of(t.dtype).size, "INT32"))
