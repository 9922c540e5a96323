"""The e-nodes of a class are equal for every input: what rules make is proved, but for few that are undecided."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import pytest

from eqsat import Call, kinds, op, rule, symbols
from eqsat.checking.proofs import prove
from eqsat.checking.random_graphs import random_graph
from eqsat.checking.soundness import check
from eqsat.egraph.encoding import saturate
from eqsat.rules import RULES
from eqsat.tensor.graph import TensorGraph
from tests.graphs import clamp, rescale
from tests.planted import NOT_GREATER
from tests.sweeps import some

x, y = symbols("x y", kinds.Value)


@pytest.mark.slow
@pytest.mark.parametrize("first", some(range(0, 32, 16), 1))
def test_nearly_all_e_nodes_are_proved(first: int) -> None:
    found = [prove(saturate(random_graph(seed), RULES)) for seed in range(first, first + 16)]
    equal, undecided = (sum(map(len, (f.equal for f in found))), sum(f.undecided.total() for f in found))
    assert equal > 300 and undecided < 0.03 * equal
    assert not any(f.undecided["output"] for f in found)


def test_all_e_nodes_of_a_small_graph_are_proved() -> None:
    frozen = saturate(random_graph(7), RULES)
    checked = check(frozen.source, RULES)
    assert checked.proved == checked.evaluated == frozen.n_nodes and not checked.undecided


def test_a_removal_that_loses_the_outputs_value_is_not_proved() -> None:
    """The e-node that is not equal is gone with it."""
    lsl, asr = (symbols(name, Annotated[Call, op(f"{name}_shift")]) for name in ("logical_left", "arithmetic_right"))
    forgetful = rule("forgetful", asr(lsl(x, y), y), x, removes=True)
    g = TensorGraph()
    a = g.add_input("a", (1, 2, 2, 4), "INT8")
    wide = g.add("add", [rescale(g, a, "INT32"), rescale(g, g.add_input("b", (1, 2, 2, 4), "INT8"), "INT32")])
    by = g.add_const(np.full((1, 1, 1, 1), 24), "INT32")
    g.outputs.append(g.add("arithmetic_right_shift", [g.add("logical_left_shift", [wide, by]), by], round=False))
    assert check(g, [forgetful], trials=0).undecided == {"output": 1}


def compared_with_a_constant() -> TensorGraph:
    g = TensorGraph()
    a = g.add_input("a", (1, 4, 4, 4), "INT16")
    k = g.add_const(np.full((1, 1, 1, 1), 12345), "INT32")
    c = g.add("logical_not", [g.add("greater", (k, rescale(g, a, "INT32")))])
    g.outputs.append(g.add("select", (c, a, clamp(g, a, -5, 20))))
    return g


def test_an_error_that_samples_miss_is_not_proved() -> None:
    """It shows on one of 65,536 codes."""
    checked = check(compared_with_a_constant(), [NOT_GREATER])
    assert checked.frozen.saturation.matches["not-greater"] and checked.undecided == {"logical_not": 1, "output": 1}
    assert check(compared_with_a_constant(), []).undecided == {}


def test_an_overflow_that_the_source_does_not_have_is_not_proved() -> None:
    """Both sides are the same sum modulo 2^32."""
    add = symbols("add", Annotated[Call, op("add")])
    z = symbols("z", kinds.Value)
    associated = rule("associated", add(add(x, y), z), add(x, add(y, z)))
    g = TensorGraph()
    xs = [g.add_input(n, (2, 3), "INT32") for n in "abc"]
    g.outputs.append(g.add("add", (g.add("add", xs[:2]), xs[2])))
    checked = check(g, [associated], trials=0)
    assert checked.frozen.saturation.matches["associated"] and checked.undecided
