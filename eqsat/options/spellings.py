"""The spellings of convolutions that are offered: those that the closed form estimates to be faster.

Spellings are those of one convolution (`eqsat/rules/blocking.py`), and of several side by
side (`eqsat/rules/grouped.py`).
The closed form (`cost_models/closed_form.py`) takes a fifth of a millisecond.
Over 669 to 694 convolutions and their spellings, of seven networks of the zoo on U55-128, U65-256 and U85-256, it is
within 6% of the calibrated price in the median and within a quarter for nine in ten, and the rank correlation is 0.994.
Slices of a grouped convolution that begin within 16 channels have a cost that it does not contain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from cost_models.closed_form import estimated
from cost_models.protocol import Unit
from eqsat.egraph.attributes import Call, LeafValue
from eqsat.egraph.rule import Rule
from eqsat.rules import blocking, grouped, matmul, sparsity
from eqsat.rules.blocking import MOST, Spelled
from eqsat.rules.grouped import Branches
from eqsat.target import Target
from eqsat.tensor.ops import infer
from eqsat.tensor.types import Type

#: Cycles that a spelling may take, as a share of the convolution's.
_SHARE = 1.02
#: This share for a spelling between a PAD and a SLICE, whose cycles the closed form does not contain.
#: The operators before and after it can all be exchanged with these two.
#: ResNet8's e-graph on U85 has 12,048 e-nodes with 1.02 and 2,062 with 0.9, and the same answer.
_SHARE_OF_CUT = 0.9
#: Cycles that a spelling with parts of the channels may take, as a share of the convolution's.
#: It enables no other rule, and on U85 it takes 0.3 to 0.6.
_SHARE_OF_PARTS = 0.8
#: Spellings without data movement that are offered even if others are cheaper, at most.
#: The prices of the others do not contain their data movement.
_MOST_VIEWED = 2
#: Cycles that fewer convolutions may take, as a share of several; slices and copies are not priced.
_SHARE_OF_GROUPS = 1.25
#: Returns cycles for (convolution, operand, weights, bias).
_Cycles = Callable[[Call, Type, LeafValue, LeafValue], float]


def for_target(rules: Iterable[Rule], target: Target) -> list[Rule]:
    """Returns the rules for one saturation, with those of some families made for a target.

    `blocking` and `grouped` choose spellings by the closed form.
    MATMUL goes row by row only for a family whose products would otherwise leave SRAM.
    Rules of sparsity need a family with sparse weights.
    """
    cycles, family = _closed_form(target), target.family
    families = (
        (blocking.RULES, blocking.rules(cheapest(cycles))),
        (grouped.RULES, grouped.rules(fewer(_in_best_order(cycles) if family.sparse_weights else cycles))),
    )
    made = {general: own for every, ours in families for general, own in zip(every, ours, strict=True)}
    unwanted = (
        *(() if family.products_outside else (matmul.ROWS,)),
        *(() if family.sparse_weights else sparsity.RULES),
    )
    return [made.get(r, r) for r in rules if r not in unwanted]


def _closed_form(target: Target) -> _Cycles:
    """Returns the closed form for convolutions on a target."""

    def cycles(call: Call, operand: Type, weights: LeafValue, bias: LeafValue) -> float:
        constants = (None, weights.node.attr("value"), bias.node.attr("value"))
        operands = (operand, weights.type, bias.type)
        unit = Unit(((call.op, call.attrs),), operands, infer(call.op, call.attrs, operands), constants)
        return estimated(unit, target)

    return cycles


def _in_best_order(cycles: _Cycles) -> _Cycles:
    """Returns cycles with the input channels in the order that is fastest if zeros are skipped."""

    def ordered(call: Call, operand: Type, weights: LeafValue, bias: LeafValue) -> float:
        return cycles(call, operand, sparsity.in_best_order(weights), bias)

    return ordered


def cheapest(cycles: _Cycles) -> blocking.Choose:
    """Returns a function that chooses the spellings of fewest cycles."""

    def choose(call: Call, x: Type, w: LeafValue, b: LeafValue, found: Sequence[Spelled]) -> Sequence[Spelled]:
        whole = cycles(call, x, w, b)
        prices = [cycles(s.call, Type(s.spelling.read.out_shape, x.dtype), s.weights, s.bias) for s in found]
        shares = [_SHARE_OF_PARTS if s.divides_channels else _SHARE if s.is_whole else _SHARE_OF_CUT for s in found]
        order = [k for k in np.argsort(prices, kind="stable") if prices[k] < shares[k] * whole]
        still = [k for k in order if found[k].is_viewed][:_MOST_VIEWED]
        return [found[k] for k in dict.fromkeys([*order[:MOST], *still])]

    return choose


def fewer(cycles: _Cycles) -> grouped.Choose:
    """Returns a function that chooses the rows of convolutions that take the fewest cycles."""

    def price(row: Branches, x: Type) -> float:
        operands = (Type((*x.shape[:-1], b.end - b.start), x.dtype) for b in row.row)
        return sum(cycles(b.call, t, b.weights, b.bias) for b, t in zip(row.row, operands, strict=True))

    def choose(found: Branches, x: Type, rows: Sequence[Branches]) -> Sequence[Branches]:
        limit = _SHARE_OF_GROUPS * price(found, x)
        priced = sorted(((price(row, x), k) for k, row in enumerate(rows)))
        return [rows[k] for cost, k in priced[:MOST] if cost < limit]

    return choose
