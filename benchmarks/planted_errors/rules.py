"""Near-miss rules: identities with a wrong or a missing side condition, added to the sound ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from benchmarks.planted_errors.edits import merged
from eqsat.choice import choice
from eqsat.egraph.attributes import Call
from eqsat.egraph.encoding import saturate
from eqsat.egraph.engine import Budget, EngineError
from eqsat.egraph.externs import extern
from eqsat.egraph.kinds import Axial, Binary, Clamp, Pad, Rescale, Slice, Ternary, Unary, Value
from eqsat.egraph.rule import Rule, rule
from eqsat.egraph.terms import symbols
from eqsat.rules import RULES
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.movement import Move
from eqsat.tensor.types import GraphError
from extraction import ExtractionError, tree_greedy
from tests.planted import same_type
from tests.random_prices import Bytes

#: The budget of saturation with a wrong rule.
_BUDGET = Budget(nodes=1500, seconds=10.0)
#: Extractions per rule, each by other random prices, so that wrong e-nodes are chosen too.
_PLANS = 3


@extern
def one_less(s: Slice) -> Slice | None:
    """Returns a slice that begins one element earlier, None if it begins at the first."""
    start = s.attr("start")
    k = next((k for k, v in enumerate(start) if v), None)
    return None if k is None else s.with_attrs(start=(*start[:k], start[k] - 1, *start[k + 1 :]))


@extern
def other_value(p: Pad) -> Pad:
    """Returns a pad with another value."""
    return p.with_attrs(value=(p.attr("value")[0] + 1,))


@extern
def other_zero_point(r: Rescale) -> Rescale:
    """Returns a RESCALE with another zero point of its input."""
    return r.with_attrs(in_zp=(r.attr("in_zp")[0] + 1,))


@extern
def product(outer: Rescale, inner: Rescale) -> Rescale | None:
    """Returns one RESCALE by both scales, without the rounding and clipping between; None if there is none."""
    attrs = merged(inner.attrs, outer.attrs)
    return None if attrs is None else Call(outer.op, attrs)


f, f2 = symbols("f f2", Unary)
g, h, a, m = symbols("g", Binary), symbols("h", Ternary), symbols("a", Axial), symbols("m", Move)
c, c2 = symbols("c c2", Clamp)
r, r2 = symbols("r r2", Rescale)
s, p = symbols("s", Slice), symbols("p", Pad)
x, y, z = symbols("x y z", Value)
_rule = partial(rule, family="planted")

#: The near-miss rules.
WRONG = [
    _rule("unary-vanishes", f(x), x, where=same_type(f(x), x)),
    _rule("unaries-commute", f(f2(x)), f2(f(x)), where=same_type(f2(x), x)),
    _rule("binary-commutes", g(x, y), g(y, x)),
    _rule("select-vanishes", h(x, y, z), y, where=same_type(h(x, y, z), y)),
    _rule("select-swapped", h(x, y, z), h(x, z, y)),
    _rule("outer-clamp-only", c(c2(x)), c(x)),
    _rule("inner-clamp-only", c(c2(x)), c2(x)),
    _rule("clamp-before-rescale", c(r(x)), r(c(x)), where=same_type(r(x), x)),
    _rule("rescales-merge", r(r2(x)), product(r, r2)(x)),
    _rule("slice-begins-early", s(x), one_less(s)(x)),
    _rule("pad-with-another-value", p(x), other_value(p)(x)),
    _rule("another-zero-point", r(x), other_zero_point(r)(x)),
    _rule("move-vanishes", m(x), x, where=same_type(m(x), x)),
    _rule("axial-keeps-its-axis", a(m(x)), m(a(x)), where=same_type(m(x), x)),
    _rule("axial-vanishes", a(x), x, where=same_type(a(x), x)),
]


def graphs_with(wrong: Rule, source: TensorGraph, seed: int) -> Iterator[TensorGraph]:
    """Yields graphs of an e-graph that was also saturated with a wrong rule.

    Extraction by random prices finds them.
    """
    try:
        frozen = saturate(source, [wrong, *RULES], _BUDGET)
        rng = np.random.default_rng(seed)
        choices = choice.build(frozen, Bytes(Target.of("ethos-u85-256"), rng))
    except (EngineError, GraphError):  # The e-graph itself notices two types or two constants in one class.
        return
    for _ in range(_PLANS):
        plan = replace(choices.graph, cost=rng.exponential(1.0, choices.graph.n_nodes), pair_costs={})
        try:
            found, _ = choices.tensor_graph(tree_greedy.extract(plan).choice)
        except (ExtractionError, GraphError):
            return
        yield found
