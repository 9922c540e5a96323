"""A rule as the engine runs it: rows to find, functions to ask, and actions to take.

It is made from terms by `compile.py`.
A slot is a number or a variable of egglog, whose name begins with a question mark.
"""

from __future__ import annotations

from collections import Counter
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
        """Returns the atoms as facts in egglog's syntax.

        An e-node that is only an operand of another one is written inside that.
        """
        uses = Counter(slots((tuple((*a.arguments, a.result or 0) for a in self.atoms), self.actions)))
        uses.update(s for d in self.demands for s in d.arguments)
        operands = {s for a in self.atoms if a.function not in PRIMITIVES for s in a.arguments}
        inner = {a.result: a for a in self.atoms if a.function[0].isupper() and a.result in operands}
        inner = {slot: a for slot, a in inner.items() if uses[slot] == 2}

        def call(a: Atom) -> Expr:
            return (a.function, *(call(inner[s]) if s in inner else s for s in a.arguments))

        outer = [(a.result, text(call(a))) for a in self.atoms if a not in inner.values()]
        return [written if result is None else f"(= {result} {written})" for result, written in outer]


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
