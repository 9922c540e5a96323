"""What a cost model is given and what it answers.

A model prices *units*: one candidate each, a TOSA op (or a chain that moves data) with everything that its cost can depend on
by itself. What depends on the neighbours is a pairwise term (`fusion`), so that extractors can weigh both. `total` is
the model's opinion of a concrete graph; it is what `benchmarks.cost_models` holds against Vela's own total. `NodeModel`
(`node_model.py`) leaves a model with one method to write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.movement import Move
from eqsat.tensor.types import Attrs, Const, Type

Steps = tuple[tuple[str, Attrs], ...]


@dataclass(frozen=True, slots=True)
class Unit:
    """One candidate: a chain of TOSA ops (name, attributes: scales, zero points, kernels...) on `operands`, giving `result`.

    constants[i] is the value of operand i if it is constant. A data movement whose chain is not settled yet has no steps
    but `move`; pricing settles it. from_input: a movement that reads an input of the graph, which lies in linear format.
    """

    steps: Steps
    operands: tuple[Type, ...]
    result: Type
    constants: tuple[Const | None, ...] = ()
    move: Move | None = None
    from_input: bool = False

    @property
    def op(self) -> str:
        return self.steps[0][0] if len(self.steps) == 1 else "transpose"

    def attr(self, name: str) -> Any:
        return dict(self.steps[0][1])[name]

    def is_constant(self, operand: int) -> bool:
        return operand < len(self.constants) and self.constants[operand] is not None


@dataclass(frozen=True, slots=True)
class Fusion:
    """What Vela saves when a reader meets the right neighbour: shares of the reader's and of the read unit's own price."""

    of_reader: float = 0.0
    of_read: float = 0.0


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that a unit reads and writes: activations, and the constants that stay in flash (U55) or DRAM (U65)."""

    activations: float = 0.0
    constants: float = 0.0


@dataclass(frozen=True, slots=True)
class Price:
    """Cycles of a unit and the steps that have them; inf: Vela refuses, or a guard forbids it. Traffic if the model knows it.

    copied: of what begins with a view, the cycles where it is a copy, because the operand is read in another shape too (None: never, or
    not known).
    """

    cycles: float
    steps: Steps
    traffic: Traffic | None = None
    copied: float | None = None


class CostModel(Protocol):
    """Prices candidates, and graphs.

    grain: what a price is of, single nodes, fused groups of them, or whole graphs (then `price` only guides the extraction and
    `total` decides). in_cycles: prices are cycles; else they only rank (counts, bytes).
    """

    target: Target
    grain: Literal["node", "group", "graph"]
    in_cycles: bool

    def price(self, units: Sequence[Unit]) -> list[Price]:
        """The cost of each unit standing alone, >= 0; settles the steps of movements."""
        ...

    def fusion(self, reader: Unit, read: Unit, behind: Sequence[Unit]) -> Fusion | None:
        """The pairwise term of `reader` reading `read`, whose own operands may come from `behind`."""
        ...

    def total(self, graph: TensorGraph) -> float:
        """The cost of a whole graph; inf if it cannot run."""
        ...
