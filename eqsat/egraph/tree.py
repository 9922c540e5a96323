"""The tree that a term is: operators, functions, facts and vectors applied to each other, and how each of them is
printed.

Rules are written with `eqsat/egraph/terms.py`. Nothing is checked here: a term can be anything until a rule is made of
it (`eqsat/egraph/compile.py`), which then names what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Any, Protocol

from eqsat.egraph import engine
from eqsat.egraph.kinds import Kind, RuleError


class Function(Protocol):
    """What a term may call (`eqsat/egraph/externs.py`)."""

    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str: ...

    def takes(self, arguments: int) -> tuple[Kind, ...] | None: ...

    def results_of(self, arguments: int) -> tuple[Kind, ...]: ...

    def table(self, arguments: int) -> engine.ExternTable: ...


@dataclass(frozen=True, slots=True)
class Term:
    """A piece of a rule. Only operators can be called, only vectors be indexed, only indices and vectors be added
    to."""

    def __call__(self, *operands: Any) -> Apply:
        return Apply(self, tuple(map(term, operands)))

    def __getitem__(self, items: Any) -> Term:
        parts = items if isinstance(items, tuple) else (items,)
        inside = tuple(p for p in parts if not isinstance(p, EllipsisType))
        before, after = isinstance(parts[0], EllipsisType), isinstance(parts[-1], EllipsisType)
        if len(parts) != len(inside) + before + after or not inside:
            return Wrong(f"{self}[...] has its ellipses at the ends, and something between them")
        return Sublist(self, before, tuple(map(term, inside)), after)

    def __add__(self, other: Any) -> Term:
        if isinstance(other, int):
            return Sum(self, other) if other else self
        return Joined(self, term(other))

    def __iter__(self) -> Iterator[Term]:
        raise RuleError(f"{self} is one term: several results of a function are named with let()")


@dataclass(frozen=True, slots=True)
class Symbol(Term):
    """A variable of the rule."""

    name: str
    kind: Kind

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class LeftSide(Term):
    """The value of the left side of the rule."""

    def __str__(self) -> str:
        return "LHS"


@dataclass(frozen=True, slots=True)
class Wrong(Term):
    """What cannot be a term, and why."""

    problem: str


@dataclass(frozen=True, slots=True)
class Number(Term):
    """A place in a vector, or a number of its operands."""

    value: int

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Apply(Term):
    """An operator of operands."""

    operator: Term
    operands: tuple[Term, ...]

    def __str__(self) -> str:
        return f"{_operator(self.operator)}({', '.join(map(str, self.operands))})"


def _operator(t: Term) -> str:
    """An operator as a statement shows it: pointwise ones by their variable, others by their kind, with the variable in
    brackets where it has another name."""
    kind = _kind(t)
    return str(t) if kind is None or kind.name in ("pointwise", str(t)) else f"{kind.name}[{t}]"


def _kind(t: Term) -> Kind | None:
    return t.kind if isinstance(t, Symbol | CallResult) else None


@dataclass(frozen=True, slots=True)
class Compute(Term):
    """A call of a function of attributes: a condition, if it gives nothing but yes or no."""

    function: Function
    arguments: tuple[Term, ...]

    @property
    def results(self) -> tuple[Kind, ...]:
        """Kinds of the results; what the function takes and gives of one TypeVar is of the kind of that argument."""
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
    """Result number k of a call; `name` is for reading."""

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
    """What a fact says about some values; that it says anything, as a condition."""

    fact: Fact
    keys: tuple[Term, ...]

    def __str__(self) -> str:
        return f"{self.fact.name}({', '.join(map(str, self.keys))})"


@dataclass(frozen=True, slots=True)
class Sum(Term):
    """A place in a vector so many operands further."""

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
    """A vector of just these operands."""

    items: tuple[Term, ...]

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.items))}]"


@dataclass(frozen=True, slots=True)
class Sublist(Term):
    """On the left: a vector with these operands somewhere in a row (before: others may come before them; after: after
    them). On the
    right: the vector with these in their place, where a vector stands for its operands."""

    vector: Term
    before: bool
    items: tuple[Term, ...]
    after: bool

    def __str__(self) -> str:
        inside = ", ".join([*["..."] * self.before, *map(str, self.items), *["..."] * self.after])
        return f"{self.vector}[{inside}]"


@dataclass(frozen=True, slots=True)
class Joined(Term):
    """The operands of one vector, then those of another."""

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
class Typed(Term):
    """A concat with its type, which cannot be inferred from operands that are still to be made."""

    value: Term
    type: Term

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Partial(Term):
    """A postponed operator with its attributes."""

    postponed: Postponed
    attributes: tuple[Term, ...]

    def __str__(self) -> str:
        return f"{self.postponed.name}[{', '.join(map(str, self.attributes))}]"


@dataclass(frozen=True, slots=True)
class Fact:
    """What is known of values: one attribute (or vector) for each combination of its keys, or, where it gives nothing,
    whether it holds.
    Where two rules know different things of the same keys the first is kept, and of places in a vector the least, so
    saturation ends."""

    name: str
    keys: tuple[Kind, ...]
    gives: Kind | None
    #: Whether it is one of the language, which is declared there.
    built_in: bool = False

    @property
    def symbol(self) -> str:
        """How egglog knows it: as no function of the language, and no name plus digits."""
        return self.name if self.built_in else f"{self.name}."

    @property
    def declaration(self) -> str:
        """The command that declares it, nothing if the language does."""
        keys = " ".join(k.sort for k in self.keys)
        if self.built_in:
            return ""
        if self.gives is None:
            return f"(relation {self.symbol} ({keys}))"
        merge = "old" if self.gives.sort == "TV" else "(min old new)"
        return f"(function {self.symbol} ({keys}) {self.gives.sort} :merge {merge})"

    def __call__(self, *keys: Any) -> Lookup:
        return Lookup(self, tuple(map(term, keys)))


@dataclass(frozen=True, slots=True)
class Postponed:
    """An operator that a rule of its own makes once its operand's type is known: for `each`. It is never extracted."""

    name: str
    attributes: tuple[Kind, ...]

    @property
    def symbol(self) -> str:
        """How egglog knows it: e-nodes are rows of functions in capitals."""
        return f"Postponed.{self.name}."

    @property
    def declaration(self) -> str:
        """The command that declares it."""
        return f"(constructor {self.symbol} ({' '.join('i64' for _ in self.attributes)} T) T)"

    def __call__(self, *attributes: Any) -> Partial:
        return Partial(self, tuple(map(term, attributes)))


def term(x: Any) -> Term:
    """Numbers and lists as terms."""
    if isinstance(x, Term):
        return x
    if isinstance(x, int) and not isinstance(x, bool):
        return Number(x)
    if isinstance(x, Sequence) and not isinstance(x, str):
        return Vector(tuple(map(term, x)))
    return Wrong(f"{x!r} is no term")
