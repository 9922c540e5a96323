"""Rules: identities between terms.

    rule("move-move", n(m(x)), then(m, n)(x))                                  # two values are equal
    rule("axial-nothing", f(x), x, where=does_nothing(f, x), removes=True)       # and the e-node on the left is not
    needed any more rule("curve-unary", curve(x, f(y)), follow(f, curve(x, y)))                # a fact: an analysis
    rule

What a rule says, its statement, is printed from its terms, so it is what runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from eqsat.egraph import engine
from eqsat.egraph.compile import CompiledRule, compile_rule
from eqsat.egraph.kinds import RuleError
from eqsat.egraph.query import text
from eqsat.egraph.tree import Apply, Fact, Function, Let, Lookup, Partial, Postponed, Term, term


@dataclass(frozen=True, eq=False)
class Rule:
    """left = right, where all of `where` holds. `place`: the file and line where it is defined. `forget`: called before
    each saturation, as what functions of the rule remember is of one graph. Raises RuleError if it cannot be."""

    name: str
    family: str
    left: Term
    right: Term | None
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
        """Whether it only adds to what is known. Such rules run to a fixpoint before each pass of the others."""
        return isinstance(self.left, Lookup)

    @property
    def helps(self) -> str:
        """The fact or postponed operator that it makes for other rules, as egglog knows it; "" for a rewrite."""
        if isinstance(self.left, Lookup):
            return self.left.fact.symbol
        operator = self.left.operator if isinstance(self.left, Apply) else None
        return operator.postponed.symbol if isinstance(operator, Partial) else ""

    @cached_property
    def statement(self) -> str:
        """The identity on one line."""
        lets = [f"{', '.join(t.names)} = {t.call}" for t in _lets(self.right)]
        where = "; ".join([*lets, *map(str, self.where)])
        return (
            (str(self.left) if self.right is None else f"{self.left} = {self.right}")
            + (f", where {where}" if where else "")
            + (" (removal)" if self.removes else "")
        )

    @property
    def functions(self) -> tuple[Function, ...]:
        """What it calls, in the order of use."""
        return self.compiled.functions

    @property
    def externs(self) -> list[engine.ExternTable]:
        """The tables of the functions that it calls."""
        return [d.extern for d in self.compiled.query.demands]

    @property
    def declarations(self) -> dict[str, str]:
        """What egglog must know of before the rule: {name: command}, besides the language itself."""
        declared: list[Fact | Postponed] = [*self.compiled.facts, *self.compiled.postponed]
        return {x.symbol: x.declaration for x in declared if x.declaration}

    def for_engine(self) -> engine.EgglogRule:
        """The rule as the engine takes it."""
        q = self.compiled.query
        calls = tuple(
            (" ".join(map(text, d.results)), d.extern.name, " ".join(map(text, d.arguments))) for d in q.demands
        )
        body, head = tuple(q.body()), tuple(map(text, q.actions))
        return engine.EgglogRule(self.name, body, head, calls, self.analysis, self.compiled.needs)


def rule(
    name: str,
    left: Term,
    right: Any = None,
    *,
    where: Term | Sequence[Term] = (),
    removes: bool = False,
    family: str = "",
    forget: Callable[[], None] | None = None,
) -> Rule:
    """A rule. removes: the e-node on the left goes, so that a class keeps no way to compute itself from itself. forget:
    called before each saturation, for functions that remember something of a graph. Raises RuleError."""
    frame = sys._getframe(1)
    place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    conditions = (where,) if isinstance(where, Term) else tuple(where)
    return Rule(name, family, term(left), None if right is None else term(right), conditions, removes, place, forget)


def _lets(t: Any) -> Iterator[Let]:
    """The functions whose results have names, from the outside in."""
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
    """Rules, with those among some others that make the facts and postponed operators that they need and do not
    make."""
    found = dict.fromkeys(rules)
    while missing := {x for r in found for x in r.declarations} - {r.helps for r in found}:
        found |= dict.fromkeys(r for r in among if r.helps in missing)
    return tuple(found)
