"""Greedy extraction that goes on from a choice."""

from __future__ import annotations

import pytest

from extraction import ChoiceGraph, check, dag_greedy


def independent(n: int) -> ChoiceGraph:
    """`n` classes, each with an e-node that costs 3 and one that costs 1."""
    return ChoiceGraph.build([[(0, list(range(1, n + 1)))], *([(3, []), (1, [])] for _ in range(n))], [0])


def expensive(graph: ChoiceGraph) -> dict[int, int]:
    return {c: int(graph.class_start[c]) for c in range(graph.n_classes)}


@pytest.mark.parametrize(("wanted", "cost"), [(20, 20), (15, 14), (8, 8), (0, 8)])
def test_a_choice_is_improved_only_until_it_is_enough(wanted: int, cost: int) -> None:
    graph = independent(8)
    assert check(graph, expensive(graph)) == 24
    found = dag_greedy.improved_until(graph, expensive(graph), lambda c: check(graph, c) <= wanted)
    assert check(graph, found) == cost


def test_a_start_is_improved_beside_the_greedy_pass() -> None:
    graph = independent(3)
    assert dag_greedy.extract(graph, restarts=1, starts=[expensive(graph)]).cost == 3
