"""Every exact way agrees with brute force on random graphs, cyclic ones and those with pair terms too."""

import json
import os
import subprocess
import sys
import time
from importlib.util import find_spec

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from extraction import (
    ChoiceGraph,
    ExtractionError,
    Infeasible,
    NoChoiceFound,
    Reduced,
    asp,
    asp_knots,
    branch,
    check,
    extract,
    ilp,
    reduce,
)
from extraction.io import to_json
from extraction.normal_form import NormalForm
from extraction.reduce import export
from extraction.reductions import drop_underivable
from tests.extraction.sample_graphs import Heard, brute_force, choice_graphs

many = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
some = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
mixed = st.one_of(choice_graphs(), choice_graphs(terms=False), choice_graphs(costs=st.integers(-3, 5)))


def solved_by(graph: ChoiceGraph, solve) -> float | None:
    """The cost by reduction and `solve`; None where infeasible."""
    try:
        reduced = reduce(graph)
    except Infeasible:
        return None
    choice = {0: 0} if reduced.solved else solve(reduced.graph)
    if choice is None:
        return None
    cost = check(graph, reduced.lift(choice))
    assert cost == pytest.approx(check(reduced.graph, choice) + reduced.offset)
    return cost


def in_process(module):
    def solve(graph: ChoiceGraph) -> dict[int, int] | None:
        heard = Heard()
        status = module.solve(graph, heard, deadline=time.perf_counter() + 60, seed=0, warm_start=None)
        if status == "infeasible":
            return None
        assert heard.last is not None
        assert heard.best_bound == pytest.approx(check(graph, heard.last), abs=1e-5)
        return heard.last

    return solve


@many
@given(mixed)
def test_branch_and_bound_and_reductions(graph):
    assert solved_by(graph, branch.solve) == brute_force(graph)


@some
@given(mixed)
def test_asp(graph):
    pytest.importorskip("clingo")
    assert solved_by(graph, in_process(asp)) == brute_force(graph)


@some
@given(mixed)
def test_ilp(graph):
    pytest.importorskip("highspy")
    assert solved_by(graph, in_process(ilp)) == brute_force(graph)


def normal(graph: ChoiceGraph) -> Reduced | None:
    """The graph in normal form but not reduced, so that a solver sees the cycles and the surcharges."""
    form = NormalForm.of(graph)
    try:
        drop_underivable(form)
    except Infeasible:
        return None
    return export(graph, form)


@some
@given(mixed)
def test_solvers_without_reductions(graph):
    raw = normal(graph)
    assume(raw is not None)
    expected = brute_force(graph)
    for name, solve in (
        ("branch", branch.solve),
        ("asp", in_process(asp)),
        ("asp_knots", in_process(asp_knots)),
        ("ilp", in_process(ilp)),
    ):
        choice = solve(raw.graph)
        found = None if choice is None else check(graph, raw.lift(choice))
        assert found == expected, name


@some
@given(mixed, st.integers(0, 3))
def test_reductions_keep_an_optimum_under_an_upper_bound(graph, slack):
    best = brute_force(graph)
    assume(best is not None)
    reduced = reduce(graph, best + slack)
    choice = {0: 0} if reduced.solved else branch.solve(reduced.graph)
    assert check(graph, reduced.lift(choice)) == best


@some
@given(mixed)
def test_greedy_is_valid_and_never_below_the_optimum(graph):
    best = brute_force(graph)
    for method in ("tree_greedy", "dag_greedy"):
        try:
            found = extract(graph, method)
        except Infeasible:
            assert best is None
        except NoChoiceFound:
            assert graph.forbidden_pairs
        else:
            assert found.cost == check(graph, found.choice) >= best


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
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


def test_cpsat():
    """One process for all graphs: ortools takes a second to load, and cannot be loaded beside highspy."""
    if find_spec("ortools") is None:
        pytest.skip("ortools is not installed")
    jobs, expected = [], []

    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(mixed)
    def collect(graph):
        raw = normal(graph)
        if raw is not None:
            best = brute_force(graph)
            jobs.append(to_json(raw.graph))
            expected.append(None if best is None else best - raw.offset)

    collect()
    script = (
        "import json,sys,time\n"
        "from tests.extraction.sample_graphs import Heard\n"
        "from extraction import check, cpsat\n"
        "from extraction.io import from_json\n"
        "for job in json.load(sys.stdin):\n"
        "    g, heard = from_json(job), Heard()\n"
        "    status = cpsat.solve(g, heard, deadline=time.perf_counter() + 60, seed=0, warm_start=None)\n"
        "    print(json.dumps(None if status == 'infeasible' else [check(g, heard.last), heard.best_bound]))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps(jobs),
        text=True,
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(answers) == len(expected) > 10
    for answer, best in zip(answers, expected):
        if best is None:
            assert answer is None
        else:
            assert answer == [pytest.approx(best), pytest.approx(best, abs=1e-4)]


@example(0.1)
@given(st.floats(0.05, 1e6))
@settings(max_examples=30, deadline=None)
def test_scaled_bounds_are_bounds(unit):
    """asp and cpsat count in whole numbers; their bound must not overshoot the true optimum."""
    graph = ChoiceGraph.build([[(unit / 3, [1, 2]), (unit, [])], [(unit / 7, [])], [(unit / 11, [1])]], [0])
    heard = Heard()
    asp.solve(graph, heard, deadline=time.perf_counter() + 60, seed=0, warm_start=None)
    best = check(graph, heard.last)
    assert heard.best_bound <= best * (1 + 1e-12)  # up to the last bit of a float
    assert heard.best_bound == pytest.approx(best, rel=1e-6)
