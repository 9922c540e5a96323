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
from functools import partial

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
from eqsat.tensor.types import Type, attrs_of

#: Cycles that a spelling may take, as a share of the convolution's.
_SHARE = 1.02
#: This share for a spelling between a PAD and a SLICE, whose cycles the closed form does not contain.
#: The operators before and after it can all be exchanged with these two.
#: ResNet8's e-graph on U85 has 12,048 e-nodes with 1.02 and 2,062 with 0.9, and the same answer.
_SHARE_OF_CUT = 0.9
#: Cycles that a spelling with parts of the channels may take, as a share of the convolution's.
#: It enables no other rule, and on U85 it takes 0.3 to 0.6.
_SHARE_OF_PARTS = 0.8
#: Spellings that are offered as they are the cheapest with their data movements, which neighbours may spare the others.
_MOST_MOVED = 2
#: Cycles that fewer convolutions may take, as a share of several; slices and copies are not priced.
_SHARE_OF_GROUPS = 1.25
#: Returns cycles for (convolution, operand, weights, bias, whether the operand is in rows, as inputs and views are).
_Cycles = Callable[[Call, Type, LeafValue, LeafValue, bool], float]
#: Returns cycles for (dtype of the operand, spelling).
_Moving = Callable[[str, Spelled], float]


def for_target(rules: Iterable[Rule], target: Target) -> list[Rule]:
    """Returns the rules for one saturation, with those of some families made for a target.

    `blocking` and `grouped` choose spellings by the closed form.
    MATMUL goes row by row only for a family whose products would otherwise leave SRAM.
    Rules of sparsity need a family with sparse weights.
    """
    cycles, family = _closed_form(target), target.family
    families = (
        (blocking.RULES, blocking.rules(cheapest(cycles, partial(_moving, target)))),
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

    def cycles(call: Call, operand: Type, weights: LeafValue, bias: LeafValue, in_rows: bool) -> float:
        constants = (None, weights.node.attr("value"), bias.node.attr("value"))
        operands = (operand, weights.type, bias.type)
        result = infer(call.op, call.attrs, operands)
        return estimated(Unit(((call.op, call.attrs),), operands, result, constants, from_input=in_rows), target)

    return cycles


def _moving(target: Target, dtype: str, spelled: Spelled) -> float:
    """Returns the cycles of the data movements before and after a spelling, by the closed form."""
    cycles = 0.0
    for move in (m for m in (spelled.spelling.read, spelled.spelling.write) if not m.is_view):
        sizes, perm = move.squeezed()
        attrs, result = attrs_of({"perms": perm}), Type(tuple(sizes[p] for p in perm), dtype)
        cycles += estimated(Unit((("transpose", attrs),), (Type(sizes, dtype),), result), target)
    return cycles


def _in_best_order(cycles: _Cycles) -> _Cycles:
    """Returns cycles with the input channels in the order that is fastest if zeros are skipped."""

    def ordered(call: Call, operand: Type, weights: LeafValue, bias: LeafValue, in_rows: bool) -> float:
        return cycles(call, operand, sparsity.in_best_order(weights), bias, in_rows)

    return ordered


def cheapest(cycles: _Cycles, moving: _Moving) -> blocking.Choose:
    """Returns a function that chooses the spellings of fewest cycles, by themselves and with their data movements."""

    def choose(call: Call, x: Type, w: LeafValue, b: LeafValue, found: Sequence[Spelled]) -> Sequence[Spelled]:
        def price(s: Spelled) -> float:
            read = s.spelling.read
            return cycles(s.call, Type(read.out_shape, x.dtype), s.weights, s.bias, not read.is_identity)

        whole, prices = cycles(call, x, w, b, False), [price(s) for s in found]
        shares = [_SHARE_OF_PARTS if s.divides_channels else _SHARE if s.is_whole else _SHARE_OF_CUT for s in found]
        order = [k for k in np.argsort(prices, kind="stable") if prices[k] < shares[k] * whole]
        moved = sorted(order, key=lambda k: prices[k] + moving(x.dtype, found[k]))[:_MOST_MOVED]
        return [found[k] for k in dict.fromkeys([*order[:MOST], *moved])]

    return choose


def fewer(cycles: _Cycles) -> grouped.Choose:
    """Returns a function that chooses the rows of convolutions that take the fewest cycles."""

    def price(row: Branches, x: Type) -> float:
        operands = (Type((*x.shape[:-1], b.end - b.start), x.dtype) for b in row.row)
        return sum(cycles(b.call, t, b.weights, b.bias, False) for b, t in zip(row.row, operands, strict=True))

    def choose(found: Branches, x: Type, rows: Sequence[Branches]) -> Sequence[Branches]:
        limit = _SHARE_OF_GROUPS * price(found, x)
        priced = sorted(((price(row, x), k) for k, row in enumerate(rows)))
        return [rows[k] for cost, k in priced[:MOST] if cost < limit]

    return choose
