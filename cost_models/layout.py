"""Prices above TOSA's level, where nothing can be given to Vela: what moving the data costs, by closed forms.

Ops themselves cost the same in every alternative, except that a pointwise op costs more on a larger tensor. A reordering costs
what its cheapest chain of native transposes does (`eqsat.staging`), a view next to nothing. In a quantized program (its tensors'
dtypes carry parameters, `eqsat/fx/lift.py`) floats are what lies outside the NPU: moving them there is no gain and priced so.
"""

from __future__ import annotations

from collections.abc import Sequence

from cost_models.node_model import NodeModel
from cost_models.protocol import Price, Unit
from eqsat.target.staging import reordering, step_cycles, ways, written
from eqsat.tensor.dtypes import DType
from eqsat.tensor.movement import Move
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Type, attrs_of

#: How many times as much it costs to move or compute an element outside the NPU.
_OUTSIDE = 16.0
_VIEW = 1.0
_VIEW_PER_BYTE = 0.02
#: Cycles per element of a pointwise op, and of a copy per byte.
_POINTWISE, _COPY = 0.5, 0.125


def element_bytes(dtype: str) -> int:
    """Bytes of an element; a quantized dtype is written Q:int8:scale:..."""
    if dtype.startswith("Q:"):
        return {"int8": 1, "uint8": 1, "int16": 2, "uint16": 2}.get(dtype.split(":")[1], 4)
    return DType.of(dtype).size


class Layout(NodeModel):
    """See the module's text. Not among `cost_models.available()`: it prices no TOSA."""

    def price(self, units: Sequence[Unit]) -> list[Price]:
        quantized = any(t.dtype.startswith("Q:") for u in units for t in u.operands)
        return [self._price(u, quantized) for u in units]

    def _price(self, u: Unit, quantized: bool) -> Price:
        outside = _OUTSIDE if quantized and any(not t.dtype.startswith("Q:") for t in (*u.operands, u.result)) else 1.0
        if u.move is not None or u.op in ("transpose", "reshape"):
            m = u.move or self._written_move(u)
            steps = written(m, (m.squeezed(),)) if u.move is not None and not m.is_view else u.steps
            steps = steps or (("reshape", attrs_of({"shape": m.out_shape})),)
            constant = any(c is not None for c in u.constants)
            return Price(_VIEW if constant else outside * self._move(m, u.result), steps)
        match OPS[u.op].fx:
            case "call" | "reduction":
                return Price(_VIEW + outside * _POINTWISE * max(t.elements for t in (*u.operands, u.result)), u.steps)
            case "opaque" | "item" | "leaf":
                return Price(_VIEW, u.steps)
            case "axial" | "concat":
                moved = sum(t.elements * element_bytes(t.dtype) for t in (*u.operands, u.result))
                return Price(_VIEW + outside * _COPY * moved, u.steps)
            case "no" | "move":  # FX has no form for it; movements are priced above
                return Price(float("inf"), u.steps)

    @staticmethod
    def _written_move(u: Unit) -> Move:
        shape = u.operands[0].shape
        return Move.transpose(shape, u.attr("perms")) if u.op == "transpose" else Move.reshape(shape, u.attr("shape"))

    def _move(self, m: Move, result: Type) -> float:
        size = element_bytes(result.dtype)
        if m.is_view:
            return _VIEW + _VIEW_PER_BYTE * result.elements * size
        sizes, perm = reordering(m)
        chains = ways(sizes, perm, size, self.target.family)
        costs = [
            sum(
                step_cycles(*shape[1:], tuple(p - 1 for p in native[1:]), size, self.target.family)
                for shape, native in c
            )
            for c in chains
            if all(len(shape) == 4 and shape[0] == 1 for shape, _ in c)
        ]
        return min(costs, default=4.0 * result.elements * size)
