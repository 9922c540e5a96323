"""Prices of FX programs, which Vela cannot compile: closed forms of the cost of data movement.

Other ops cost the same in every alternative, except that pointwise ops cost more on larger tensors.
A reordering costs what its cheapest chain of native transposes does (`eqsat/target/staging.py`).
A view costs nearly nothing.
In a quantized program the dtypes of tensors carry parameters (`vocabulary.QParams`).
There floats are outside of the NPU, so moving data to them is priced as a loss.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from cost_models.node_model import NodeModel
from cost_models.protocol import Price, Unit
from eqsat.before_lowering.vocabulary import QParams
from eqsat.choice.choice import build
from eqsat.egraph.encoding import saturate
from eqsat.options.options import Options
from eqsat.target import Target
from eqsat.target.native_chains import step_cycles
from eqsat.target.staging import TransposeSteps, reordering, ways, written
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.movement import Move
from eqsat.tensor.types import Steps, Type, attrs_of
from extraction import extract

#: Factor of the cost of an element that is moved or computed outside of the NPU.
_OUTSIDE = 16.0
#: Cycles of an op that costs nearly nothing.
_VIEW = 1.0
#: Cycles per byte of a view.
_VIEW_PER_BYTE = 0.02
#: Cycles per element of a pointwise op.
_POINTWISE = 0.5
#: Cycles per byte of a copy.
_COPY = 0.125
#: Cycles per byte of a reordering that has no chain of native transposes.
_DECOMPOSED = 4.0


def cheapest(graph: TensorGraph, target: Target, options: Options) -> tuple[TensorGraph, float, float]:
    """Returns the equal graph of least data movement, its cost and that of `graph`, in cycles.

    Raises EngineError, GraphError, ExtractionError.
    """
    model = MovementCost(target)
    before = extract(build(saturate(graph, [], options.budget), model).graph, "dag_greedy").cost
    choices = build(saturate(graph, options.identities(target), options.budget), model)
    found = extract(choices.graph, options.extractor, time_limit=options.time_limit).unless_interrupted()
    return choices.written(found.choice)[0], float(found.cost), float(before)


def element_bytes(dtype: str) -> int:
    """Returns the bytes of an element; a quantized dtype is written Q:int8:scale:..."""
    q = QParams.parse(dtype)
    return q.dtype.itemsize if q else DType.of(dtype).size


class MovementCost(NodeModel):
    """The cost model of this module.

    `cost_models.available()` lacks it, since it prices no TOSA.
    """

    def price(self, units: Sequence[Unit]) -> list[Price]:
        quantized = any(t.dtype.startswith("Q:") for unit in units for t in unit.operands)
        return [self._price(unit, quantized) for unit in units]

    def _price(self, unit: Unit, quantized: bool) -> Price:
        types = (*unit.operands, unit.result)
        outside = _OUTSIDE if quantized and any(not t.dtype.startswith("Q:") for t in types) else 1.0
        match unit.op:
            case "transpose" | "reshape":
                cycles, steps = self._movement(unit)
                return Price(_VIEW if any(unit.constants) else outside * cycles, steps)
            case "fx" | "reduce_fx":
                return Price(_VIEW + outside * _POINTWISE * max(t.elements for t in types), unit.steps)
            case "input" | "const" | "opaque" | "item" | "identity":
                return Price(_VIEW, unit.steps)
            case "slice" | "pad" | "tile" | "reverse" | "concat":
                moved = sum(t.elements * element_bytes(t.dtype) for t in types)
                return Price(_VIEW + outside * _COPY * moved, unit.steps)
            case _:
                # FX has no form for any other operator.
                return Price(math.inf, unit.steps)

    def _movement(self, unit: Unit) -> tuple[float, Steps]:
        """Returns the cycles of the cheapest way to write a movement, and that way."""
        start, result = unit.operands[0].shape, unit.result
        move = unit.move
        if move is None:
            transposes = unit.op == "transpose"
            move = Move.transpose(start, unit.attr("perms")) if transposes else Move.reshape(start, result.shape)
        if move.is_view:
            bytes_viewed = result.elements * element_bytes(result.dtype)
            return _VIEW + _VIEW_PER_BYTE * bytes_viewed, (("reshape", attrs_of({"shape": result.shape})),)
        cycles, chain = min(self._chains(move, result), key=lambda found: found[0])
        direct = move.direct()
        if len(chain) == 1 and direct is not None:
            return cycles, (("transpose", attrs_of({"perms": direct})),)
        return cycles, written(move, chain)

    def _chains(self, move: Move, result: Type) -> Iterator[tuple[float, TransposeSteps]]:
        """Yields (cycles, steps) of chains of native transposes, or else of the plain one, which Vela decomposes."""
        size, family = element_bytes(result.dtype), self.target.family
        for chain in ways(*reordering(move), size, family):
            if any(len(shape) != 4 or shape[0] != 1 for shape, _ in chain):
                yield _DECOMPOSED * result.elements * size, (move.squeezed(),)
                continue
            steps = [(shape[1:], tuple(p - 1 for p in native[1:])) for shape, native in chain]
            yield sum(step_cycles(h, w, c, native, size, family) for (h, w, c), native in steps), chain
