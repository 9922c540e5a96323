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
from eqsat.egraph.compile import CompiledRule, compile_rule
from eqsat.egraph.kinds import RuleError
from eqsat.egraph.log import Log
from eqsat.egraph.query import text
from eqsat.egraph.tree import Apply, Let, Lookup, Partial, Term, term


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
        """Whether the rule only sets a fact.

        Such rules run to a fixpoint before each pass of the others.
        """
        return isinstance(self.left, Lookup)

    @property
    def helps(self) -> str:
        """egglog's name of the fact or postponed operator that the rule makes for other rules.

        It is "" for a rewrite.
        """
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
        """Returns the rule in the form that the engine takes.

        logged: whether a rewrite logs its instances.
        """
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
