"""Graphs that are cut where one class joins what is below it to the rest."""

from __future__ import annotations

import math
from dataclasses import replace
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extraction import ChoiceGraph, Extraction, Infeasible, check, dag_greedy, extract, parts, portfolio
from tests.extraction.sample_graphs import brute_force, choice_graphs


@st.composite
def joined(draw) -> ChoiceGraph:
    """Up to three graphs in a row: a class of each, alone or besides other e-nodes of its own, reads the roots of the
    next."""
    pieces = draw(st.lists(choice_graphs(max_classes=4), min_size=2, max_size=3))
    rows, pairs, forbidden, bad, per_reader, roots = [], {}, [], [], [], []
    first, nodes = 0, 0
    for k, g in enumerate(pieces):
        shift = first
        number = {}
        link = draw(st.integers(0, g.n_classes - 1)) if k + 1 < len(pieces) else None
        for c in range(g.n_classes):
            rows.append([])
            for n in g.class_nodes(c):
                number[n] = nodes
                rows[-1].append((float(g.cost[n]), [shift + d for d in g.children(n)]))
                nodes += 1
            if c == link:
                rows[-1].append((draw(st.integers(0, 3)), [shift + g.n_classes + r for r in pieces[k + 1].roots]))
                nodes += 1
        pairs |= {(number[n], number[m]): d for (n, m), d in g.pair_costs.items()}
        forbidden += [number[n] for n in g.forbidden]
        bad += [(number[n], number[m]) for n, m in g.forbidden_pairs]
        per_reader += [shift + c for c in g.per_reader]
        roots = roots or [shift + r for r in g.roots]
        first += g.n_classes
    return ChoiceGraph.build(rows, roots, pairs, forbidden, bad, per_reader)


def optimum(graph, *, time_limit, seed, warm_start):
    return portfolio.extract_whole(graph, time_limit=time_limit, seed=seed, warm_start=warm_start)


@given(joined())
@settings(deadline=None, max_examples=80)
def test_the_best_of_the_parts_is_the_best_of_the_whole(graph: ChoiceGraph) -> None:
    best = brute_force(graph)
    with mock.patch.object(parts, "LEAST", 1):
        if best is None:
            with pytest.raises(Infeasible):
                parts.extract(graph, optimum, "portfolio")
            return
        found = parts.extract(graph, optimum, "portfolio")
    assert check(graph, found.choice) == found.cost == found.lower_bound == best
    assert found.status == "optimal"


def chain(length: int, leaf: float = 1.0, skip: float | None = None) -> ChoiceGraph:
    """A row of copies of a part: its root is computed from either of two classes, which both read the root of the next
    part. skip: cost of a leaf that the first of them can be instead."""
    rows = []
    for k in range(length):
        a, b, below = 3 * k + 1, 3 * k + 2, 3 * k + 3
        rows += [[(2, [a]), (1, [b])], [(3, [below])] + ([(skip, [])] if skip is not None else []), [(5, [below])]]
    return ChoiceGraph.build([*rows, [(leaf, [])]], [0])


def test_equal_parts_are_extracted_once() -> None:
    asked = []

    def counting(graph, **options):
        asked.append(graph.n_nodes)
        return portfolio.extract_whole(graph, **options)

    graph = chain(50)
    with mock.patch.object(parts, "LEAST", 1):
        assert len(parts.cut(graph, 1)) == 50
        found = parts.extract(graph, counting, "portfolio")
    assert found.cost == 50 * 5 + 1 and found.status == "optimal"
    assert len(asked) == 2, "the lowest part, and all others"


def test_what_can_be_done_without_is_worth_its_cost_above() -> None:
    """The second part costs 6, so that the leaf of 4 beside it is cheaper; of parts that cost less it is not."""
    with mock.patch.object(parts, "LEAST", 1):
        for skip, best in ((4, 6), (9, 11), (50, 11)):
            graph = chain(2, skip=skip)
            assert parts.extract(graph, optimum, "portfolio").cost == best == brute_force(graph)


def test_a_pair_across_with_one_of_several_forms_is_no_place_to_cut() -> None:
    """Class 1 has two e-nodes below, and which of them is the best depends on the pair with class 0."""
    rows = [[(0, [1])], [(1, [2]), (2, [2])], [(1, [3])], [(1, [])]]
    assert list(parts.cut(ChoiceGraph.build(rows, [0]), 1)) == [2, 1, 4]
    assert list(parts.cut(ChoiceGraph.build(rows, [0], {(0, 1): 5}), 1)) == [2, 4]


def test_a_bound_that_is_not_tight_widens_the_gap_of_the_whole() -> None:
    def loose(graph, **options):
        found = portfolio.extract_whole(graph, **options)
        return replace(found, lower_bound=found.cost - 1.0, status="feasible")

    with mock.patch.object(parts, "LEAST", 1):
        found = parts.extract(chain(4), loose, "loose")
    assert (found.cost, found.lower_bound, found.status) == (21, 17, "feasible")


def test_a_better_choice_at_hand_is_kept() -> None:
    def worst(graph, **options):
        choice = {c: min(graph.class_nodes(c), key=lambda n: graph.cost[n]) for c in range(graph.n_classes)}
        return Extraction(choice, check(graph, choice), -math.inf, "feasible")

    graph = chain(4)
    best = portfolio.extract_whole(graph).choice
    with mock.patch.object(parts, "LEAST", 1):
        assert parts.extract(graph, worst, "worst").cost > 21
        assert parts.extract(graph, worst, "worst", warm_start=best).cost == 21


@pytest.mark.parametrize("name", ["portfolio", "dag_greedy"])
def test_large_graphs_go_by_parts(name: str) -> None:
    graph = chain(30)
    with mock.patch.object(parts, "WHOLE", 50), mock.patch.object(parts, "LEAST", 20):
        found = extract(graph, name)
    assert (found.cost, found.extractor) == (151, name)


def test_greedy_extraction_without_sets_of_all_that_is_needed() -> None:
    graph = chain(10)
    with mock.patch.object(dag_greedy, "SET_CLASSES", 10):
        assert extract(graph, "dag_greedy").cost == 51
