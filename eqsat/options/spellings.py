"""The spellings of convolutions that are offered: those that the closed form estimates to be faster.

A spelling is another form of one convolution (`eqsat/rules/blocking.py`) or of several (`eqsat/rules/grouped.py`).
The closed form (`cost_models/closed_form.py`) takes a fifth of a millisecond.
Over 669 to 694 convolutions and their spellings, of seven networks of the zoo on U55-128, U65-256 and U85-256, it is
within 6% of the calibrated price in the median and within a quarter for nine in ten, and the rank correlation is 0.994.
Slices of a grouped convolution that begin within 16 channels have a cost that it does not contain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np

from cost_models.closed_form import estimate_cycles
from cost_models.protocol import Unit
from eqsat.egraph.kinds import Call, LeafValue
from eqsat.egraph.rule import Rule
from eqsat.rules import blocking, grouped, matmul
from eqsat.rules.blocking import MOST, Spelled
from eqsat.rules.grouped import Branches
from eqsat.target import Target
from eqsat.tensor.ops import infer
from eqsat.tensor.types import Type, attrs_of

#: Cycles that a spelling may take, as a share of the convolution's.
_SHARE = 1.02
#: This share for a spelling between a PAD and a SLICE, whose cycles the closed form does not contain.
#: Rules can exchange these two with all operators before and after them, so the e-graph grows:
#: ResNet8's on U85 has 12,048 e-nodes with 1.02 and 2,062 with 0.9, and the same result.
_SHARE_OF_CUT = 0.9
#: Cycles that a spelling with parts of the channels may take, as a share of the convolution's.
#: It enables no other rule, and on U85 it takes 0.3 to 0.6.
_SHARE_OF_PARTS = 0.8
#: Spellings that are offered as they are the cheapest with their data movements, which neighbours may spare the others.
_MOST_MOVED = 2
#: Cycles that fewer convolutions may take, as a share of several; slices and copies are not priced.
_SHARE_OF_GROUPS = 1.25


def for_target(rules: Iterable[Rule], target: Target) -> list[Rule]:
    """Returns the rules for one saturation, with those of some families made for a target.

    `blocking` and `grouped` choose spellings by the closed form.
    MATMUL goes row by row only for a family whose products would otherwise leave SRAM.
    """
    families = (
        (blocking.RULES, blocking.rules(partial(_cheapest, target))),
        (grouped.RULES, grouped.rules(partial(_fewer, target))),
    )
    made = {general: own for every, ours in families for general, own in zip(every, ours, strict=True)}
    return [made.get(r, r) for r in rules if r is not matmul.ROWS or target.family.products_outside]


def _cycles(
    target: Target, call: Call, operand: Type, weights: LeafValue, bias: LeafValue, in_rows: bool = False
) -> float:
    """Returns the cycles of a convolution, by the closed form.

    in_rows: whether the operand is in rows, as inputs and views are.
    """
    constants = (None, weights.node.attr("value"), bias.node.attr("value"))
    operands = (operand, weights.type, bias.type)
    result = infer(call.op, call.attrs, operands)
    return estimate_cycles(Unit(((call.op, call.attrs),), operands, result, constants, from_input=in_rows), target)


def _moving(target: Target, dtype: str, spelled: Spelled) -> float:
    """Returns the cycles of the data movements before and after a spelling, by the closed form."""
    cycles = 0.0
    for move in (m for m in (spelled.spelling.read, spelled.spelling.write) if not m.is_view):
        sizes, perm = move.squeeze()
        attrs, result = attrs_of({"perms": perm}), Type(tuple(sizes[p] for p in perm), dtype)
        cycles += estimate_cycles(Unit((("transpose", attrs),), (Type(sizes, dtype),), result), target)
    return cycles


def _cheapest(
    target: Target, call: Call, x: Type, w: LeafValue, b: LeafValue, found: Sequence[Spelled]
) -> Sequence[Spelled]:
    """Returns the spellings of fewest cycles, by themselves and with their data movements."""

    def price(s: Spelled) -> float:
        read = s.spelling.read
        return _cycles(target, s.call, Type(read.out_shape, x.dtype), s.weights, s.bias, not read.is_identity)

    whole, prices = _cycles(target, call, x, w, b), [price(s) for s in found]
    shares = [_SHARE_OF_PARTS if s.divides_channels else _SHARE if s.is_whole else _SHARE_OF_CUT for s in found]
    order = [k for k in np.argsort(prices, kind="stable") if prices[k] < shares[k] * whole]
    moved = sorted(order, key=lambda k: prices[k] + _moving(target, x.dtype, found[k]))[:_MOST_MOVED]
    return [found[k] for k in dict.fromkeys([*order[:MOST], *moved])]


def _fewer(target: Target, found: Branches, x: Type, rows: Sequence[Branches]) -> Sequence[Branches]:
    """Returns the rows of convolutions that take the fewest cycles."""

    def price(row: Branches) -> float:
        operands = (Type((*x.shape[:-1], b.end - b.start), x.dtype) for b in row.row)
        every = zip(row.row, operands, strict=True)
        return sum(_cycles(target, b.call, operand, b.weights, b.bias) for b, operand in every)

    limit = _SHARE_OF_GROUPS * price(found)
    priced = sorted((price(row), k) for k, row in enumerate(rows))
    return [rows[k] for cost, k in priced[:MOST] if cost < limit]
