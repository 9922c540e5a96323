"""Strongly connected components of the class graph: every cycle lies within one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import networkx as nx


def strong_components(successors: Mapping[int, Iterable[int]]) -> list[list[int]]:
    """Returns the strongly connected components, each after all that it can reach."""
    condensed = nx.condensation(nx.DiGraph(successors))
    return [sorted(condensed.nodes[c]["members"]) for c in reversed(list(nx.topological_sort(condensed)))]


def cyclic_component_of(successors: Mapping[int, Iterable[int]]) -> dict[int, int]:
    """Returns {class: number of its component} for the classes that lie on a cycle.

    A class that reads itself is on a cycle, too.
    """
    components = nx.strongly_connected_components(nx.DiGraph(successors))
    cyclic = (c for c in components if len(c) > 1 or not c.isdisjoint(successors.get(next(iter(c)), ())))
    return {c: i for i, component in enumerate(cyclic) for c in component}
