"""Terms: the language in which rules are written.

    m, f = symbols("m", Move), symbols("f", Binary)
    x, y = symbols("x y", Value)
    rule("push-binary", m(f(x, y)), f(seen_by(m, x)(x), seen_by(m, y)(y)))

These are terms:

- an operator applied to operands, `f(x, y)`;
- a function of attributes (`extern`), which gives an operator, a leaf or another attribute:
  `seen_by(m, x)` is a movement;
- a fact that is looked up, `curve(x, y)`;
- a vector of operands with a sublist, `xs[..., f(x), ...]`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from eqsat.egraph.kinds import INDEX, VALUE, VALUES, Concat, RuleError, kind_of
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
    term,
)
from eqsat.tensor.types import Type

#: The left side of the rule as a value, as in `back(m, LHS, y)`.
LHS = LeftSide()
#: The fact that gives shape and dtype of a value.
#: A value in place of a Type stands for its type.
type_of = Fact("type", (VALUE,), kind_of(Type), built_in=True)
#: Fact joined(concat, xs, n): the type of a CONCAT of the first n values of a vector.
joined = Fact("joined", (kind_of(Concat), VALUES, INDEX), kind_of(Type), built_in=True)
#: The fact that a vector has a value at a position.
element = Fact("element", (VALUES, INDEX, VALUE), None, built_in=True)


def symbols(names: str, kind: Any) -> Any:
    """Returns variables of one kind: `f, g = symbols("f g", Slice)`.

    One name gives one variable, not a tuple.
    Raises RuleError if a name is no identifier, or if `kind` names no kind.
    """
    of = kind_of(kind)
    made = []
    for name in names.split():
        if not name.isidentifier():
            raise RuleError(f"{name!r} is no name for a variable: give letters, digits and underscores")
        made.append(Symbol(name, of))
    return made[0] if len(made) == 1 else tuple(made)


def fact(name: str, *keys: Any, gives: Any) -> Fact:
    """Declares a fact of values: `curve = fact("curve", Value, Value, gives=Curve)`.

    keys: their kinds.
    gives: the kind of what the fact gives.
    Raises RuleError if one of them names no kind.
    """
    return Fact(name, tuple(map(kind_of, keys)), kind_of(gives))


def postpone(name: str, *attributes: Any) -> Postponed:
    """Declares an operator that another rule makes: `resized = postpone("resized", Move, int)`.

    attributes: their kinds.
    Raises RuleError if one of them names no kind.
    """
    return Postponed(name, tuple(map(kind_of, attributes)))


def let(call: Term, build: Callable[..., Any]) -> Term:
    """Returns a term in which the results of a call have names.

        let(push(m, f, x), lambda g, n: g(n(x)))

    build: returns the term for the results.
    Raises RuleError if their numbers differ.
    """
    if not isinstance(call, Compute):
        raise RuleError(f"let() names the several results of a function, and {call} has one")
    names = _names(build, len(call.results))
    if len(names) != len(call.results):
        raise RuleError(f"{call} gives {len(call.results)} results, and {len(names)} are named: {', '.join(names)}")
    return Let(call, names, term(build(*(CallResult(call, k, n) for k, n in enumerate(names)))))


def _names(build: Callable[..., Any], count: int) -> tuple[str, ...]:
    """Returns the names of a function's parameters; `*g` gives as many g1, g2, ... as are left of `count`."""
    names: list[str] = []
    for p in inspect.signature(build).parameters.values():
        more = range(1, count - len(names) + 1)
        names += [f"{p.name}{k}" for k in more] if p.kind is p.VAR_POSITIONAL else [p.name]
    return tuple(names)


def each(operator: Term, vector: Term) -> Each:
    """Returns a vector with an operator applied to each operand."""
    return Each(operator, vector)


def length(vector: Term) -> Length:
    """Returns the number of operands of a vector as a term."""
    return Length(vector)
