"""What a cost model is given and what it answers."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from eqsat.ir import Attrs, Const, Type


@dataclass(frozen=True, slots=True)
class Unit:
    """One candidate: a chain of TOSA ops (name, attributes) on `operands`, giving `result`; `constants[i]` if operand i is constant."""

    steps: tuple[tuple[str, Attrs], ...]
    operands: tuple[Type, ...]
    result: Type
    constants: tuple[Const | None, ...] = ()

    @property
    def op(self) -> str:
        return self.steps[-1][0] if len(self.steps) == 1 else "transpose"

    def attr(self, name: str):
        return dict(self.steps[-1][1])[name]


class CostModel(Protocol):
    """Prices candidates in cycles; `float("inf")` makes one unreachable."""

    def price(self, units: Sequence[Unit]) -> list[float]:
        """Cycles of each unit standing alone, >= 0."""
        ...

    def pair(self, reader: Unit, read: Unit, reader_price: float, read_price: float, behind: Sequence[Unit]) -> float:
        """Cycles to add when `reader` reads `read` (whose own operands may come from `behind`); negative where Vela fuses them."""
        ...
