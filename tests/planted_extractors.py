"""Extractors that are wrong on purpose."""

from __future__ import annotations

from dataclasses import replace

from extraction import ChoiceGraph, Extraction
from extraction.check import Choice
from extraction.dag_greedy import extract as greedy


def raises(graph: ChoiceGraph, *, time_limit: float, seed: int, warm_start: Choice | None) -> Extraction:
    """A mistake of its author's."""
    return greedy(graph, time_limit=time_limit / (graph.n_nodes - graph.n_nodes), seed=seed, warm_start=warm_start)


def empty(graph: ChoiceGraph, *, time_limit: float, seed: int, warm_start: Choice | None) -> Extraction:
    """Nothing is chosen."""
    return replace(greedy(graph, time_limit=time_limit, seed=seed, warm_start=warm_start), choice={})


def boastful(graph: ChoiceGraph, *, time_limit: float, seed: int, warm_start: Choice | None) -> Extraction:
    """A valid choice at a price that it has not."""
    return replace(greedy(graph, time_limit=time_limit, seed=seed, warm_start=warm_start), cost=1.0)


def bare(graph: ChoiceGraph, *, time_limit: float, seed: int, warm_start: Choice | None) -> Choice:
    """A choice without all that an Extraction says of it."""
    return greedy(graph, time_limit=time_limit, seed=seed, warm_start=warm_start).choice
