"""Lagrange steps lead to choices within budgets, against all choices of small random graphs."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from extraction import Budget, ChoiceGraph, Infeasible, NoChoiceFound, check, extract, reachable
from extraction.lagrange import steps
from tests.extraction.sample_graphs import choice_graphs, choices


def cheapest(graph: ChoiceGraph, budgets: list[Budget]) -> float | None:
    """Over all choices, counting what the roots reach."""
    found = ((cost, list(reachable(graph, choice).values())) for choice, cost in choices(graph))
    return min((cost for cost, used in found if all(b.weights[used].sum() <= b.most for b in budgets)), default=None)


def budgets_of(graph: ChoiceGraph, data: st.DataObject) -> list[Budget]:
    """Up to two budgets."""
    counts = st.lists(st.integers(0, 5), min_size=graph.n_nodes, max_size=graph.n_nodes)
    return [
        Budget(np.array(data.draw(counts), float), float(data.draw(st.integers(0, 12))))
        for _ in range(data.draw(st.integers(0, 2)))
    ]


@settings(max_examples=60, deadline=None)
@given(choice_graphs(max_classes=5), st.data())
def test_an_extraction_with_budgets_keeps_them(graph: ChoiceGraph, data: st.DataObject) -> None:
    budgets = budgets_of(graph, data)
    expected = cheapest(graph, budgets)
    try:
        found = extract(graph, "dag_greedy", budgets=budgets)
    except (Infeasible, NoChoiceFound):
        found = None
    if found is not None:
        assert expected is not None and found.cost >= expected - 1e-6
        assert found.cost == check(graph, found.choice) and not any(b.excess(found.choice) for b in budgets)


def test_steps_lead_into_a_budget_at_little_cost() -> None:
    """Of 30 classes each e-node is cheap and heavy or dear and light, the dear ones by ever more."""
    rows = [[(1.0, []), (2.0 + i, [])] for i in range(30)]
    graph = ChoiceGraph.build([[(0, list(range(1, 31)))], *rows], [0])
    weights = np.array([0.0, *([10.0, 0.0] * 30)])
    budget = Budget(weights, 150.0)
    start = {c: int(graph.class_start[c]) for c in range(graph.n_classes)}
    met = steps(graph, [budget], [start])
    best = min(check(graph, c) for c in met if not budget.excess(c))
    fewest_dear = sum(2.0 + i if i < 15 else 1.0 for i in range(30))
    assert best <= 1.15 * fewest_dear
    assert steps(graph, [Budget(weights, 300.0)], [start]) == []
