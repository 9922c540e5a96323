"""Lagrange steps lead to choices within budgets."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from extraction import ChoiceGraph, Infeasible, check, extract
from extraction.lagrange import Budget, steps
from tests.extraction.sample_graphs import choice_graphs
from tests.sweeps import examples


def budgets_of(graph: ChoiceGraph, data: st.DataObject) -> list[Budget]:
    """Up to two budgets."""
    counts = st.lists(st.integers(0, 5), min_size=graph.n_nodes, max_size=graph.n_nodes)
    return [
        Budget(np.array(data.draw(counts), float), float(data.draw(st.integers(0, 12))))
        for _ in range(data.draw(st.integers(0, 2)))
    ]


@settings(max_examples=examples(60), deadline=None)
@given(choice_graphs(max_classes=5), st.data())
def test_steps_are_choices_of_the_graph_and_none_follows_a_start_within_the_budgets(
    graph: ChoiceGraph, data: st.DataObject
) -> None:
    budgets = budgets_of(graph, data)
    try:
        start = extract(graph, "dag_greedy").choice
        met = steps(graph, budgets, [start])
    except Infeasible:
        assume(False)
    assert bool(met) == any(b.excess(start) for b in budgets)
    for choice in met:
        check(graph, choice)  # raises InvalidExtraction


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
