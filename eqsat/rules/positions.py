"""Operators that find or pick positions: ARGMAX along a better axis, and data movement across GATHER and SCATTER.

No rule makes a GATHER or a RESIZE of anything else: Vela estimates them at 0 cycles.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

from eqsat.egraph.attributes import Call
from eqsat.egraph.externs import extern
from eqsat.egraph.kinds import Value, op
from eqsat.egraph.rule import rule
from eqsat.egraph.terms import LHS, let, symbols
from eqsat.tensor import crossing
from eqsat.tensor.movement import Move
from eqsat.tensor.types import Type

Argmax = Annotated[Call, op("argmax")]
Gather = Annotated[Call, op("gather")]
Scatter = Annotated[Call, op("scatter")]


@extern
def outward(call: Argmax, x: Type) -> tuple[Argmax, Move] | None:
    """call (x), along the last axis = call' (m x), where m puts that axis outside all others but batches: Vela 5.1
    takes 13 times as long along channels on Ethos-U85."""
    rank = len(x.shape)
    if rank < 2 or call.attr("axis") != rank - 1 or x.shape[-1] == 1:
        return None
    to = 1 if rank > 2 else 0
    return call.with_attrs(axis=to), Move.transpose(x.shape, (*range(to), rank - 1, *range(to, rank - 1)))


@extern
def gather_pushed(m: Move, gather: Gather, result: Type, values: Type, indices: Type) -> tuple[Move, Move] | None:
    """m (gather(x, y)) = gather(p x, q y)."""
    found = crossing.by_roles("gather", m, -1, [values, indices, result])
    return None if found is None else (found[0], found[1])


@extern
def values_pulled(gather: Gather, m: Move, result: Type, moved: Type, indices: Type) -> tuple[Move, Move] | None:
    """gather(m x, y) = n (gather(x, q y)), q the inverse of m as the indices see it."""
    found = crossing.by_roles("gather", m, 0, [moved, indices, result])
    return None if found is None else (found[2], found[1].inverse())


@extern
def indices_pulled(gather: Gather, m: Move, result: Type, values: Type, moved: Type) -> tuple[Move, Move] | None:
    """gather(x, m y) = n (gather(p x, y)), p the inverse of m as the values see it."""
    found = crossing.by_roles("gather", m, 1, [values, moved, result])
    return None if found is None else (found[2], found[0].inverse())


@extern
def scatter_pushed(
    m: Move, scatter: Scatter, values: Type, indices: Type, written: Type
) -> tuple[Move, Move, Move] | None:
    """m (scatter(x, y, z)) = scatter(p x, q y, r z)."""
    found = crossing.by_roles("scatter", m, -1, [values, indices, written, values])
    return None if found is None else (found[0], found[1], found[2])


@extern
def into_pulled(scatter: Scatter, m: Move, moved: Type, indices: Type, written: Type) -> tuple[Move, Move, Move] | None:
    """scatter(m x, y, z) = n (scatter(x, q y, r z)), q and r the inverse of m as the others see it."""
    found = crossing.by_roles("scatter", m, 0, [moved, indices, written, moved])
    return None if found is None else (found[3], found[1].inverse(), found[2].inverse())


@extern
def written_pulled(
    scatter: Scatter, m: Move, values: Type, indices: Type, moved: Type
) -> tuple[Move, Move, Move] | None:
    """scatter(x, y, m z) = n (scatter(p x, q y, z))."""
    found = crossing.by_roles("scatter", m, 2, [values, indices, moved, values])
    return None if found is None else (found[3], found[0].inverse(), found[1].inverse())


m, argmax = symbols("m", Move), symbols("argmax", Argmax)
gather, scatter = symbols("gather", Gather), symbols("scatter", Scatter)
x, y, z = symbols("x y z", Value)
rule = partial(rule, family="positions")

RULES = [
    rule("argmax-outward", argmax(x), let(outward(argmax, x), lambda a, n: a(n(x)))),
    rule(
        "push-gather",
        m(gather(x, y)),
        let(gather_pushed(m, gather, gather(x, y), x, y), lambda p, q: gather(p(x), q(y))),
    ),
    rule(
        "pull-gather-values",
        gather(m(x), y),
        let(values_pulled(gather, m, LHS, m(x), y), lambda n, q: n(gather(x, q(y)))),
    ),
    rule(
        "pull-gather-indices",
        gather(x, m(y)),
        let(indices_pulled(gather, m, LHS, x, m(y)), lambda n, p: n(gather(p(x), y))),
    ),
    rule(
        "push-scatter",
        m(scatter(x, y, z)),
        let(scatter_pushed(m, scatter, x, y, z), lambda p, q, r: scatter(p(x), q(y), r(z))),
    ),
    rule(
        "pull-scatter-into",
        scatter(m(x), y, z),
        let(into_pulled(scatter, m, m(x), y, z), lambda n, q, r: n(scatter(x, q(y), r(z)))),
    ),
    rule(
        "pull-scatter-written",
        scatter(x, y, m(z)),
        let(written_pulled(scatter, m, x, y, m(z)), lambda n, p, q: n(scatter(p(x), q(y), z))),
    ),
]
