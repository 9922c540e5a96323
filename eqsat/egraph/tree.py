"""Terms as trees: operators, functions, facts and vectors applied to each other, and their text.

Rules are written with `terms.py`; `rule.py` checks whether the terms of a rule fit together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Any, Generic, ParamSpec, TypeVar

from eqsat.egraph import engine
from eqsat.egraph.kinds import Kind, RuleError

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Term:
    """A part of a rule. Only operators can be called, only vectors indexed, and only positions and vectors added to."""

    def __call__(self, *operands: Any) -> Apply:
        return Apply(self, tuple(map(term, operands)))

    def __getitem__(self, items: Any) -> Term:
        parts = items if isinstance(items, tuple) else (items,)
        inside = tuple(p for p in parts if not isinstance(p, EllipsisType))
        before, after = isinstance(parts[0], EllipsisType), isinstance(parts[-1], EllipsisType)
        if len(parts) != len(inside) + before + after or not inside:
            raise RuleError(f"{self}[...] has its ellipses at the ends, and something between them")
        return Sublist(self, before, tuple(map(term, inside)), after)

    def __add__(self, other: Any) -> Term:
        if isinstance(other, int):
            return Sum(self, other) if other else self
        return Joined(self, term(other))

    def __iter__(self) -> Iterator[Term]:
        raise RuleError(f"{self} is one term: several results of a function are named with let()")


@dataclass(frozen=True, slots=True)
class Symbol(Term):
    """A variable of a rule."""

    name: str
    kind: Kind

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class LeftSide(Term):
    """The value of the left side of a rule."""

    def __str__(self) -> str:
        return "LHS"


@dataclass(frozen=True, slots=True)
class Number(Term):
    """A number, such as a position in a vector."""

    value: int

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Apply(Term):
    """An operator applied to operands."""

    operator: Term
    operands: tuple[Term, ...]

    def __str__(self) -> str:
        return f"{_operator(self.operator)}({', '.join(map(str, self.operands))})"


def _operator(t: Term) -> str:
    """Returns an operator as a statement shows it: by its kind too, if that is not pointwise and has another name."""
    kind = t.kind.name if isinstance(t, Symbol | CallResult) else "pointwise"
    return str(t) if kind in ("pointwise", str(t)) else f"{kind}[{t}]"


@dataclass(frozen=True, slots=True, eq=False)
class Extern(Generic[P, R]):
    """A function of attributes; called with terms it is a term, and `fn` is the function itself.

    parameters: the kinds of its parameters.
    rest: the kind of any number of further arguments, or None.
    results: the kinds of its results; none if it returns a bool.
    per_rest: the kind of its results if there is one for each further argument, or None.
    several: whether it returns a list, each item of which makes an instance of the rule.
    """

    name: str
    fn: Callable[P, R]
    parameters: tuple[Kind, ...]
    rest: Kind | None
    results: tuple[Kind, ...]
    per_rest: Kind | None
    several: bool

    def __call__(self, *arguments: Any) -> Any:
        call = Compute(self, tuple(map(term, arguments)))
        single = self.per_rest is None and len(self.results) == 1
        return CallResult(call, 0) if single else call

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

        It gives no result for an argument of a wrong kind, and raises TypeError for a result of a wrong kind.
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
            return [self._check(row if results else (), results) for row in many]

        numbers = frozenset(i for i, kind in enumerate((*kinds, *results)) if kind.type is int)
        return engine.ExternTable(self.symbol(arguments), arguments, len(results), answers, numbers)

    def _check(self, row: Any, results: tuple[Kind, ...]) -> tuple[Any, ...]:
        """Returns a result as a tuple of values, each of its kind."""
        values: tuple[Any, ...] = row if len(results) != 1 or self.per_rest is not None else (row,)
        for kind, value in zip(results, values, strict=True):
            if not kind.accepts(value):
                raise TypeError(f"it gave {value!r} and says it gives a {kind.name}")
        return values


@dataclass(frozen=True, slots=True)
class Compute(Term):
    """A call of a function of attributes, which is a condition if the function returns a bool."""

    function: Extern[..., Any]
    arguments: tuple[Term, ...]

    @property
    def results(self) -> tuple[Kind, ...]:
        """Kinds of the results; a TypeVar of the function stands for the kind of the argument in its place."""
        count = len(self.arguments)
        given = {
            kind: argument.kind
            for kind, argument in zip(self.function.takes(count) or (), self.arguments, strict=False)
            if kind.variable and isinstance(argument, Symbol | CallResult)
        }
        return tuple(given.get(kind, kind) for kind in self.function.results_of(count))

    def __str__(self) -> str:
        return f"{self.function.name}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True, slots=True)
class CallResult(Term):
    """The result number k of a call. name: how a statement shows it; "" for the call itself."""

    call: Compute
    k: int
    name: str = ""

    @property
    def kind(self) -> Kind:
        return self.call.results[self.k]

    def __str__(self) -> str:
        return self.name or str(self.call)


@dataclass(frozen=True, slots=True)
class Let(Term):
    """A term in which the results of a call have names."""

    call: Compute
    names: tuple[str, ...]
    body: Term

    def __str__(self) -> str:
        return str(self.body)


@dataclass(frozen=True, slots=True)
class Lookup(Term):
    """What a fact gives for some values; as a condition, that it gives something."""

    fact: Fact
    keys: tuple[Term, ...]

    def __str__(self) -> str:
        return f"{self.fact.name}({', '.join(map(str, self.keys))})"


@dataclass(frozen=True, slots=True)
class Sum(Term):
    """The position in a vector that follows another one by `more` operands."""

    index: Term
    more: int

    def __str__(self) -> str:
        return f"{self.index} + {self.more}"


@dataclass(frozen=True, slots=True)
class Length(Term):
    """The number of operands of a vector."""

    vector: Term

    def __str__(self) -> str:
        return f"length({self.vector})"


@dataclass(frozen=True, slots=True)
class Vector(Term):
    """A vector of exactly these operands."""

    items: tuple[Term, ...]

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.items))}]"


@dataclass(frozen=True, slots=True)
class Sublist(Term):
    """A vector with some operands in a row.

    before, after: whether other operands may come before and after them.
    On the right side of a rule it has one operand, which replaces those of the left side's sublist.
    """

    vector: Term
    before: bool
    items: tuple[Term, ...]
    after: bool

    def __str__(self) -> str:
        inside = ", ".join([*["..."] * self.before, *map(str, self.items), *["..."] * self.after])
        return f"{self.vector}[{inside}]"


@dataclass(frozen=True, slots=True)
class Joined(Term):
    """A vector of the operands of one vector and then those of another."""

    first: Term
    second: Term

    def __str__(self) -> str:
        return f"{self.first} + {self.second}"


@dataclass(frozen=True, slots=True)
class Each(Term):
    """A vector with an operator applied to each of its operands."""

    operator: Term
    vector: Term

    def __str__(self) -> str:
        return f"each({_operator(self.operator)}, {self.vector})"


@dataclass(frozen=True, slots=True)
class Partial(Term):
    """A postponed operator with its attributes."""

    postponed: Postponed
    attributes: tuple[Term, ...]

    def __str__(self) -> str:
        return f"{self.postponed.name}[{', '.join(map(str, self.attributes))}]"


@dataclass(frozen=True, slots=True)
class Fact:
    """A property of values that rules set and look up: an attribute or vector for each set of keys.

    gives: the kind of what the fact gives; None for `element`, which only holds or not.
    built_in: whether the language declares it and not a rule.

    If rules give different results for the same keys, one of them is kept, so saturation ends.
    Of vectors it is the first, of attributes the one interned first, and of positions the least.
    """

    name: str
    keys: tuple[Kind, ...]
    gives: Kind | None
    built_in: bool = False

    @property
    def symbol(self) -> str:
        """egglog's name of the fact: no function of the language, and no other name followed by digits."""
        return self.name if self.built_in else f"{self.name}."

    @property
    def declaration(self) -> str:
        """The command that declares the fact; "" if the language does."""
        keys = " ".join(k.sort for k in self.keys)
        if self.built_in or self.gives is None:
            return ""
        merge = "old" if self.gives.sort == "TV" else "(min old new)"
        return f"(function {self.symbol} ({keys}) {self.gives.sort} :merge {merge})"

    def __call__(self, *keys: Any) -> Lookup:
        return Lookup(self, tuple(map(term, keys)))


@dataclass(frozen=True, slots=True)
class Postponed:
    """An operator that a rule of its own makes once its operand's type is known, for `each`; it is never extracted."""

    name: str
    attributes: tuple[Kind, ...]

    @property
    def symbol(self) -> str:
        """egglog's name of the operator, which begins with a capital as those of all e-nodes do."""
        return f"Postponed.{self.name}."

    @property
    def declaration(self) -> str:
        """The command that declares the operator."""
        return f"(constructor {self.symbol} ({' '.join('i64' for _ in self.attributes)} T) T)"

    def __call__(self, *attributes: Any) -> Partial:
        return Partial(self, tuple(map(term, attributes)))


def term(x: Any) -> Term:
    """Returns a number, a list or a term as a term. Raises RuleError for anything else."""
    if isinstance(x, Term):
        return x
    if isinstance(x, int) and not isinstance(x, bool):
        return Number(x)
    if isinstance(x, Sequence) and not isinstance(x, str):
        return Vector(tuple(map(term, x)))
    raise RuleError(f"{x!r} is no term")
