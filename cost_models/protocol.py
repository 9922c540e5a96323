"""The protocol of cost models: units go in, prices come out.

A *unit* is one candidate: a TOSA op, or a chain that moves data, with all that its own cost depends on.
Costs that depend on neighbours are pairwise terms (`fusion`), so that extractors can weigh both.
A concrete graph costs the sum of its units and of these terms.
`NodeModel` (`node_model.py`) leaves a model one method to write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from eqsat.target import Target
from eqsat.tensor.movement import Move
from eqsat.tensor.types import Const, Steps, Type


@dataclass(frozen=True, slots=True)
class Unit:
    """One candidate: a chain of TOSA ops on `operands`, giving `result`.

    steps: the ops with their attributes (scales, zero points, kernels...).
    The first step reads `operands`, each other step the one before.
    Nearly always there is one step; a data movement may have several.
    It has none while only `move` says what is to be done; pricing then settles the steps.

    operands, result: shapes in elements, outermost axis first, feature maps as NHWC; TOSA's dtypes.
    constants: the value of each operand that is constant, else None; may be shorter than `operands`.
    move: the movement, if the unit is one.
    from_input: whether it is a movement that reads an input of the graph.
    An input lies in rows (NHWC) and not in bricks of 16 channels.
    """

    steps: Steps
    operands: tuple[Type, ...]
    result: Type
    constants: tuple[Const | None, ...] = ()
    move: Move | None = None
    from_input: bool = False

    @property
    def op(self) -> str:
        """The name of its op; "transpose" for a movement that has several steps or none yet."""
        return self.steps[0][0] if len(self.steps) == 1 else "transpose"

    def attr(self, name: str) -> Any:
        """Returns an attribute of the first step. Raises KeyError."""
        return dict(self.steps[0][1])[name]

    @property
    def is_moved(self) -> bool:
        """Whether a step transposes."""
        return any(op == "transpose" for op, _ in self.steps)

    def is_constant(self, operand: int) -> bool:
        return operand < len(self.constants) and self.constants[operand] is not None


@dataclass(frozen=True, slots=True)
class Fusion:
    """The saving when Vela fuses a reader with the unit that it reads.

    of_reader: share of the reader's own price that is saved (0 none, 1 all)
    of_read  : share of the read unit's own price that is saved
    beside   : operators, one of which the reader runs beside, so that the longer of both counts

    A negative share makes the unit more expensive.
    """

    of_reader: float = 0.0
    of_read: float = 0.0
    beside: tuple[Unit, ...] = ()

    def saving(self, reader: float, read: float, cycles: Mapping[Unit, float]) -> float:
        """Returns the cycles that are saved, of the prices of the reader, of the read unit, and of all units."""
        found = self.of_reader * reader + self.of_read * read
        return min([found, *(cycles[unit] for unit in self.beside)])


@dataclass(frozen=True, slots=True)
class Price:
    """The price of one unit.

    cycles: of the NPU, >= 0, without fusion with other units; inf if Vela or a guard forbids it
    steps: the ops that have this price: the unit's own, or those that a movement was settled as
    copied: for a unit that begins with a view, cycles of the copy that the view may need

    A model that is not `in_cycles` counts something else in `cycles`.
    A view is a copy if its operand is also read in another shape.
    `copied` is None if that never happens, or is not known.
    """

    cycles: float
    steps: Steps
    copied: float | None = None


class CostModel(Protocol):
    """A model that prices candidates; it is made with (target, pool of Vela workers, price cache).

    in_cycles: whether prices are cycles; otherwise they only rank (counts, bytes).
    """

    target: Target
    in_cycles: bool

    def price(self, units: Sequence[Unit]) -> list[Price]:
        """Returns the price of each unit by itself, in the order of `units`, and settles the steps of movements."""
        ...

    def fusion(self, reader: Unit, read: Unit, producers: Sequence[Unit]) -> Fusion | None:
        """Returns the pairwise term of `reader` reading the result of `read`, None if there is none.

        producers: units whose results `read` may read.
        """
        ...
