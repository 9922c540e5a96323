"""Externs: functions of attributes that rules call, declared by their signatures.

    @extern
    def seen_by(m: Move, operand: Type) -> Move | None:
        '''The part of m that an operand sees that may broadcast to m's input shape.'''
        return m.restrict(operand.shape)

The name, the number of arguments and their kinds come from the signature.
The rule does not apply where the function returns None.
These annotations have a meaning of their own:

- `-> bool` makes a condition.
- `-> tuple[A, B]` gives several results.
- `-> list[...]` gives several answers, each of which makes an instance of the rule.
- `*xs: A` with `-> tuple[B, ...]` gives one B for each of the xs.
- `f: F` with `-> F`, where F is a TypeVar, gives a result of the kind of the argument.

A function is called only if each argument is of the kind of its parameter.
So it need not check that itself.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from eqsat.egraph.kinds import Kind, RuleError, kind_of
from eqsat.egraph.tree import Extern, P, R


def first_sentence(of: object) -> str:
    """Returns the first sentence of a module's or function's docstring on one line.

    Returns "" if there is none.
    """
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
    """Returns what the annotation of a function's result says, as a tuple of these:

    - the kinds of the results;
    - the kind of the results of which there is one for each further argument, or None;
    - whether there are several answers.
    """
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
    """Returns the condition that an attribute is of a kind.

    It always holds, but is only called with arguments of that kind.
    """

    def test(value: Any) -> bool:
        return True

    return Extern(f"is.{kind.name.replace('|', '.or.')}", test, (kind,), None, (), None, False)
