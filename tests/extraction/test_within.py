"""The cheapest choice within budgets, against all choices of small random graphs."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from extraction import ChoiceGraph, Infeasible, check, reachable
from extraction.errors import InvalidExtraction
from extraction.within import Budget, within
from tests.extraction.sample_graphs import choice_graphs


def cheapest(graph: ChoiceGraph, budgets: list[Budget]) -> float | None:
    """Over all choices, counting what the roots reach."""
    best = None
    for nodes in product(*(list(graph.class_nodes(c)) or [-1] for c in range(graph.n_classes))):
        try:
            cost, used = check(graph, dict(enumerate(nodes))), reachable(graph, dict(enumerate(nodes))).values()
        except InvalidExtraction:
            continue
        if all(b.weights[list(used)].sum() <= b.most for b in budgets) and (best is None or cost < best):
            best = cost
    return best


@settings(max_examples=60, deadline=None)
@given(choice_graphs(max_classes=5), st.data())
def test_no_choice_within_the_budgets_is_cheaper(graph: ChoiceGraph, data: st.DataObject) -> None:
    counts = st.lists(st.integers(0, 5), min_size=graph.n_nodes, max_size=graph.n_nodes)
    budgets = [
        Budget(np.array(data.draw(counts), float), float(data.draw(st.integers(0, 12))))
        for _ in range(data.draw(st.integers(0, 2)))
    ]
    expected = cheapest(graph, budgets)
    try:
        found = within(graph, budgets, gap=0.0)
    except Infeasible:
        found = None
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert abs(found.cost - expected) < 1e-6 and found.cost == check(graph, found.choice)
        assert all(b.weights[list(found.choice.values())].sum() <= b.most + 1e-6 for b in budgets)
        assert found.lower_bound <= found.cost
