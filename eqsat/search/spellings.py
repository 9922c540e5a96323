"""Which spellings of a convolution (`eqsat/rules/blocking.py`) are offered: those that closed forms say can win by themselves.

The closed forms of the estimate (`cost_models/analytic.py`) take microseconds. On the convolutions of 13 networks of the zoo
for U55-128 the three best by them contain all but 0.2% of what the best by Vela's own measurement would gain (Vela 5.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from cost_models.analytic import Analytic
from cost_models.protocol import Unit
from eqsat.egraph.attributes import Call, LeafValue
from eqsat.egraph.rule import Rule
from eqsat.rules import blocking
from eqsat.rules.blocking import MOST, Choose, Spelled
from eqsat.target import Target
from eqsat.tensor.ops import infer
from eqsat.tensor.types import Type

#: What a spelling may cost as a share of the convolution as it is.
_SHARE = 1.02
#: How many of those that move nothing are offered, also where others are cheaper without what they move.
_MOST_VIEWED = 2


def for_target(rules: Iterable[Rule], target: Target) -> list[Rule]:
    """The same rules for one saturation for a target: those of the family `blocking` choose by the target's closed forms."""
    made = dict(zip(blocking.RULES, blocking.rules(cheapest(target)), strict=True))
    return [made.get(r, r) for r in rules]


def cheapest(target: Target) -> Choose:
    """Chooses the spellings that are cheapest for a target by closed forms."""
    model = Analytic(target)

    def cycles(call: Call, operand: Type, weights: LeafValue, bias: LeafValue) -> float:
        constants = (None, weights.node.attr("value"), bias.node.attr("value"))
        operands = (operand, *(Type(k.node.shape, k.node.dtype) for k in (weights, bias)))
        unit = Unit(((call.op, call.attrs),), operands, infer(call.op, call.attrs, operands), constants)
        return model.cycles(unit)

    def choose(call: Call, x: Type, w: LeafValue, b: LeafValue, found: Sequence[Spelled]) -> Sequence[Spelled]:
        limit = _SHARE * cycles(call, x, w, b)
        prices = [cycles(s.call, Type(s.operand, x.dtype), s.weights, s.bias) for s in found]
        order = [k for k in np.argsort(prices, kind="stable") if prices[k] < limit]
        still = [k for k in order if found[k].is_viewed][:_MOST_VIEWED]
        return [found[k] for k in dict.fromkeys([*order[:MOST], *still])]

    return choose
