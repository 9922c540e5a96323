"""Maxima that are broadcast, and equal values that two operators know different limits of."""

from __future__ import annotations

import numpy as np

from eqsat.proof import PROVED, prove
from eqsat.proof.field import Field
from eqsat.proof.values import Known
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from tests.graphs import finish, rescale, transpose


def below_maximum(turned: bool) -> TensorGraph:
    """x without the maximum of its rows, as softmax has it; in another layout."""
    g = TensorGraph()
    x = g.add_input("x", (3, 24, 24), "INT8")
    y = transpose(g, x, 0, 2, 1) if turned else x
    axis = 1 if turned else 2
    wide, most = (
        rescale(g, v, "INT32", multiplier=(1 << 30,), shift=(30,), in_zp=3)
        for v in (y, g.add_with("reduce_max", [y], makers.extremum(axis)))
    )
    z = g.add("sub", [wide, most])
    return finish(g, transpose(g, z, 0, 2, 1) if turned else z)


def test_a_maximum_is_one_root_before_it_is_repeated() -> None:
    found = prove(below_maximum(False), below_maximum(True), seed=1)
    assert found.verdict == PROVED


def test_equal_roots_with_two_intervals_are_noticed() -> None:
    lanes = Field(1).constants([5, 7])
    words = tuple(w.astype(np.uint64) for w in (lanes[0], lanes[1]))
    twice = [(words[0], words[1], np.array(functions)) for functions in ([1, 2], [1, 3])]
    assert not Known(twice[:1]).is_ambiguous and Known(twice).is_ambiguous
