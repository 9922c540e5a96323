"""Operators that find or pick positions: ARGMAX along a better axis, and data movement across GATHER and SCATTER.

No rule makes a GATHER or a RESIZE of anything else, since Vela estimates them at 0 cycles.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

from eqsat.egraph.attributes import Call
from eqsat.egraph.externs import extern
from eqsat.egraph.kinds import Value, op
from eqsat.egraph.rule import rule
from eqsat.egraph.terms import let, symbols
from eqsat.rules import roles
from eqsat.tensor.movement import Move
from eqsat.tensor.types import Type

Argmax = Annotated[Call, op("argmax")]


@extern
def outward(call: Argmax, x: Type) -> tuple[Argmax, Move] | None:
    """Returns call' and m such that call x = call' (m x), where call acts along the last axis.

    m puts that axis outside all others but the batch.
    Along channels Vela 5.1 takes 13 times as long on Ethos-U85.
    """
    rank = len(x.shape)
    if rank < 2 or call.attr("axis") != rank - 1 or x.shape[-1] == 1:
        return None
    to = 1 if rank > 2 else 0
    return call.with_attrs(axis=to), Move.transpose(x.shape, (*range(to), rank - 1, *range(to, rank - 1)))


argmax, x = symbols("argmax", Argmax), symbols("x", Value)
rule = partial(rule, family="positions")

RULES = [
    rule("argmax-outward", argmax(x), let(outward(argmax, x), lambda a, n: a(n(x)))),
    *roles.rules(rule, "gather", "values", "indices"),
    *roles.rules(rule, "scatter", "into", "indices", "written"),
]
