"""Rules that are wrong on purpose: unsound ones, and ones that fail."""

from __future__ import annotations

from typing import Annotated

from eqsat.egraph.kinds import Binary, Call, Clamp, Rescale, Unary, Value, op
from eqsat.egraph.rule import rule
from eqsat.egraph.terms import LHS, extern, symbols
from eqsat.tensor.movement import Move
from eqsat.tensor.types import Type


@extern
def same_type(x: Type, y: Type) -> bool:
    """Whether two values have one shape and dtype."""
    return x == y


@extern
def explode(f: Call) -> bool:
    """Raises ZeroDivisionError."""
    return bool(1 // 0)


m, f, g = symbols("m", Move), symbols("f", Unary), symbols("g", Binary)
x, y = symbols("x y", Value)

#: A pointwise op dropped, where types fit.
DROPPED = rule("dropped", f(x), x, where=same_type(LHS, x), family="test")
#: A movement dropped: a class with two types stops egglog.
RETYPED = rule("retyped", m(x), x, family="test")
#: A function that raises.
RAISES = rule("raises", f(x), x, where=explode(f), family="test")
SWAPPED = rule("swapped", g(x, y), g(y, x), family="test")

n, k = symbols("n", Annotated[Call, op("logical_not")]), symbols("k", Annotated[Call, op("greater")])
least, most = (symbols(name, Annotated[Call, op(f"{name}imum")]) for name in ("min", "max"))
c, s = symbols("c", Clamp), symbols("s", Rescale)
#: not (x > y) as y > x, which forgets that they may be equal.
NOT_GREATER = rule("not-greater", n(k(x, y)), k(y, x), family="test")
#: The smaller of x and the larger of x and y is x, which is right.
ABSORBED = rule("absorbed", least(most(x, y), x), x, family="test")
#: A clamp dropped behind a scale, where it matters for few values.
UNCLAMPED = rule("unclamped", c(s(x)), s(x), family="test")
