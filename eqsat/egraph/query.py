"""A rule as the engine runs it: rows to find, functions to ask, and actions to take.

It is made from terms by `compile.py`.
A slot is a number or a variable of egglog, whose name begins with a question mark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from eqsat.egraph.engine import ExternTable

Slot = str | int
#: A slot, or a function of egglog with its arguments.
Expr = Slot | tuple["Expr", ...]

#: Functions that egglog computes itself; all others are tables.
PRIMITIVES = frozenset({"+", "vec-length"})


@dataclass(frozen=True, slots=True)
class Atom:
    """A row that must exist, or a sum or length that egglog computes.

    function: a constructor, a fact, a relation, or one of `PRIMITIVES`.
    result: the class, what the fact gives, or the number; None for a relation.
    """

    function: str
    arguments: tuple[Slot, ...]
    result: Slot | None


@dataclass(frozen=True, slots=True)
class Demand:
    """The results of an extern for some arguments."""

    extern: ExternTable
    arguments: tuple[Slot, ...]
    results: tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """Atoms and demands that must all hold, and the actions that are then taken.

    actions: ("let", slot, what), ("set", row, what), ("union", slot, what), ("delete", row), or a
    row of a relation.
    """

    atoms: tuple[Atom, ...]
    demands: tuple[Demand, ...]
    actions: tuple[tuple[Expr, ...], ...]

    def body(self) -> list[str]:
        """Returns the atoms as facts in egglog's syntax."""
        rows = ((a.result, text((a.function, *a.arguments))) for a in self.atoms)
        return [row if result is None else f"(= {result} {row})" for result, row in rows]


def text(e: Expr) -> str:
    """Returns an expression in egglog's syntax."""
    return f"({' '.join(map(text, e))})" if isinstance(e, tuple) else str(e)


def slots(e: Expr) -> Iterator[Slot]:
    """Yields the slots in an expression, each as often as it occurs."""
    if isinstance(e, tuple):
        for part in e:
            yield from slots(part)
    else:
        yield e
