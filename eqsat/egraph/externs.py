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

Several results may form a small graph of operators.
They are then a NamedTuple, whose method `graph` applies them:

    class Halved(NamedTuple):
        first: Conv2d
        second: Conv2d

        def graph(self: Any, x: Any) -> Any:
            return self.second(self.first(x))

    rule("halved", f(x), halves(f)(x))          # the function `halves` returns a Halved

A function is called only if each argument is of the kind of its parameter.
So it need not check that itself.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Generic, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from eqsat.egraph import engine
from eqsat.egraph.kinds import Kind, RuleError, kind_of
from eqsat.egraph.tree import CallResult, Compute, Let, Term, term


@dataclass(frozen=True, slots=True)
class SmallGraph:
    """The results of a call that form a small graph; called with values it is a term.

    of: the NamedTuple of the results.
    """

    call: Compute
    of: Any

    def __call__(self, *values: Any) -> Term:
        names: tuple[str, ...] = self.of._fields
        results = (CallResult(self.call, k, name) for k, name in enumerate(names))
        return Let(self.call, names, term(self.of(*results).graph(*map(term, values))))


P = ParamSpec("P")
R = TypeVar("R")


def first_sentence(of: object) -> str:
    """Returns the first sentence of a module's or function's docstring on one line.

    Returns "" if there is none.
    """
    paragraph = (inspect.getdoc(of) or "").split("\n\n")[0]
    return re.split(r"(?<=\.)\s", paragraph)[0].replace("\n", " ")


@dataclass(frozen=True, slots=True, eq=False)
class Extern(Generic[P, R]):
    """A function of attributes; called with terms it is a term, and `fn` is the function itself.

    parameters: the kinds of its parameters.
    rest: the kind of any number of further arguments, or None.
    results: the kinds of its results.
    per_rest: the kind of its results if there is one for each further argument, or None.
    several: whether it returns a list of answers.
    condition: whether it returns a bool.
    graph: the NamedTuple of the results, or None.
    """

    name: str
    fn: Callable[P, R]
    parameters: tuple[Kind, ...]
    rest: Kind | None
    results: tuple[Kind, ...]
    per_rest: Kind | None
    several: bool
    condition: bool
    graph: Any = None

    def __call__(self, *arguments: Any) -> Any:
        call = Compute(self, tuple(map(term, arguments)))
        if self.graph is not None:
            return SmallGraph(call, self.graph)
        single = not self.condition and self.per_rest is None and len(self.results) == 1
        return CallResult(call, 0) if single else call

    @property
    def summary(self) -> str:
        """The first sentence of the function's docstring."""
        return first_sentence(self.fn)

    def takes(self, arguments: int) -> tuple[Kind, ...] | None:
        """Returns the kinds of so many arguments, or None if the function does not take that number."""
        more = arguments - len(self.parameters)
        if more < 0 or (more and self.rest is None):
            return None
        return self.parameters + (() if self.rest is None else (self.rest,) * more)

    def results_of(self, arguments: int) -> tuple[Kind, ...]:
        """Returns the kinds of the results for so many arguments."""
        if self.per_rest is not None:
            return (self.per_rest,) * (arguments - len(self.parameters))
        return self.results

    def symbol(self, arguments: int) -> str:
        """Returns the name of the function's table for so many arguments.

        No such name is another one followed by digits, since egglog 13.2 makes such names itself.
        """
        return f"{self.fn.__module__}.{self.name}[{arguments}]"

    def table(self, arguments: int) -> engine.ExternTable:
        """Returns the function as the engine calls it with so many arguments.

        It has no answer if an argument is not of the kind of its parameter.
        It raises TypeError if a result is not of its kind.
        """
        kinds, results = self.takes(arguments), self.results_of(arguments)
        assert kinds is not None
        fn: Callable[..., Any] = self.fn

        def answers(*values: Any) -> list[tuple[Any, ...]]:
            for kind, value in zip(kinds, values, strict=True):
                if not kind.accepts(value):
                    return []
            found = fn(*values)
            if found is None or found is False:
                return []
            many = found if self.several else [found]
            return [self._checked(() if self.condition else row, results) for row in many]

        return engine.ExternTable(self.symbol(arguments), arguments, len(results), answers)

    def _checked(self, row: Any, results: tuple[Kind, ...]) -> tuple[Any, ...]:
        """Returns a result as a tuple of values, each of its kind."""
        values: tuple[Any, ...] = row if len(results) != 1 or self.per_rest is not None else (row,)
        for kind, value in zip(results, values, strict=True):
            if not kind.accepts(value):
                raise TypeError(f"it gave {value!r} and says it gives a {kind.name}")
        return values


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
        results, per_rest, several, graph = _results(hints["return"])
    except (RuleError, NameError) as e:
        raise RuleError(f"{where}: {e}") from None
    condition = hints["return"] is bool
    return Extern(fn.__name__, fn, tuple(parameters), rest, results, per_rest, several, condition, graph)


def _results(annotation: Any) -> tuple[tuple[Kind, ...], Kind | None, bool, Any]:
    """Returns what the annotation of a function's result says, as a tuple of these:

    - the kinds of the results;
    - the kind of the results of which there is one for each further argument, or None;
    - whether there are several answers;
    - the NamedTuple of the results, or None.
    """
    if get_origin(annotation) in (Union, UnionType):
        (annotation,) = (a for a in get_args(annotation) if a is not NoneType)
    if annotation is bool:
        return (), None, False, None
    several = get_origin(annotation) is list
    if several:
        (annotation,) = get_args(annotation)
    graph = get_origin(annotation) or annotation
    if hasattr(graph, "_fields"):
        hints = get_type_hints(graph, include_extras=True)
        return tuple(kind_of(hints[name]) for name in graph._fields), None, several, graph
    if get_origin(annotation) is not tuple:
        return (kind_of(annotation),), None, several, None
    kinds = get_args(annotation)
    if kinds[-1:] == (Ellipsis,):
        return (), kind_of(kinds[0]), several, None
    return tuple(map(kind_of, kinds)), None, several, None


@cache
def is_of(kind: Kind) -> Extern[..., bool]:
    """Returns the condition that an attribute is of a kind.

    It always holds, but is only called with arguments of that kind.
    """

    def test(value: Any) -> bool:
        return True

    return Extern(f"is.{kind.name.replace('|', '.or.')}", test, (kind,), None, (), None, False, True)
