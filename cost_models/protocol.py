"""What a cost model is given and what it answers."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from eqsat.ir import Attrs, Const, Type
from eqsat.movement import Move
from eqsat.target import Target

Steps = tuple[tuple[str, Attrs], ...]


@dataclass(frozen=True, slots=True)
class Unit:
    """One candidate: a chain of TOSA ops (name, attributes) on `operands`, giving `result`.

    constants[i] is the value of operand i if it is constant. A data movement whose chain is not settled yet has no steps
    but `move`; pricing settles it.
    """

    steps: Steps
    operands: tuple[Type, ...]
    result: Type
    constants: tuple[Const | None, ...] = ()
    move: Move | None = None

    @property
    def op(self) -> str:
        return self.steps[0][0] if len(self.steps) == 1 else "transpose"

    def attr(self, name: str):
        return dict(self.steps[0][1])[name]


@dataclass(frozen=True, slots=True)
class Fusion:
    """What Vela saves when a reader meets the right neighbour: shares of the reader's and of the read unit's own price."""

    of_reader: float = 0.0
    of_read: float = 0.0


@dataclass(frozen=True, slots=True)
class Price:
    """Cycles of a unit and the steps that have them; inf: Vela refuses, or a guard forbids it."""

    cycles: float
    steps: Steps


class CostModel(Protocol):
    """Prices candidates in cycles."""

    target: Target

    def price(self, units: Sequence[Unit]) -> list[Price]:
        """Cycles of each unit standing alone, >= 0; settles the steps of movements."""
        ...

    def fusion(self, reader: Unit, read: Unit, behind: Sequence[Unit]) -> Fusion | None:
        """The pairwise term of `reader` reading `read`, whose own operands may come from `behind`."""
        ...
