"""Terms: what rules are written in.

    m, f = symbols("m", Move), symbols("f", Binary)
    x, y = symbols("x y", Value)
    rule("push-binary", m(f(x, y)), f(seen_by(m, x)(x), seen_by(m, y)(y)))

An operator applied to operands is a term: `f(x, y)`. A function of attributes (`extern`) gives an operator, a leaf or
any other attribute:
`seen_by(m, x)` is a movement. A fact is looked up: `curve(x, y)`. Vectors of operands have sublists:
`xs[..., f(x), ...]`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from eqsat.egraph.kinds import INDEX, VALUE, VALUES, RuleError, kind_of
from eqsat.egraph.tree import (
    CallResult,
    Compute,
    Each,
    Fact,
    LeftSide,
    Length,
    Let,
    Postponed,
    Symbol,
    Term,
    Typed,
    Wrong,
    term,
)
from eqsat.tensor.types import Type

#: The left side of the rule as a value: `back(m, LHS, y)`.
LHS = LeftSide()
#: Shape and dtype of a value. A value where a function wants a Type stands for its type.
type_of = Fact("type", (VALUE,), kind_of(Type), built_in=True)
#: That a vector has a value at a place.
element = Fact("element", (VALUES, INDEX, VALUE), None, built_in=True)


def symbols(names: str, kind: Any) -> Any:
    """Variables of one kind: `f, g = symbols("f g", Slice)`; one name gives one variable, not a tuple."""
    of = kind_of(kind)
    made = []
    for name in names.split():
        if not name.isidentifier():
            raise RuleError(f"{name!r} is no name for a variable: give letters, digits and underscores")
        made.append(Symbol(name, of))
    return made[0] if len(made) == 1 else tuple(made)


def fact(name: str, *keys: Any, gives: Any = None) -> Fact:
    """Declares what rules may know of values: `curve = fact("curve", Value, Value, gives=Curve)`."""
    return Fact(name, tuple(map(kind_of, keys)), None if gives is None else kind_of(gives))


def postponed(name: str, *attributes: Any) -> Postponed:
    """Declares an operator that a rule makes later: `resized = postponed("resized", Move, int)`."""
    return Postponed(name, tuple(map(kind_of, attributes)))


def let(call: Term, build: Callable[..., Any]) -> Term:
    """The results of a call by name: `let(push(m, f, x), lambda g, n: g(n(x)))`."""
    if not isinstance(call, Compute):
        return Wrong(f"let() names the several results of a function, and {call} has one")
    names = _names(build, len(call.results))
    if len(names) != len(call.results):
        return Wrong(f"{call} gives {len(call.results)} results, and {len(names)} are named: {', '.join(names)}")
    return Let(call, names, term(build(*(CallResult(call, k, n) for k, n in enumerate(names)))))


def _names(build: Callable[..., Any], count: int) -> tuple[str, ...]:
    names: list[str] = []
    for p in inspect.signature(build).parameters.values():
        more = range(1, count - len(names) + 1)
        names += [f"{p.name}{k}" for k in more] if p.kind is p.VAR_POSITIONAL else [p.name]
    return tuple(names)


def each(operator: Term, vector: Term) -> Each:
    """A vector with an operator applied to each operand."""
    return Each(operator, vector)


def length(vector: Term) -> Length:
    """The number of operands of a vector."""
    return Length(vector)


def typed(value: Term, type: Term) -> Typed:
    """A concat inside a right side, with its type."""
    return Typed(value, type)
