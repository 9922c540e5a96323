"""Random choice graphs and a brute-force extractor to hold the others against."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import product

from hypothesis import strategies as st

from extraction import ChoiceGraph, Infeasible, InvalidExtraction, Reduced, check
from extraction.check import Choice
from extraction.normal_form import NormalForm
from extraction.reductions import drop_underivable, export

SMALL_COSTS = st.integers(0, 6)


@st.composite
def choice_graphs(draw, terms: bool = True, max_classes: int = 6, costs=SMALL_COSTS) -> ChoiceGraph:
    """Cyclic and acyclic graphs, feasible or not; with pair terms and the rest if `terms`."""
    n_classes = draw(st.integers(1, max_classes))
    classes = st.integers(0, n_classes - 1)
    row = st.tuples(costs, st.lists(classes, max_size=3))
    leaf = st.tuples(costs, st.just([]))
    rows = [
        draw(st.lists(st.one_of(row, leaf) if c == n_classes - 1 else row, min_size=1, max_size=3))
        for c in range(n_classes)
    ]
    rows[-1].append(draw(leaf))
    roots = draw(st.lists(classes, min_size=1, max_size=2))
    if not terms:
        return ChoiceGraph.build(rows, roots)
    owner = [c for c, row in enumerate(rows) for _ in row]
    flat = [r for row in rows for r in row]
    reads = [(n, m) for n, (_, children) in enumerate(flat) for m, c in enumerate(owner) if c in children]
    nodes = st.integers(0, len(flat) - 1)
    return ChoiceGraph.build(
        rows,
        roots,
        pair_costs=draw(st.dictionaries(st.sampled_from(reads), st.integers(-4, 4), max_size=8)) if reads else None,
        forbidden=draw(st.lists(nodes, max_size=1)),
    )


def choices(graph: ChoiceGraph) -> Iterator[tuple[Choice, float]]:
    """All valid choices of a small graph with their costs."""
    for nodes in product(*(list(graph.class_nodes(c)) or [-1] for c in range(graph.n_classes))):
        choice = dict(enumerate(nodes))
        with contextlib.suppress(InvalidExtraction):
            yield choice, check(graph, choice)


def brute_force(graph: ChoiceGraph) -> float | None:
    """The least cost over all choices, or None where there is none."""
    return min((cost for _, cost in choices(graph)), default=None)


def normal(graph: ChoiceGraph) -> Reduced | None:
    """The graph in normal form, not reduced: a solver sees the cycles and the surcharges. None: there is no choice."""
    form = NormalForm.of(graph)
    try:
        drop_underivable(form)
    except Infeasible:
        return None
    return export(graph, form)


class Recorder:
    """A SolverReport that remembers the last choice and the best bound of a solver run in this process."""

    def __init__(self) -> None:
        self.last: dict[int, int] | None = None
        self.best_bound = float("-inf")

    def choice(self, choice: dict[int, int]) -> None:
        self.last = choice

    def bound(self, value: float) -> None:
        self.best_bound = max(self.best_bound, value)
