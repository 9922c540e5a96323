"""Rules that reorder the channels of a convolution so that its weights are 2:4 sparse (`eqsat/tensor/sparsity.py`), for
targets whose NPU then takes half the time.

The new order of the channels is a movement before the convolution.
The families `across` and `roles` absorb it into the weights of the convolutions that computed the channels.
"""

from __future__ import annotations

from functools import partial
from math import prod

from eqsat.egraph.attributes import LeafValue
from eqsat.egraph.externs import extern
from eqsat.egraph.kinds import Constant, Conv2d, Slice, Value
from eqsat.egraph.rule import rule
from eqsat.egraph.terms import let, symbols
from eqsat.rules.slicing import takes_channels
from eqsat.rules.weights import ChannelOrder
from eqsat.tensor.blocking import regrouped
from eqsat.tensor.movement import Move
from eqsat.tensor.sparsity import interleaved, interleaving
from eqsat.tensor.types import Type


def in_best_order(weights: LeafValue) -> LeafValue:
    """Returns weights whose input channels are in the order that makes them 2:4 sparse.

    They are returned unchanged if they are already sparse, or if no such order is found.
    """
    runs = interleaving(weights.data)
    return weights if runs is None else _interleaved(weights, runs)


def _interleaved(weights: LeafValue, runs: int) -> LeafValue:
    return LeafValue.constant(interleaved(weights.data, runs), weights.node.dtype)


@extern
def in_turn(conv: Conv2d, x: Type, weights: Constant) -> tuple[Move, Constant] | None:
    """Returns order and weights' such that conv x weights = conv (order x) weights', where weights' are 2:4 sparse.

    Returns None if weights are already 2:4 sparse, or if no such order is found.
    """
    runs = interleaving(weights.data) if conv.attr("w_zp") == (0,) else None
    if runs is None:
        return None
    channels = x.shape[-1]
    split = (prod(x.shape[:-1]), runs, channels // runs)
    return regrouped(x.shape, split, (0, 2, 1), x.shape), _interleaved(weights, runs)


@extern
def in_runs(order: ChannelOrder, part: Slice, x: Type) -> Move | None:
    """Returns order' such that order (part x) = part (order' x), where order' reorders every run of channels in the
    same way.

    Returns None unless the slice `part` takes one of several equal runs of channels.
    """
    taken, channels, inside = part.attr("size")[-1], x.shape[-1], order.within(order.out_shape)
    if inside is None or channels % taken or part.attr("start")[-1] % taken or order.in_shape != order.out_shape:
        return None
    outer, runs = (Move.reshape((n,), (n,)) for n in (prod(x.shape[:-1]), channels // taken))
    return Move(x.shape, x.shape, Move.product([outer, runs, inside[-1]]).axes)


part, order = symbols("part", Slice), symbols("order", ChannelOrder)
conv, weights = symbols("conv", Conv2d), symbols("weights", Constant)
x, bias = symbols("x bias", Value)
rule = partial(rule, family="sparsity")

RULES = [
    rule(
        "channels-in-turn",
        conv(x, weights, bias),
        let(in_turn(conv, x, weights), lambda order, w: conv(order(x), w, bias)),
    ),
    rule("order-slice", order(part(x)), part(in_runs(order, part, x)(x)), where=takes_channels(part, x)),
]
