"""Every exact way agrees with brute force on random graphs, cyclic ones and those with pair terms too."""

import math
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from extraction import ChoiceGraph, ExtractionError, Infeasible, InvalidExtraction, InvalidGraph, check, extract, reduce
from extraction.asp import Asp
from extraction.check import dag_cost, reachable, tree_cost
from extraction.exact import carry
from extraction.portfolio import ORDERED
from extraction.protocol import Solver
from tests.extraction.sample_graphs import Recorder, brute_force, choice_graphs, normal
from tests.sweeps import examples

some = settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
mixed = st.one_of(choice_graphs(), choice_graphs(terms=False), choice_graphs(costs=st.integers(-3, 5)))


def in_process(solver: Solver):
    def solve(graph: ChoiceGraph) -> dict[int, int]:
        recorder = Recorder()
        solver.solve(graph, recorder, deadline=time.perf_counter() + 60, seed=0, warm_start=None)
        assert recorder.last is not None
        assert recorder.best_bound == pytest.approx(check(graph, recorder.last), abs=1e-5)
        return recorder.last

    return solve


@some
@given(mixed)
def test_solvers_without_reductions(graph):
    raw = normal(graph)
    assume(raw is not None)
    expected = brute_force(graph)
    for solver in (Asp(), ORDERED):
        assert check(graph, raw.lift(in_process(solver)(raw.graph))) == expected, solver


@settings(some, max_examples=examples(300))
@given(mixed, st.integers(0, 3) | st.just(math.inf))
def test_reductions_keep_an_optimum_under_an_upper_bound(graph, slack):
    best = brute_force(graph)
    if best is None:
        with pytest.raises(Infeasible):
            reduce(graph)
        return
    reduced = reduce(graph, best + slack)
    choice = {0: 0} if reduced.solved else in_process(Asp())(reduced.graph)
    assert check(graph, reduced.lift(choice)) == best == pytest.approx(check(reduced.graph, choice) + reduced.offset)


@pytest.mark.slow
@some
@given(mixed)
def test_a_choice_is_carried_over_to_the_reduced_graph(graph):
    """To e-nodes of its own where they are left: greedy extraction alone starts from less on large graphs."""
    try:
        whole = extract(graph, "dag_greedy")
        reduced = [normal(graph), reduce(graph, whole.cost)]
    except ExtractionError:
        assume(False)
    for small in reduced:
        near = {0: 0} if small.solved else carry(small, whole.choice, 10.0)
        assert check(graph, small.lift(near)) <= whole.cost


@pytest.mark.slow
@some
@given(mixed)
def test_greedy_is_valid_and_never_below_the_optimum(graph):
    best = brute_force(graph)
    for method in ("tree_greedy", "dag_greedy"):
        try:
            found = extract(graph, method)
        except Infeasible:
            assert best is None
        else:
            assert found.cost == check(graph, found.choice) >= best


@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(choice_graphs())
def test_portfolio(graph):
    best = brute_force(graph)
    try:
        found = extract(graph, time_limit=20)
    except ExtractionError:
        assert best is None
    else:
        assert found.cost == best
        assert found.status == "optimal"
        assert found.lower_bound == best


@example(0.1)
@given(st.floats(0.05, 1e6))
@settings(max_examples=examples(30), deadline=None)
def test_scaled_bounds_are_bounds(unit):
    """asp counts in whole numbers; its bound must not overshoot the true optimum."""
    graph = ChoiceGraph.build([[(unit / 3, [1, 2]), (unit, [])], [(unit / 7, [])], [(unit / 11, [1])]], [0])
    recorder = Recorder()
    Asp().solve(graph, recorder, deadline=time.perf_counter() + 60, seed=0, warm_start=None)
    best = check(graph, recorder.last)
    assert recorder.best_bound <= best * (1 + 1e-12)  # up to the last bit of a float
    assert recorder.best_bound == pytest.approx(best, rel=1e-6)


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
