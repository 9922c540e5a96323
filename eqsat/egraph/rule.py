"""Rules: identities between terms.

    rule("move-move", n(m(x)), then(m, n)(x))
    rule("axial-nothing", f(x), x, where=does_nothing(f, x), removes=True)
    rule("curve-unary", curve(x, f(y)), follow(f, curve(x, y)))

The first rule joins two values.
The second one also removes the e-node on its left side, which is not needed any more.
The third one is an analysis rule, which sets a fact.
The statement of a rule is printed from its terms, so it is what runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from eqsat.egraph import engine
from eqsat.egraph.kinds import VALUE, VALUES, Kind, RuleError
from eqsat.egraph.log import Log
from eqsat.egraph.pattern import Demand, Expr, Pattern, Query, Role, is_leaf, operands_of, text
from eqsat.egraph.terms import is_of
from eqsat.egraph.tree import (
    Apply,
    Compute,
    Each,
    Extern,
    Joined,
    Let,
    Lookup,
    Partial,
    Sublist,
    Symbol,
    Term,
    Vector,
    term,
)

# Compiles the terms of a rule to a query and actions, which the engine runs.


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule in the form that the engine runs.

    functions: those that the rule calls, in the order of use.
    declarations: {name: command} of the facts and postponed operators that the rule needs declared.
    needs: kinds of attributes without which the rule matches nothing.
    """

    query: Query
    functions: tuple[Extern[..., Any], ...]
    declarations: dict[str, str]
    needs: frozenset[Kind]


def compile_rule(left: Term, right: Term, where: Sequence[Term], removes: bool) -> CompiledRule:
    """Compiles the rule `left = right`, which applies wherever all of `where` holds.

    removes: whether the e-node on the left is deleted.
    Raises RuleError if the rule is not well-formed.
    """
    pattern = Pattern()
    if not isinstance(left, Lookup):
        pattern.root = pattern.slot(left, VALUE, Role.USE if isinstance(left, Symbol) else Role.MATCH)
    rows = [c for c in where if not isinstance(c, Compute)]
    for c in [*rows, *(c for c in where if isinstance(c, Compute))]:
        pattern.condition(c)
    actions = _Actions(pattern)
    if isinstance(left, Lookup):
        actions.know(left, right)
    else:
        actions.join(right)
        if removes:
            actions.remove(left)
    _guard(pattern)
    unbound = [s for s in pattern.symbols if s not in pattern.bound]
    if unbound:
        raise RuleError(f"{', '.join(map(str, unbound))} is on no left side: nothing binds it")
    atoms = tuple(a for a in pattern.atoms if a is not None)
    query = Query(atoms, tuple(pattern.demands), tuple(actions.made))
    functions = tuple(dict.fromkeys(c.function for c in pattern.calls))
    needs = frozenset(s.kind for s in pattern.symbols if s.kind.sort == "i64" and s.kind.type is not int)
    declarations = {x.symbol: x.declaration for x in pattern.declared if x.declaration}
    return CompiledRule(query, functions, declarations, needs)


def _guard(pattern: Pattern) -> None:
    """Prepends a test of the kind of each narrow symbol that no called function tests (`Extern.table`)."""
    looked = {
        a
        for call in pattern.calls
        for a, k in zip(call.arguments, call.function.takes(len(call.arguments)) or (), strict=True)
        if isinstance(a, Symbol) and k.implies(a.kind)
    }
    guards = [s for s in pattern.bound if s.kind.is_narrow and s not in looked]
    for s in sorted(guards, key=lambda s: s.name, reverse=True):
        pattern.demands.insert(0, Demand(is_of(s.kind).table(1), (f"?{s.name}_",), ()))


class _Actions:
    """The actions of a rule, in the engine's order. Methods raise RuleError for terms that do not fit together."""

    def __init__(self, pattern: Pattern):
        self.pattern = pattern
        self.made: list[tuple[Expr, ...]] = []

    def join(self, right: Term) -> None:
        """Adds the union of the left side's class with the value of the right side."""
        assert self.pattern.root is not None
        self.made.append(("union", self.pattern.root, self._value(right)))

    def know(self, left: Lookup, right: Term) -> None:
        """Adds what a fact gives."""
        row = (left.fact.symbol, *self.pattern.keys(left, Role.KEY))
        if left.fact.gives is None:
            raise RuleError(f"{left} holds or not: it cannot be {right}")
        while isinstance(right, Let):
            right = right.body
        what = self._vector(right) if left.fact.gives == VALUES else self.pattern.slot(right, left.fact.gives, Role.USE)
        self.made.append(("set", row, what))

    def remove(self, left: Term) -> None:
        """Adds the deletion of the e-node on the left."""
        row = next((a for a in self.pattern.atoms if a and a.result == self.pattern.root), None)
        if row is None or not isinstance(left, Apply):
            raise RuleError("there is no e-node on the left to be removed")
        self.made.append(("delete", (row.function, *row.arguments)))

    def _value(self, t: Term) -> Expr:
        """Returns the expression of a value."""
        if isinstance(t, Let):
            return self._value(t.body)
        if is_leaf(t):
            t = Apply(t, ())
        if not isinstance(t, Apply):
            return self.pattern.slot(t, VALUE, Role.USE)
        if (known := self.pattern.find(t)) is not None:
            return known
        name, attributes = self.pattern.operator(t.operator, Role.USE)
        operands = (self._vector(o) if k == VALUES else self._value(o) for o, k in operands_of(t, name))
        return (name, *attributes, *operands)

    def _vector(self, t: Term) -> Expr:
        """Returns the expression of a vector of operands."""
        if isinstance(t, Vector):
            return ("vec-of", *(self._value(x) for x in t.items)) if t.items else ("vec-empty",)
        if isinstance(t, Joined):
            return ("vec-append", self._vector(t.first), self._vector(t.second))
        if isinstance(t, Each):
            name, attributes = self.pattern.operator(t.operator, Role.USE)
            return ("unstable-vec-map", ("unstable-fn", f'"{name}"', *attributes), self._vector(t.vector))
        if isinstance(t, Sublist):
            return self._replace(t)
        return self.pattern.slot(t, VALUES, Role.USE)

    def _replace(self, t: Sublist) -> Expr:
        """Returns the expression of a vector with one operand in place of those of its sublist."""
        there, start = self.pattern.sublists.get(t.vector, (None, 0))
        if there is None or (there.before, there.after) != (t.before, t.after):
            raise RuleError(f"the pattern has no such sublist as {t}")
        if len(t.items) != 1:
            raise RuleError(f"one value takes the place of a sublist, and {t} has {len(t.items)}")
        shorter: Expr = self.pattern.slot(t.vector, VALUES, Role.USE)
        for k in reversed(range(1, len(there.items))):
            shorter = ("vec-remove", shorter, self.pattern.place(start, k))
        return ("vec-set", shorter, start, self._value(t.items[0]))


@dataclass(frozen=True, eq=False)
class Rule:
    """An identity left = right, which applies wherever all of `where` holds.

    removes: whether the e-node on the left is deleted.
    place: the file and line of the definition.
    forget: called before each saturation, since functions may remember facts of one graph.
    Raises RuleError if the rule is not well-formed.
    """

    name: str
    family: str
    left: Term
    right: Term
    where: tuple[Term, ...] = ()
    removes: bool = False
    place: str = ""
    forget: Callable[[], None] | None = None
    compiled: CompiledRule = field(init=False, repr=False)

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "compiled", compile_rule(self.left, self.right, self.where, self.removes))
        except RuleError as e:
            raise RuleError(f"{self.place}: the rule {self.name!r} cannot be: {e}") from None

    @property
    def analysis(self) -> bool:
        """Whether the rule only sets a fact; such rules run to a fixpoint before each pass of the others."""
        return isinstance(self.left, Lookup)

    @property
    def helps(self) -> str:
        """egglog's name of the fact or postponed operator that the rule makes for other rules, "" for a rewrite."""
        if isinstance(self.left, Lookup):
            return self.left.fact.symbol
        operator = self.left.operator if isinstance(self.left, Apply) else None
        return operator.postponed.symbol if isinstance(operator, Partial) else ""

    @cached_property
    def statement(self) -> str:
        """The identity as text on one line."""
        lets = [f"{', '.join(t.names)} = {t.call}" for t in _lets(self.right)]
        where = "; ".join([*lets, *map(str, self.where)])
        return (
            f"{self.left} = {self.right}"
            + (f", where {where}" if where else "")
            + (" (removal)" if self.removes else "")
        )

    @cached_property
    def log(self) -> Log:
        """The log of a rewrite."""
        return Log(self.name, self.compiled.query)

    def for_engine(self, logged: bool = False) -> engine.EgglogRule:
        """Returns the rule in the form that the engine takes. logged: whether a rewrite logs its instances."""
        log = self.log if logged and not self.analysis else None
        q = log.query if log else self.compiled.query
        calls = tuple(
            (" ".join(map(text, d.results)), d.extern.name, " ".join(map(text, d.arguments))) for d in q.demands
        )
        body, head, then = tuple(q.body()), tuple(map(text, q.actions)), log.then if log else ()
        return engine.EgglogRule(self.name, body, head, calls, self.analysis, self.compiled.needs, then)


def rule(
    name: str,
    left: Term,
    right: Any,
    *,
    where: Term | Sequence[Term] = (),
    removes: bool = False,
    family: str = "",
    forget: Callable[[], None] | None = None,
) -> Rule:
    """Returns the rule `left = right`, which applies wherever all of `where` holds.

    removes: whether the e-node on the left is deleted, so that no class is computed from itself.
    forget: called before each saturation, for functions that remember facts of a graph.
    Raises RuleError if the rule is not well-formed.
    """
    frame = sys._getframe(1)
    place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    conditions = (where,) if isinstance(where, Term) else tuple(where)
    return Rule(name, family, term(left), term(right), conditions, removes, place, forget)


def _lets(t: Any) -> Iterator[Let]:
    """Yields the parts of a term in which results have names, the outer ones first."""
    if isinstance(t, Let):
        yield t
        yield from _lets(t.body)
    elif isinstance(t, Term):
        for part in fields(t):
            yield from _lets(getattr(t, part.name))
    elif isinstance(t, tuple):
        for part in t:
            yield from _lets(part)


def with_helpers(rules: Iterable[Rule], among: Sequence[Rule]) -> tuple[Rule, ...]:
    """Returns rules, with those of `among` that make the facts and operators that they need.

    A fact or postponed operator that one of the rules makes needs no other.
    Raises ValueError if no rule makes one.
    """
    found = dict.fromkeys(rules)
    while missing := {x for r in found for x in r.compiled.declarations} - {r.helps for r in found}:
        if unmade := missing - {r.helps for r in among}:
            raise ValueError(f"no rule makes {', '.join(sorted(map(str, unmade)))}")
        found |= dict.fromkeys(r for r in among if r.helps in missing)
    return tuple(found)
