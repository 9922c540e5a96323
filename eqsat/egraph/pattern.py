"""Compiles the left side and the conditions of a rule to rows that must be found and functions to call.

Each term becomes a slot. A symbol is bound by a row that holds it.
A function is called once its arguments are known, so its results bind no symbol.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from eqsat.egraph.engine import ExternTable
from eqsat.egraph.kinds import INDEX, LEAF, OPERANDS, VALUE, VALUES, Kind, RuleError
from eqsat.egraph.terms import type_of
from eqsat.egraph.tree import (
    Apply,
    CallResult,
    Compute,
    Fact,
    LeftSide,
    Length,
    Lookup,
    Number,
    Partial,
    Postponed,
    Sublist,
    Sum,
    Symbol,
    Term,
    Vector,
)
from eqsat.tensor.types import Type

#: A number, or a variable of egglog, whose name begins with a question mark.
Slot = str | int
#: A slot, or a function of egglog with its arguments.
Expr = Slot | tuple["Expr", ...]


@dataclass(frozen=True, slots=True)
class Atom:
    """A row that must exist, or a sum or length that egglog computes.

    function: a constructor, a fact, a relation, or a primitive of egglog (`+`, `vec-length`).
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

    actions: ("let", slot, what), ("set", row, what), ("union", slot, what), ("delete", row), or a row of a relation.
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


class Role(Enum):
    """The purpose of a term.

    MATCH: to be matched in the e-graph.
    KEY: to be a key of the fact that the rule sets.
    USE: to be an argument of a function, or a part of the right side.
    """

    MATCH = "match"
    KEY = "key"
    USE = "use"


class Pattern:
    """The rows and demands of a rule, and the slots of its terms.

    Methods raise RuleError for terms that do not fit together.
    atoms: rows; None stands for one that is reserved.
    bound: symbols that a row holds.
    symbols: all symbols, in the order of use.
    declared: facts and postponed operators that must be declared before the rule.
    root: the slot of the left side, None if that is a fact.
    calls: {call: slots of its results}.
    """

    def __init__(self) -> None:
        self.atoms: list[Atom | None] = []
        self.demands: list[Demand] = []
        self.bound: set[Symbol] = set()
        self.symbols: dict[Symbol, None] = {}
        self.declared: dict[Fact | Postponed, None] = {}
        #: {vector: (its sublist, the slot of the position where that begins)}.
        self.sublists: dict[Term, tuple[Sublist, Slot]] = {}
        self.root: Slot | None = None
        self.calls: dict[Compute, tuple[Slot, ...]] = {}
        self._slots: dict[Term, Slot] = {}
        self._fresh = 0

    def fresh(self) -> str:
        """Returns a new slot, whose name is no identifier and so no symbol's."""
        self._fresh += 1
        return f"?.{self._fresh}_"

    def slot(self, t: Term, kind: Kind, role: Role = Role.MATCH) -> Slot:
        """Returns the slot of a term."""
        if kind.type is Type and is_value(t):
            return self._lookup(Lookup(type_of, (t,)), Role.USE)
        if kind == VALUE and is_leaf(t):
            t = Apply(t, ())
        if isinstance(t, Symbol):
            return self._symbol(t, kind, role)
        if isinstance(t, LeftSide) and kind == VALUE:
            if self.root is None:
                raise RuleError("LHS is no value here: the left side is a fact")
            return self.root
        if kind == INDEX:
            return self._index(t, role)
        if isinstance(t, Apply) and kind == VALUE:
            return self._apply(t, role)
        if isinstance(t, Sublist | Vector) and kind == VALUES and role is not Role.USE:
            return self._sublist(t)
        return self._attribute(t, kind, role)

    def _symbol(self, s: Symbol, kind: Kind, role: Role) -> Slot:
        if not kind.includes(s.kind):
            raise RuleError(f"{s} is a {s.kind.name}, and a {kind.name} is wanted")
        other = next((o for o in self.symbols if o.name == s.name and o != s), None)
        if other:
            raise RuleError(f"two variables are called {s}: a {s.kind.name} and a {other.kind.name}")
        self.symbols[s] = None
        if role is Role.MATCH:
            self.bound.add(s)
        return f"?{s.name}_"

    def _attribute(self, t: Term, kind: Kind, role: Role) -> Slot:
        """Returns the slot of an attribute or vector that a fact or a function gives."""
        if isinstance(t, Lookup) and t.fact.gives is not None:
            given = t.fact.gives
        elif isinstance(t, CallResult) and role is not Role.MATCH:
            given = t.kind
        else:
            raise RuleError(f"{t} stands where a {kind.name} is wanted")
        if not kind.includes(given):
            raise RuleError(f"{t} is a {given.name}, and a {kind.name} is wanted")
        return self._lookup(t) if isinstance(t, Lookup) else self.results(t.call)[t.k]

    # -- rows -------------------------------------------------------------------------------------

    def _apply(self, t: Apply, role: Role) -> Slot:
        """Returns the slot of an e-node of the pattern, whose row is added with its first use."""
        if t in self._slots:
            return self._slots[t]
        if role is Role.USE:
            raise RuleError(f"{t} is no part of the pattern")
        row = self._reserve()
        out = self._slots[t] = self.fresh()
        name, attributes = self.operator(t.operator, Role.MATCH)
        operands = [self.slot(o, k) for o, k in operands_of(t, name)]
        self.atoms[row] = Atom(name, (*attributes, *operands), out)
        return out

    def find(self, t: Term) -> Slot | None:
        """Returns the slot of a term that the pattern contains, or None."""
        return self._slots.get(t)

    def operator(self, t: Term, role: Role) -> tuple[str, tuple[Slot, ...]]:
        """Returns (constructor, slots of the attributes) of an operator."""
        if isinstance(t, Partial):
            self.declared[t.postponed] = None
            if len(t.attributes) != len(t.postponed.attributes):
                raise RuleError(f"{t.postponed.name} has {len(t.postponed.attributes)} attributes: {t}")
            pairs = zip(t.attributes, t.postponed.attributes, strict=True)
            return t.postponed.symbol, tuple(self.slot(a, k, role) for a, k in pairs)
        if not isinstance(t, Symbol | CallResult) or not t.kind.constructor:
            raise RuleError(f"{t} is applied to operands and is no operator")
        return t.kind.constructor, (self.slot(t, t.kind, role),)

    def condition(self, t: Term) -> None:
        """Adds a condition: a function that returns a bool, a fact, or a value that must exist."""
        if isinstance(t, Compute):
            if t.results:
                raise RuleError(f"{t} is no condition: it gives something")
            self.results(t)
        elif isinstance(t, Lookup):
            self._lookup(t)
        else:
            self.slot(t, VALUE)

    def _reserve(self) -> int:
        """Reserves a row, which precedes those of its operands, and returns its position."""
        self.atoms.append(None)
        return len(self.atoms) - 1

    # -- facts and functions ----------------------------------------------------------------------

    def _lookup(self, t: Lookup, role: Role = Role.MATCH) -> Slot:
        if t not in self._slots:
            keys = self.keys(t, role)
            out = self.fresh() if t.fact.gives else None
            self._slots[t] = out or 0
            self.atoms.append(Atom(t.fact.symbol, keys, out))
        return self._slots[t]

    def keys(self, t: Lookup, role: Role) -> tuple[Slot, ...]:
        """Returns the slots of the keys of a fact."""
        self.declared[t.fact] = None
        if len(t.keys) != len(t.fact.keys):
            raise RuleError(f"the fact {t.fact.name} has {len(t.fact.keys)} keys, not {len(t.keys)}: {t}")
        return tuple(self.slot(k, kind, role) for k, kind in zip(t.keys, t.fact.keys, strict=True))

    def results(self, call: Compute) -> tuple[Slot, ...]:
        """Returns the slots of a function's results."""
        if call not in self.calls:
            kinds = call.function.takes(len(call.arguments))
            if kinds is None:
                raise RuleError(f"{call.function.name} does not take {len(call.arguments)} arguments: {call}")
            arguments = tuple(self.slot(a, k, Role.USE) for a, k in zip(call.arguments, kinds, strict=True))
            self.calls[call] = tuple(self.fresh() for _ in call.results)
            self.demands.append(Demand(call.function.table(len(call.arguments)), arguments, self.calls[call]))
        return self.calls[call]

    # -- vectors ----------------------------------------------------------------------------------

    def _sublist(self, t: Sublist | Vector) -> Slot:
        """Returns the slot of a vector, and adds the rows of the operands in its sublist."""
        sublist = t if isinstance(t, Sublist) else Sublist(t, False, t.items, False)
        if sublist.vector in self.sublists:
            raise RuleError(f"{sublist.vector} has two sublists in the pattern")
        vector = self.slot(sublist.vector, VALUES) if isinstance(t, Sublist) else self.fresh()
        start: Slot = self.fresh() if sublist.before else 0
        self.sublists[sublist.vector] = sublist, start
        if not sublist.after:
            self.atoms.append(Atom("vec-length", (vector,), self.place(start, len(sublist.items))))
        for k, item in enumerate(sublist.items):
            place, row = self.place(start, k), self._reserve()
            self.atoms[row] = Atom("element", (vector, place, self.slot(item, VALUE)), None)
        return vector

    def place(self, start: Slot, more: int) -> Slot:
        """Returns the slot of the position that follows another one by `more` operands."""
        if isinstance(start, int):
            return start + more
        if not more:
            return start
        known = (a.result for a in self.atoms if a and (a.function, a.arguments) == ("+", (start, more)))
        found = next(known, None)
        if found is None:
            found = self.fresh()
            self.atoms.append(Atom("+", (start, more), found))
        return found

    def _index(self, t: Term, role: Role) -> Slot:
        """Returns the slot of a position in a vector."""
        if isinstance(t, Number):
            return t.value
        if isinstance(t, Sum):
            return self.place(self.slot(t.index, INDEX, Role.USE), t.more)
        if isinstance(t, Length):
            if t not in self._slots:
                self._slots[t] = self.fresh()
                self.atoms.append(Atom("vec-length", (self.slot(t.vector, VALUES, role),), self._slots[t]))
            return self._slots[t]
        return self._attribute(t, INDEX, role)


def is_leaf(t: Term) -> bool:
    """Tells whether a term is the attribute of a leaf, which may stand for the leaf itself."""
    return isinstance(t, Symbol | CallResult) and LEAF.includes(t.kind)


def is_value(t: Term) -> bool:
    """Tells whether a term is a tensor."""
    return isinstance(t, Apply | LeftSide) or is_leaf(t) or (isinstance(t, Symbol) and t.kind == VALUE)


def operands_of(t: Apply, constructor: str) -> list[tuple[Term, Kind]]:
    """Returns the operands of a term with their kinds. Raises RuleError if the operator takes more or fewer."""
    kinds = OPERANDS.get(constructor, (VALUE,))
    if len(kinds) != len(t.operands):
        raise RuleError(f"{t.operator} takes {len(kinds)} operands, not {len(t.operands)}: {t}")
    return list(zip(t.operands, kinds, strict=True))
