"""Greedy extraction that goes on from a choice."""

from __future__ import annotations

import pytest

from extraction import ChoiceGraph, check, dag_greedy


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
