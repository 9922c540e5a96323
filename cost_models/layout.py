"""Prices above TOSA's level, where nothing can be given to Vela: what moving the data costs, by closed forms.

Ops themselves cost the same in every alternative, except that a pointwise op costs more on a larger tensor. A
reordering costs what its cheapest chain of native transposes does (`eqsat/target/staging.py`), a view next to nothing.
In a quantized program (its tensors' dtypes carry parameters, `eqsat/fx/lift.py`) floats are what lies outside the NPU:
moving them there is no gain and priced so.
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
#: Cycles of what costs next to nothing, and per byte of a view.
_VIEW = 1.0
_VIEW_PER_BYTE = 0.02
#: Cycles per element of a pointwise op; per byte of a copy, and of a reordering that has no chain of native transposes.
_POINTWISE, _COPY, _DECOMPOSED = 0.5, 0.125, 4.0


def element_bytes(dtype: str) -> int:
    """Bytes of an element; a quantized dtype is written Q:int8:scale:..."""
    if dtype.startswith("Q:"):
        return {"int8": 1, "uint8": 1, "int16": 2, "uint16": 2}.get(dtype.split(":")[1], 4)
    return DType.of(dtype).size


class Layout(NodeModel):
    """See the module's text. Not among `cost_models.available()`: it prices no TOSA."""

    def price(self, units: Sequence[Unit]) -> list[Price]:
        quantized = any(t.dtype.startswith("Q:") for unit in units for t in unit.operands)
        return [self._price(unit, quantized) for unit in units]

    def _price(self, unit: Unit, quantized: bool) -> Price:
        types = (*unit.operands, unit.result)
        outside = _OUTSIDE if quantized and any(not t.dtype.startswith("Q:") for t in types) else 1.0
        if unit.move is not None or unit.op in ("transpose", "reshape"):
            return self._movement(unit, outside)
        match OPS[unit.op].fx:
            case "call" | "reduction":
                return Price(_VIEW + outside * _POINTWISE * max(t.elements for t in types), unit.steps)
            case "opaque" | "item" | "leaf":
                return Price(_VIEW, unit.steps)
            case "axial" | "concat":
                moved = sum(t.elements * element_bytes(t.dtype) for t in types)
                return Price(_VIEW + outside * _COPY * moved, unit.steps)
            case "no" | "move":  # FX has no form for it; movements are priced above
                return Price(float("inf"), unit.steps)

    def _movement(self, unit: Unit, outside: float) -> Price:
        move, steps = unit.move or _written_move(unit), unit.steps
        if unit.move is not None and not unit.move.is_view:
            steps = written(unit.move, (unit.move.squeezed(),))
        steps = steps or (("reshape", attrs_of({"shape": move.out_shape})),)
        constant = any(c is not None for c in unit.constants)
        return Price(_VIEW if constant else outside * self._cheapest(move, unit.result), steps)

    def _cheapest(self, move: Move, result: Type) -> float:
        """Cycles of the cheapest chain of native transposes."""
        size, family = element_bytes(result.dtype), self.target.family
        if move.is_view:
            return _VIEW + _VIEW_PER_BYTE * result.elements * size
        costs = []
        for chain in ways(*reordering(move), size, family):
            if all(len(shape) == 4 and shape[0] == 1 for shape, _ in chain):
                steps = [(shape[1:], tuple(p - 1 for p in native[1:])) for shape, native in chain]
                costs.append(sum(step_cycles(h, w, c, native, size, family) for (h, w, c), native in steps))
        return min(costs, default=_DECOMPOSED * result.elements * size)


def _written_move(unit: Unit) -> Move:
    shape = unit.operands[0].shape
    return (
        Move.transpose(shape, unit.attr("perms")) if unit.op == "transpose" else Move.reshape(shape, unit.attr("shape"))
    )
