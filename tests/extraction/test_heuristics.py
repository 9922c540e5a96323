"""Greedy extraction, its neighbourhoods and Lagrange steps: what they say of costs is what the graph says."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from extraction import ChoiceGraph, Infeasible, check, dag_greedy, extract, reachable, reduce
from extraction.dag_greedy import extract as greedy
from extraction.lagrange import Budget, steps
from extraction.normal_form import NormalForm
from extraction.portfolio import Neighbours
from extraction.reductions import drop_underivable, drop_unreachable, export
from tests.extraction.sample_graphs import choice_graphs, choices
from tests.sweeps import examples


def independent(n: int) -> ChoiceGraph:
    """`n` classes, each with an e-node that costs 3 and one that costs 1."""
    return ChoiceGraph.build([[(0, list(range(1, n + 1)))], *([(3, []), (1, [])] for _ in range(n))], [0])


def expensive(graph: ChoiceGraph) -> dict[int, int]:
    return {c: int(graph.class_start[c]) for c in range(graph.n_classes)}


def test_a_start_is_improved_beside_the_greedy_pass() -> None:
    graph = independent(3)
    assert dag_greedy.extract(graph, restarts=1, starts=[expensive(graph)]).cost == 3


def shared(readers: int, price: int = 10) -> ChoiceGraph:
    """Classes that each cost 3, or read one that costs `price` and more is read by; the root needs all of them."""
    ways = [[(3, []), (0, [readers + 1])] for _ in range(readers)]
    return ChoiceGraph.build([[(0, list(range(1, readers + 1)))], *ways, [(price, [])]], [0])


@pytest.mark.parametrize(("readers", "cost"), [(2, 6), (3, 9), (4, 10), (9, 10)])
def test_what_pays_for_several_readers_alone_is_found(readers: int, cost: int) -> None:
    assert dag_greedy.extract(shared(readers), restarts=1).cost == cost


def test_a_joint_change_takes_back_what_would_need_itself() -> None:
    """Classes 1 to 4 may read class 5, whose only way needs class 1."""
    ways = [[(3, []), (0, [5])] for _ in range(4)]
    graph = ChoiceGraph.build([[(0, [1, 2, 3, 4])], *ways, [(1, [1])]], [0])
    found = dag_greedy.extract(graph, restarts=1)
    assert found.cost == check(graph, found.choice) == 4


SETTINGS = settings(
    max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


def normal(graph):
    """The graph in normal form and a choice; the example is left out where there is none."""
    try:
        form = NormalForm.of(graph)
        drop_underivable(form)
        drop_unreachable(form)
        small = export(graph, form).graph
        return small, reachable(small, greedy(small).choice)
    except Infeasible:
        assume(False)


@SETTINGS
@given(choice_graphs(), st.integers(0, 5), st.integers(1, 4))
def test_a_share_changes_the_whole_by_what_it_changes_in_the_part(graph, seed, size):
    whole, best = normal(graph)
    neighbours = Neighbours(whole, random.Random(seed))
    part = neighbours.part(best, neighbours.ball(best, size))
    here, there = check(part.graph, part.of(best)), check(whole, best)
    for share, cost in choices(part.graph):
        assert check(whole, part.put_into(whole, best, share)) - there == cost - here


@SETTINGS
@given(choice_graphs(max_classes=5))
def test_with_everything_free_the_part_is_the_whole(graph):
    whole, best = normal(graph)
    part = Neighbours(whole, random.Random(0)).part(best, set(range(whole.n_classes)))
    assert sorted(c for _, c in choices(part.graph)) == sorted(c for _, c in choices(whole))


def test_reduce_and_lift_meet_the_part():
    g = ChoiceGraph.build([[(0, [1, 2])], [(5, [3]), (4, [])], [(1, [3])], [(2, []), (3, [])]], [0])
    best = {0: 0, 1: 1, 2: 3, 3: 5}
    part = Neighbours(g, random.Random(0)).part(reachable(g, best), {3})
    assert part.put_into(g, best, reduce(part.graph).lift({0: 0}))[3] == 4


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
    start = expensive(graph)
    met = steps(graph, [budget], [start])
    best = min(check(graph, c) for c in met if not budget.excess(c))
    fewest_dear = sum(2.0 + i if i < 15 else 1.0 for i in range(30))
    assert best <= 1.15 * fewest_dear
    assert steps(graph, [Budget(weights, 300.0)], [start]) == []
