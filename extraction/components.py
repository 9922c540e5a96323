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
    graph = nx.DiGraph(successors)
    reading_themselves = set(nx.nodes_with_selfloops(graph))
    cyclic = (c for c in nx.strongly_connected_components(graph) if len(c) > 1 or c <= reading_themselves)
    return {c: i for i, component in enumerate(cyclic) for c in component}
