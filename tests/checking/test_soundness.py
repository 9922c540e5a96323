"""The checker catches unsound rules, and the rules together pass it on random graphs."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eqsat.checking.random_graphs import random_graph
from eqsat.checking.soundness import Unsound
from eqsat.egraph.engine import Budget
from eqsat.egraph.kinds import Call, Concat, Slice, Unary, Value, Values
from eqsat.egraph.rule import rule
from eqsat.egraph.terms import extern, symbols
from eqsat.rules import RULES
from eqsat.tensor.graph import TensorGraph
from tests.planted import SWAPPED
from tests.rules.cases import convolved, looked_up
from tests.rules.checks import check
from tests.sweeps import examples
from tests.term import Term, graph


def _chains() -> TensorGraph:
    def chains(x: Term) -> Term:
        shifted = x.part(2, 4, 1).part(1, 2, 1)
        both = looked_up(shifted.clamp(-100, 100)).concat(shifted.clamp(-3, 3), axis=1)
        smaller = both.min(both.reverse(1))
        return (smaller.rescale("INT32", in_zp=1) - both.rescale("INT32")).rescale("INT8", 1 << 30, 31)

    return graph("x:INT8[2,6]", chains)


@extern
def start_lost(f: Slice, g: Slice) -> Slice:
    """f, as if g began at 0."""
    return f


s, r = symbols("s r", Slice)
f, g, h = symbols("f g h", Unary)
concat, xs = symbols("concat", Concat), symbols("xs", Values)
x, y = symbols("x y", Value)

PLANTED = {
    "a clamp dropped": rule("planted", f(g(x)), f(x)),
    "operands swapped": SWAPPED,
    "concat reordered": rule("planted", concat([x, y]), concat([y, x])),
    "the inner slice's start lost": rule("planted", s(r(x)), start_lost(s, r)(x)),
}


@pytest.mark.parametrize("wrong", PLANTED.values(), ids=PLANTED.keys())
def test_planted_unsound_rules_are_caught(wrong):
    g = _chains()
    check(g, [])
    with pytest.raises(Unsound):
        check(g, [wrong], budget=Budget(nodes=500, passes=6))


def test_an_off_by_one_in_a_single_element_is_caught():
    """One wrong table entry of 256, met by samples that have each code."""
    g = graph("x:INT8[16,16]", looked_up)
    original = Call("table", g.nodes[g.outputs[0]].attrs)
    spoiled = original.with_attrs(table=tuple(v ^ (i == 200) for i, v in enumerate(original.attr("table"))))

    @extern
    def spoil(f: Unary) -> Unary:
        return spoiled

    with pytest.raises(Unsound, match="table"):
        check(g, [rule("planted", f(x), spoil(f)(x))])


@pytest.mark.slow
@settings(max_examples=examples(15), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32 - 1))
def test_all_rules_together_on_random_graphs(seed):
    check(random_graph(seed), RULES, budget=Budget(nodes=3000, seconds=5))


def test_all_rules_together_around_convolutions():
    """Two padded convolutions in NCHW: movements, pads, clamps and slices meet at the operators that stop them."""

    def block(x: Any, out: int) -> Any:
        y = convolved(x.pad((0, 0, 0, 0, 1, 1, 1, 1), 3).transpose(0, 2, 3, 1), out, 3, 3, in_zp=3)
        shifts = [38 + i % 2 for i in range(out)]
        return y.rescale("INT8", [1200000000] * out, shifts, out_zp=3).clamp(3, 100).transpose(0, 3, 1, 2)

    def made(x: Any) -> Any:
        second = block(block(x, 4).concat(x, axis=1), 4)
        halves = [second.part(c, 2, 1).clamp(-3, 60) for c in (0, 2)]
        return halves[0].concat(halves[1], axis=1), halves[0].reshape(2, 30)

    g = graph("x:INT8[1,2,5,6]", made)
    assert check(g).saturation.stop == "saturated"
