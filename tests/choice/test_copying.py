"""Operands of a CONCAT that a depthwise convolution copies: the same values for fewer cycles of the whole graph, where
others read them too."""

from __future__ import annotations

import numpy as np

from eqsat.choice import copying
from eqsat.tensor.graph import TensorGraph
from tests.graphs import finish

TARGETS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")
#: Where such a convolution takes fewer cycles than Vela's copy. On U55 and U85 it only does by Vela's own total.
PAYING = TARGETS[1:2]


def test_a_copy_has_every_value() -> None:
    g = TensorGraph()
    x = g.add_input("x", (1, 16, 16, 3), "INT8")
    finish(g, copying.emit(g, x))
    values = np.stack([np.roll(np.arange(-128, 128), k) for k in range(3)], 1).reshape(1, 16, 16, 3).astype(np.int8)
    assert np.array_equal(g.evaluate([values])[0], values)
