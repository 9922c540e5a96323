"""Which spellings of a convolution are offered, by the cycles that they are estimated to take."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eqsat.egraph.attributes import Call, LeafValue
from eqsat.options.spellings import cheapest
from eqsat.rules.blocking import Spelled, spellings
from eqsat.tensor import makers
from eqsat.tensor.types import Type

#: Cycles of the convolution; its spellings take a share of these.
WHOLE = 1000.0


def offered(side: int, kernel: int, share: float) -> Sequence[Spelled]:
    """Returns what is offered of a convolution with stride 2, whose spellings take `share` of its cycles."""
    x = Type((1, side, side, 8), "INT8")
    values = np.arange(8 * 8 * kernel**2).reshape(8, kernel, kernel, 8) % 251 - 125
    weights = LeafValue.constant(values.astype(np.int8), "INT8")
    bias = LeafValue.constant(np.zeros(8, np.int32), "INT32")
    call = Call("conv2d", makers.conv("INT8", stride=(2, 2)))
    found = spellings(call, x, weights, bias)
    return cheapest(lambda c, *_: WHOLE if c == call else share * WHOLE)(call, x, weights, bias, found)


def test_a_spelling_that_pads_and_cuts_has_to_save_more() -> None:
    whole, cut = offered(16, 2, 0.95), offered(15, 1, 0.95)
    assert any(s.is_whole for s in whole) and all(s.is_whole for s in cut)
    assert any(not s.is_whole for s in offered(15, 1, 0.85))


def test_what_saves_nothing_is_not_offered() -> None:
    assert not offered(16, 2, 1.1) and not offered(15, 1, 1.1)
