"""Neighbourhoods: what they say about costs is what the whole graph says."""

from __future__ import annotations

import random

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from extraction import Infeasible, check, reachable, reduce
from extraction.dag_greedy import extract as greedy
from extraction.neighbourhood import Neighbours
from extraction.normal_form import NormalForm
from extraction.reduce import export
from extraction.reductions import drop_underivable, drop_unreachable
from tests.extraction.sample_graphs import choice_graphs, choices
from tests.sweeps import examples

SETTINGS = settings(
    max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


def normal(graph):
    """The graph in normal form and a choice, or None if there is none."""
    try:
        form = NormalForm.of(graph)
        drop_underivable(form)
        drop_unreachable(form)
        small = export(graph, form).graph
        return small, reachable(small, greedy(small).choice)
    except Infeasible:
        return None


@SETTINGS
@given(choice_graphs(), st.integers(0, 5), st.integers(1, 4))
def test_a_share_changes_the_whole_by_what_it_changes_in_the_part(graph, seed, size):
    found = normal(graph)
    assume(found is not None)
    whole, best = found
    neighbours = Neighbours(whole, random.Random(seed))
    part = neighbours.part(best, neighbours.ball(best, size))
    here, there = check(part.graph, part.of(best)), check(whole, best)
    for share, cost in choices(part.graph):
        assert check(whole, part.put_into(whole, best, share)) - there == cost - here


@SETTINGS
@given(choice_graphs(max_classes=5))
def test_with_everything_free_the_part_is_the_whole(graph):
    found = normal(graph)
    assume(found is not None)
    whole, best = found
    part = Neighbours(whole, random.Random(0)).part(best, set(range(whole.n_classes)))
    assert sorted(c for _, c in choices(part.graph)) == sorted(c for _, c in choices(whole))


def test_reduce_and_lift_meet_the_part():
    from extraction import ChoiceGraph

    g = ChoiceGraph.build([[(0, [1, 2])], [(5, [3]), (4, [])], [(1, [3])], [(2, []), (3, [])]], [0])
    best = {0: 0, 1: 1, 2: 3, 3: 5}
    part = Neighbours(g, random.Random(0)).part(reachable(g, best), {3})
    assert part.put_into(g, best, reduce(part.graph).lift({0: 0}))[3] == 4
