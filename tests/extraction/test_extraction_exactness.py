"""Every exact way agrees with brute force on random graphs, cyclic ones and those with pair terms too."""

import math
import time

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from extraction import ChoiceGraph, ExtractionError, Infeasible, check, extract, reduce
from extraction.asp import Asp
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
