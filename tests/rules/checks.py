"""The checker of `eqsat/checking/soundness.py` with the project's rules as defaults.

>>> from tests.term import graph
>>> g = graph("x:INT8[2,3]", lambda x: x.clamp(-5, 90).clamp(-9, 60))
>>> sorted(check(g, [r for r in RULES if r.name == "clamp-clamp"]).saturation.matches)
['clamp-clamp', ...]

Reusable by every family: `check` for a graph, `only` for one rule with the helpers it needs.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from eqsat.checking import soundness
from eqsat.egraph.encoding import Frozen
from eqsat.egraph.engine import DEFAULT_BUDGET, Budget
from eqsat.egraph.rule import Rule, with_helpers
from eqsat.rules import RULES
from eqsat.tensor.graph import TensorGraph


def only(*names: str) -> list[Rule]:
    """The named rules and those that make the facts and postponed operators that they need."""
    missing = set(names) - {r.name for r in RULES}
    assert not missing, f"no such rules: {missing}"
    return list(with_helpers((r for r in RULES if r.name in names), RULES))


def check(graph: TensorGraph, rules: Sequence[Rule] = RULES, budget: Budget = DEFAULT_BUDGET) -> Frozen:
    """Saturates, evaluates every e-node on samples and compares with the graph itself. Raises Unsound."""
    return soundness.check(graph, rules, budget=budget).frozen


def saturated(graph: TensorGraph, *names: str) -> Frozen:
    """What the named rules alone make of `graph`; everything is checked.

    Passes are few: what one rule moves to and fro, without those that merge movements, grows without end.
    """
    return check(graph, only(*names), budget=Budget(passes=8))


def fires(graph: TensorGraph, *names: str) -> bool:
    """Whether the first of the named rules matched on `graph`, under these rules alone."""
    return saturated(graph, *names).saturation.matches.get(names[0], 0) > 0


def ops_of_output(frozen: Frozen) -> set[str]:
    """Operators among the e-nodes of the first output's class."""
    return {e.op for e in frozen.classes[frozen.handle[frozen.source.outputs[0]]]}


def of_inputs(frozen: Frozen) -> set[str]:
    """Operators that compute the first output from inputs alone."""
    inputs = {frozen.handle.get(n) for n in frozen.source.inputs}
    nodes = frozen.classes[frozen.handle[frozen.source.outputs[0]]]
    return {e.op for e in nodes if e.children and inputs.issuperset(e.children)}


# ---- random shapes ------------------------------------------------------------------------------

#: Shapes of up to three axes, none wider than six.
shapes = st.lists(st.integers(1, 6), min_size=1, max_size=3).map(tuple)


@st.composite
def slices(draw, shape: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(start, size) of some slice of `shape`."""
    size = [draw(st.integers(1, n)) for n in shape]
    return tuple(draw(st.integers(0, n - m)) for n, m in zip(shape, size, strict=True)), tuple(size)
