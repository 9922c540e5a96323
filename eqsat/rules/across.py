"""Rules that exchange data movement (transposes and reshapes) with other operators, in both directions, including where
paths fork or join.

A "push" rule moves a movement from the result of an operator to its operands; a "pull" rule moves it from one operand
to the result.
A pull applies the inverse movement to all other operands, and each inverse cancels when it meets its counterpart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from eqsat.egraph.externs import extern
from eqsat.egraph.kinds import Binary, Concat, Single, Ternary, Value, Values
from eqsat.egraph.rule import Rule, rule
from eqsat.egraph.terms import LHS, each, let, postponed, symbols
from eqsat.rules.crossing import (
    concat_pulled,
    concat_pushed,
    is_axial,
    pulled,
    pushed,
    stack_pushed,
    units_pulled,
    units_pushed,
)
from eqsat.tensor.movement import Move
from eqsat.tensor.types import Type


@extern
def seen_by(m: Move, operand: Type) -> Move | None:
    """Returns the movement `m` restricted to an operand, which may broadcast to m's input shape."""
    return m.restrict(operand.shape)


@extern
def back(m: Move, result: Type, operand: Type) -> Move | None:
    """Returns the inverse of `m` for `operand`, or None if m does not produce the entire result."""
    return m.inverse().restrict(operand.shape) if m.out_shape == result.shape else None


# ---- concat -------------------------------------------------------------------------------------

#: A movement adjusted to the size of its operand along one axis, by the rule "resized".
resized = postponed("resized", Move, int)


@extern
def adjusted(m: Move, axis: int, operand: Type) -> Move | None:
    """Returns the movement that has the effect of `m` on an operand of another size along the axis."""
    found = m.resize({axis: operand.shape[axis]})
    return None if found is None or found.in_shape != operand.shape else found


m = symbols("m", Move)
f, g, h = symbols("f", Single), symbols("g", Binary), symbols("h", Ternary)
concat = symbols("concat", Concat)
x, y, z = symbols("x y z", Value)
xs, axis = symbols("xs", Values), symbols("axis", int)
rule = partial(rule, family="across")


def pointwise(op: Any, xs: Sequence[Any], name: str, *operands: str) -> Iterator[Rule]:
    """Yields the rules that exchange data movement with a pointwise operator.

    A movement of the result becomes a movement of every operand, restricted to the shape of that operand.
    A movement of one operand becomes a movement of the result, and the other operands get its inverse.
    name, operands: what the names of the rules call the operator and each operand.
    """
    yield rule(f"push-{name}", m(op(*xs)), op(*(seen_by(m, x)(x) for x in xs)))
    for moved, operand in zip(xs, operands, strict=True):
        given = [m(x) if x is moved else x for x in xs]
        others = [x if x is moved else back(m, LHS, x)(x) for x in xs]
        yield rule(f"pull-{name}-{operand}", op(*given), m(op(*others)))


RULES = [
    rule("push-unary", m(f(x)), let(pushed(m, f, x), lambda h, n: h(n(x)))),
    rule("pull-unary", f(m(x)), let(pulled(f, m, m(x)), lambda n, h: n(h(x)))),
    *pointwise(g, (x, y), "binary", "left", "right"),
    *pointwise(h, (x, y, z), "select", "0", "1", "2"),
    rule("push-units", m(f(x)), let(units_pushed(m, f, x), lambda v, h, n: v(h(n(x)))), where=is_axial(f)),
    rule("pull-units", f(m(x)), let(units_pulled(f, m, m(x)), lambda n, h, v: n(h(v(x)))), where=is_axial(f)),
    rule("push-concat", m(concat(xs)), let(concat_pushed(m, concat), lambda c, axis: c(each(resized(m, axis), xs)))),
    rule(
        "push-concat-units",
        m(concat(xs[x, ...])),
        let(stack_pushed(m, concat, x), lambda v, c, n, axis: v(c(each(resized(n, axis), xs)))),
    ),
    rule(
        "pull-concat",
        concat(xs[..., m(y), ...]),
        let(concat_pulled(concat, m, LHS), lambda n, c, b, axis: n(c(each(resized(b, axis), xs)))),
    ),
    rule("resized", resized(m, axis)(x), adjusted(m, axis, x)(x)),
]
