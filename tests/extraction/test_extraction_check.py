"""The checker: what counts as valid, and what it costs."""

import math

import numpy as np
import pytest

from extraction import ChoiceGraph, InvalidExtraction, InvalidGraph, check, dag_cost, reachable, tree_cost

# 0 reads 1 and 2, both read 3; class 2 may also read 0 back
DIAMOND = [[(1, [1, 2])], [(2, [3])], [(4, [3]), (0, [0])], [(8, [])]]
CHOICE = {0: 0, 1: 1, 2: 2, 3: 4}


def diamond(**terms) -> ChoiceGraph:
    return ChoiceGraph.build(DIAMOND, [0], **terms)


def test_costs_of_shared_nodes():
    g = diamond()
    assert check(g, CHOICE) == dag_cost(g, CHOICE) == 15
    assert tree_cost(g, CHOICE) == 23
    assert isinstance(check(g, CHOICE), int)


def test_tree_cost_counts_repeated_operands():
    g = ChoiceGraph.build([[(1, [1, 1])], [(2, [])]], [0])
    assert (tree_cost(g, {0: 0, 1: 1}), dag_cost(g, {0: 0, 1: 1})) == (5, 3)


def test_pair_terms_count_once_and_only_when_both_are_chosen():
    assert check(diamond(pair_costs={(1, 4): -3, (2, 4): 5}), CHOICE) == 17
    assert check(diamond(pair_costs={(0, 3): 100}), CHOICE) == 15
    twice = ChoiceGraph.build([[(1, [1, 1])], [(2, [])]], [0], pair_costs={(0, 1): 7})
    assert check(twice, {0: 0, 1: 1}) == 10


@pytest.mark.parametrize(
    ("choice", "terms", "at", "says"),
    [
        ({0: 0, 1: 1, 2: 2}, {}, 3, "no choice"),
        ({0: 0, 1: 1, 2: 3, 3: 4}, {}, 0, "cyclic"),
        ({0: 0, 1: 2, 2: 2, 3: 4}, {}, 1, "not one of its own"),
        ({0: 0, 1: 1, 2: 2, 3: 99}, {}, 3, "not one of its own"),
        (CHOICE, {"forbidden": [1]}, 1, "forbidden"),
    ],
)
def test_planted_faults_are_caught_and_located(choice, terms, at, says):
    with pytest.raises(InvalidExtraction, match=says) as caught:
        check(diamond(**terms), choice)
    assert caught.value.class_id == at


def test_unreached_entries_are_ignored_and_cut_away():
    g = ChoiceGraph.build([[(1, [])], [(5, [1])]], [0])
    assert check(g, {0: 0, 1: 1}) == 1
    assert reachable(g, {0: 0, 1: 1}) == {0: 0}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (([[(1, [7])]], [0]), "child class 7"),
        (([[(1, [])]], [3]), "root class 3"),
        (([[(1, [])]], []), "at least one root"),
        (([[(float("nan"), [])]], [0]), "cost nan"),
        (([[(float("-inf"), [])]], [0]), "cost -inf"),
        (([[(1, [])]], [0], {(0, 9): 1}), "does not exist"),
        (([[(1, [1])], [(1, [])]], [0], {(0, 1): float("inf")}), "delta inf"),
    ],
)
def test_malformed_graphs_are_refused(arguments, says):
    with pytest.raises(InvalidGraph, match=says):
        ChoiceGraph.build(*arguments)


def test_infinite_cost_is_a_forbidden_node():
    g = ChoiceGraph.build([[(float("inf"), []), (3, [])]], [0])
    assert g.forbidden == {0}
    with pytest.raises(InvalidExtraction):
        check(g, {0: 0})


@pytest.mark.parametrize(
    ("costs", "delta", "unit"),
    [
        ([3, 6], -3, 3.0),
        ([1.25, 0.5], 0.75, 0.25),
        ([float(np.float32(0.123)), float(np.float32(4.56))], 0, 0.003),  # decimals in single precision
        ([math.pi, 1], 0, None),
    ],
)
def test_units(costs, delta, unit):
    graph = ChoiceGraph.build([[(costs[0], [1])], [(costs[1], [])]], [0], pair_costs={(0, 1): delta} if delta else None)
    whole, worth = graph.in_units()
    if unit is None:
        assert (whole, worth) == (graph, 1.0)
    else:
        assert whole.integral and worth == pytest.approx(unit)
        assert worth * check(whole, {0: 0, 1: 1}) == pytest.approx(check(graph, {0: 0, 1: 1}))
