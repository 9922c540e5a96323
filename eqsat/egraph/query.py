"""A rule as the engine runs it: rows to find, functions to ask, what to add. Made of terms by `eqsat/egraph/compile.py`.

A slot is a variable of egglog (its name begins with a question mark) or a number.
"""

from __future__ import annotations

from dataclasses import dataclass

from eqsat.egraph.engine import Extern

Slot = str | int
#: A function of egglog with its arguments.
Expr = Slot | tuple["Expr", ...]

#: Functions that egglog computes itself; all others are tables.
PRIMITIVES = frozenset({"+", "vec-length"})


@dataclass(frozen=True, slots=True)
class Atom:
    """A row to be there: of a constructor, a fact (result: what it says) or a relation (no result); or a sum or a length."""

    function: str
    arguments: tuple[Slot, ...]
    result: Slot | None

    def __str__(self) -> str:
        call = text((self.function, *self.arguments))
        return call if self.result is None else f"(= {self.result} {call})"


@dataclass(frozen=True, slots=True)
class Demand:
    """An extern's answer for some arguments."""

    extern: Extern
    arguments: tuple[Slot, ...]
    results: tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """Atoms and demands that must all hold, and the actions then taken: ("let", slot, what), ("set", row, what), ("union", slot, what),
    ("delete", row), or a row of a relation."""

    atoms: tuple[Atom, ...]
    demands: tuple[Demand, ...]
    actions: tuple[tuple[Expr, ...], ...]


def text(e: Expr) -> str:
    """An expression as egglog reads it."""
    return f"({' '.join(map(text, e))})" if isinstance(e, tuple) else str(e)
