"""The e-nodes of a class are equal for every input: what rules make is proved, but for few that are undecided."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from eqsat.checking import soundness
from eqsat.checking.random_graphs import random_graph
from eqsat.checking.soundness import prove
from eqsat.egraph.encoding import saturate
from eqsat.egraph.kinds import Call, Value, op
from eqsat.egraph.rule import rule
from eqsat.egraph.terms import symbols
from eqsat.proof.evaluation import value_of
from eqsat.proof.steps import Undecidable
from eqsat.proof.values import Terms
from eqsat.rules import RULES
from eqsat.tensor.graph import Node, TensorGraph
from tests.planted import NOT_GREATER
from tests.sweeps import some
from tests.term import graph, inputs, outputs

x, y = symbols("x y", Value)


@pytest.mark.slow
@pytest.mark.parametrize("first", some(range(0, 32, 16), 1))
def test_nearly_all_e_nodes_are_proved(first: int) -> None:
    found = [prove(saturate(random_graph(seed), RULES)) for seed in range(first, first + 16)]
    equal, undecided = (sum(map(len, (f.equal for f in found))), sum(f.undecided.total() for f in found))
    assert equal > 300 and undecided < 0.03 * equal
    assert not any(f.undecided["output"] for f in found)


def test_all_e_nodes_of_a_small_graph_are_proved() -> None:
    frozen = saturate(random_graph(7), RULES)
    checked = soundness.check(frozen.source, RULES)
    assert checked.proved == checked.evaluated == frozen.n_nodes and not checked.undecided


def test_a_removal_that_loses_the_outputs_value_is_not_proved() -> None:
    """The e-node that is not equal is gone with it."""
    lsl, asr = (symbols(name, Annotated[Call, op(f"{name}_shift")]) for name in ("logical_left", "arithmetic_right"))
    forgetful = rule("forgetful", asr(lsl(x, y), y), x, removes=True)
    a, b = (v.rescale("INT32") for v in inputs("a:INT8[1,2,2,4] b:INT8[1,2,2,4]"))
    by = a.const(24)
    g = outputs((a + b).lsl(by).asr(by))
    assert soundness.check(g, [forgetful], trials=0).undecided == {"output": 1}


def compared_with_a_constant() -> TensorGraph:
    (a,) = inputs("a:INT16[1,4,4,4]")
    k = a.const(12345, "INT32", (1, 1, 1, 1))
    return outputs((~(k > a.rescale("INT32")))("select", a, a.clamp(-5, 20)))


def test_an_error_that_samples_miss_is_not_proved() -> None:
    """It shows on one of 65,536 codes."""
    checked = soundness.check(compared_with_a_constant(), [NOT_GREATER])
    assert checked.frozen.saturation.matches["not-greater"] and checked.undecided == {"logical_not": 1, "output": 1}
    assert soundness.check(compared_with_a_constant(), []).undecided == {}


def test_what_reads_a_value_without_a_term_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    def value(t: Terms, node: Node, operands: list[Any]) -> Any:
        if node.op == "abs":
            raise Undecidable("no form")
        return value_of(t, node, operands)

    monkeypatch.setattr(soundness, "value_of", value)
    (a,) = inputs("a:INT8[2,3]")
    checked = soundness.check(outputs(a.wide()("abs").rescale("INT8")), [], trials=0)
    assert checked.undecided == {"abs": 1, "rescale": 1, "output": 1} and checked.proved == 2


def test_an_overflow_that_the_source_does_not_have_is_not_proved() -> None:
    """Both sides are the same sum modulo 2^32."""
    add = symbols("add", Annotated[Call, op("add")])
    z = symbols("z", Value)
    associated = rule("associated", add(add(x, y), z), add(x, add(y, z)))
    g = graph("a:INT32[2,3] b:INT32[2,3] c:INT32[2,3]", lambda a, b, c: a + b + c)
    checked = soundness.check(g, [associated], trials=0)
    assert checked.frozen.saturation.matches["associated"] and checked.undecided
