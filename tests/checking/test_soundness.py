"""The checker catches unsound rules, and the rules together pass it on random graphs."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eqsat.checking.random_graphs import random_graph
from eqsat.checking.soundness import Unsound
from eqsat.egraph.attributes import Call
from eqsat.egraph.engine import Budget, EngineError
from eqsat.egraph.externs import extern
from eqsat.egraph.kinds import Axial, Concat, Slice, Unary, Value, Values
from eqsat.egraph.rule import rule
from eqsat.egraph.terms import symbols
from eqsat.rules import RULES
from eqsat.tensor.graph import TensorGraph
from tests.planted import SWAPPED
from tests.rules.checks import check, clamp, conv, cut, pad, rescale, table
from tests.sweeps import examples


def _chains() -> TensorGraph:
    g = TensorGraph()
    x = g.add_input("x", (2, 6), "INT8")
    inner = cut(g, x, (0, 2), (2, 4))
    shifted = cut(g, inner, (0, 1), (2, 2))
    doubled = table(g, clamp(g, shifted, -100, 100), 1)
    both = g.add("concat", (doubled, clamp(g, shifted, -3, 3)), axis=1)
    minimum = g.add("minimum", (both, g.add("reverse", (both,), axis=1)), nan_mode=1)
    g.outputs = [
        rescale(
            g, g.add("sub", (rescale(g, minimum, "INT32", in_zp=1), rescale(g, both, "INT32"))), "INT8", 1 << 30, 31
        )
    ]
    return g


@extern
def start_lost(f: Slice, g: Slice) -> Slice:
    """f, as if g began at 0."""
    return f


a, s, r = symbols("a", Axial), *symbols("s r", Slice)
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


def test_a_rule_that_changes_a_type_stops_the_engine():
    g = _chains()
    with pytest.raises(EngineError):
        check(g, [rule("planted", a(x), x)])


def test_an_off_by_one_in_a_single_element_is_caught():
    """One wrong table entry of 256, met by samples that have each code."""
    g = TensorGraph()
    g.outputs = [table(g, g.add_input("x", (16, 16), "INT8"), 1)]

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
    g = TensorGraph()
    x = g.add_input("x", (1, 2, 5, 6), "INT8")

    def block(x: int, out: int) -> int:
        nhwc = g.add("transpose", (pad(g, x, (0, 0, 0, 0, 1, 1, 1, 1), 3),), perms=(0, 2, 3, 1))
        narrow = rescale(
            g, conv(g, nhwc, out, (3, 3), 3), "INT8", [1200000000] * out, [38 + i % 2 for i in range(out)], 0, 3
        )
        return g.add("transpose", (clamp(g, narrow, 3, 100),), perms=(0, 3, 1, 2))

    first = block(x, 4)
    second = block(g.add("concat", (first, x), axis=1), 4)
    halves = [clamp(g, cut(g, second, (0, c, 0, 0), (1, 2, 5, 6)), -3, 60) for c in (0, 2)]
    g.outputs = [g.add("concat", halves, axis=1), g.add("reshape", (halves[0],), shape=(2, 30))]
    assert check(g).saturation.stop == "saturated"
