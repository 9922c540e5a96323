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
import re
from collections.abc import Callable
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from eqsat.egraph.kinds import INDEX, VALUE, VALUES, Concat, Kind, RuleError, kind_of
from eqsat.egraph.tree import (
    CallResult,
    Compute,
    Each,
    Extern,
    Fact,
    LeftSide,
    Length,
    Let,
    P,
    Postponed,
    R,
    Symbol,
    Term,
    term,
)
from eqsat.tensor.types import Type

#: The left side of the rule as a value, as in `back(m, LHS, y)`.
LHS = LeftSide()
#: The fact that gives shape and dtype of a value; a value in place of a Type stands for its type.
type_of = Fact("type", (VALUE,), kind_of(Type), built_in=True)
#: Fact joined(concat, xs, n): the type of a CONCAT of the first n values of a vector.
joined = Fact("joined", (kind_of(Concat), VALUES, INDEX), kind_of(Type), built_in=True)
#: The fact that a vector has a value at a position.
element = Fact("element", (VALUES, INDEX, VALUE), None, built_in=True)


def symbols(names: str, kind: Any) -> Any:
    """Returns variables of one kind: `f, g = symbols("f g", Slice)`. One name gives one variable, not a tuple.

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

    keys: their kinds. gives: the kind of what the fact gives. Raises RuleError if one of them names no kind.
    """
    return Fact(name, tuple(map(kind_of, keys)), kind_of(gives))


def postpone(name: str, *attributes: Any) -> Postponed:
    """Declares an operator that another rule makes: `resized = postpone("resized", Move, int)`.

    attributes: their kinds. Raises RuleError if one of them names no kind.
    """
    return Postponed(name, tuple(map(kind_of, attributes)))


def let(call: Term, build: Callable[..., Any]) -> Term:
    """Returns a term in which the results of a call have names.

        let(push(m, f, x), lambda g, n: g(n(x)))

    build: returns the term for the results. Raises RuleError if it takes another number of them than there are.
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


# Externs: functions of attributes that rules call, declared by their signatures.
#
#     @extern
#     def seen_by(m: Move, operand: Type) -> Move | None:
#         '''The part of m that an operand sees that may broadcast to m's input shape.'''
#         return m.restrict(operand.shape)
#
# The name, the number of arguments and their kinds come from the signature.
# A function is called only if each argument is of the kind of its parameter, so it need not check that itself.
# The rule does not apply where the function returns None.
# These annotations have a meaning of their own:
#
# - `-> bool` makes a condition.
# - `-> tuple[A, B]` gives several results.
# - `-> list[...]` makes an instance of the rule for each item of the list.
# - `*xs: A` with `-> tuple[B, ...]` gives one B for each of the xs.
# - `f: F` with `-> F`, where F is a TypeVar, gives a result of the kind of the argument.


def first_sentence(of: object) -> str:
    """Returns the first sentence of a module's or function's docstring on one line, "" if there is none."""
    paragraph = (inspect.getdoc(of) or "").split("\n\n")[0]
    return re.split(r"(?<=\.)\s", paragraph)[0].replace("\n", " ")


def extern(fn: Callable[P, R]) -> Extern[P, R]:
    """Makes a function of attributes callable in rules.

    Raises RuleError if the signature lacks a type, or if a type in it is no kind.
    """
    where = f"{inspect.getsourcefile(fn) or '?'}:{fn.__code__.co_firstlineno}: extern {fn.__name__!r}"
    try:
        hints = get_type_hints(fn, include_extras=True)
        parameters: list[Kind] = []
        rest = None
        for p in inspect.signature(fn).parameters.values():
            if p.name not in hints:
                raise RuleError(f"its parameter {p.name!r} has no type")
            if p.kind is p.VAR_POSITIONAL:
                rest = kind_of(hints[p.name])
            else:
                parameters.append(kind_of(hints[p.name]))
        if "return" not in hints:
            raise RuleError("its result has no type")
        results, per_rest, several = _results(hints["return"])
    except (RuleError, NameError) as e:
        raise RuleError(f"{where}: {e}") from None
    return Extern(fn.__name__, fn, tuple(parameters), rest, results, per_rest, several)


def _results(annotation: Any) -> tuple[tuple[Kind, ...], Kind | None, bool]:
    """Returns `results`, `per_rest` and `several` of an `Extern` from the annotation of a function's result."""
    if get_origin(annotation) in (Union, UnionType):
        (annotation,) = (a for a in get_args(annotation) if a is not NoneType)
    if annotation is bool:
        return (), None, False
    several = get_origin(annotation) is list
    if several:
        (annotation,) = get_args(annotation)
    if get_origin(annotation) is not tuple:
        return (kind_of(annotation),), None, several
    kinds = get_args(annotation)
    if kinds[-1:] == (Ellipsis,):
        return (), kind_of(kinds[0]), several
    return tuple(map(kind_of, kinds)), None, several


@cache
def is_of(kind: Kind) -> Extern[..., bool]:
    """Returns the condition that an attribute is of a kind: it always holds, but is only called with such arguments."""

    def test(value: Any) -> bool:
        return True

    return Extern(f"is.{kind.name.replace('|', '.or.')}", test, (kind,), None, (), None, False)
