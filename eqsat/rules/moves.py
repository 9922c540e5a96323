"""Rules for data movement alone: they merge chains of transposes and reshapes into one movement in normal form, and
they move constants."""

from __future__ import annotations

from functools import partial

from eqsat.egraph.kinds import Constant, LeafValue, Value
from eqsat.egraph.rule import rule
from eqsat.egraph.terms import extern, symbols
from eqsat.tensor.movement import Move


@extern
def compose(first: Move, second: Move) -> Move | None:
    """Returns two successive movements as one, or None if no single movement expresses them."""
    return first.then(second) if first.out_shape == second.in_shape else None


@extern
def is_identity(m: Move) -> bool:
    """Tells whether a movement changes neither the shape nor the order of elements."""
    return m.is_identity


@extern
def move_constant(m: Move, leaf: Constant) -> LeafValue | None:
    """Returns a constant after a movement."""
    return LeafValue.constant(m.apply(leaf.data), leaf.node.dtype) if leaf.node.shape == m.in_shape else None


m, n = symbols("m n", Move)
k = symbols("k", Constant)
x = symbols("x", Value)
rule = partial(rule, family="moves")

RULES = [
    rule("move-move", n(m(x)), compose(m, n)(x)),
    rule("move-identity", m(x), x, where=is_identity(m)),
    rule("move-const", m(k), move_constant(m, k)),
]
