"""What a cost model is given and what it answers.

A model prices *units*: one candidate each, a TOSA op (or a chain that moves data) with everything that its cost can
depend on by itself. What depends on the neighbours is a pairwise term (`fusion`), so that extractors can weigh both.
`total` is the model's opinion of a concrete graph; it is what `benchmarks.cost_models` holds against Vela's own total.
`NodeModel` (`node_model.py`) leaves a model with one method to write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.movement import Move
from eqsat.tensor.types import Const, Steps, Type

Granularity = Literal["node", "group", "graph"]


@dataclass(frozen=True, slots=True)
class Unit:
    """One candidate: a chain of TOSA ops on `operands`, giving `result`.

    steps: the ops with their attributes (scales, zero points, kernels...). The first reads `operands`, each other the
    one before. Nearly
        always it is one op; a data movement may take several, and has none as long as `move` says what is to be done:
        pricing settles it.
    operands, result: shapes in elements, outermost axis first, feature maps as NHWC; dtypes as TOSA names them.
    constants: the value of each operand that is constant, else None; may be shorter than `operands`.
    from_input: a movement that reads an input of the graph, which lies in rows (NHWC) and not in bricks of 16 channels.
    """

    steps: Steps
    operands: tuple[Type, ...]
    result: Type
    constants: tuple[Const | None, ...] = ()
    move: Move | None = None
    from_input: bool = False

    @property
    def op(self) -> str:
        """The name of its op; "transpose" for a movement of several or not yet settled."""
        return self.steps[0][0] if len(self.steps) == 1 else "transpose"

    def attr(self, name: str) -> Any:
        """An attribute of the first step. Raises KeyError."""
        return dict(self.steps[0][1])[name]

    def is_constant(self, operand: int) -> bool:
        return operand < len(self.constants) and self.constants[operand] is not None


@dataclass(frozen=True, slots=True)
class Fusion:
    """What Vela saves when a reader meets the right neighbour, as shares (0 none, 1 all) of the reader's and of the
    read unit's own price.
    A negative share makes it more expensive."""

    of_reader: float = 0.0
    of_read: float = 0.0


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that a unit reads and writes: activations, and the constants that stay in flash (U55) or DRAM (U65)."""

    activations: float = 0.0
    constants: float = 0.0


@dataclass(frozen=True, slots=True)
class Price:
    """The answer for one unit.

    cycles: of the NPU, >= 0, with nothing fused from outside; inf: Vela refuses it, or a guard forbids it. (Where the
    model is not
        `in_cycles`, whatever it counts.)
    steps: the ops that have this price: the unit's own, or those that a movement was settled as.
    traffic: bytes moved, if the model knows.
    copied: of what begins with a view, the cycles where the view is a copy, because the operand is read in another
    shape too (None:
        never, or not known).
    """

    cycles: float
    steps: Steps
    traffic: Traffic | None = None
    copied: float | None = None


class CostModel(Protocol):
    """Prices candidates, and graphs. It is made with (target, pool of Vela workers, price cache).

    granularity: what a price is of, single nodes, fused groups of them, or whole graphs (then `price` only guides the
    extraction and `total` decides). in_cycles: prices are cycles; else they only rank (counts, bytes).
    """

    target: Target
    granularity: Granularity
    in_cycles: bool

    def price(self, units: Sequence[Unit]) -> list[Price]:
        """The cost of each unit by itself, in the order of `units`; settles the steps of movements."""
        ...

    def fusion(self, reader: Unit, read: Unit, producers: Sequence[Unit]) -> Fusion | None:
        """The pairwise term of `reader` reading the result of `read`, which may itself read results of `producers`;
        None: no term."""
        ...

    def total(self, graph: TensorGraph) -> float:
        """The cost of a whole graph; inf if it cannot run."""
        ...
