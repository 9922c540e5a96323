"""Strongly connected components of the class graph: where cycles can be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def strong_components(successors: Mapping[int, Iterable[int]]) -> list[list[int]]:
    """Strongly connected components, each after all that it can reach (Tarjan 1972, iterative)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    on_stack: set[int] = set()
    stack: list[int] = []
    components: list[list[int]] = []
    for root in successors:
        if root in index:
            continue
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        path = [(root, iter(successors[root]))]
        while path:
            v, rest = path[-1]
            w = next(rest, None)
            if w is not None:
                if w not in index:
                    index[w] = low[w] = len(index)
                    stack.append(w)
                    on_stack.add(w)
                    path.append((w, iter(successors.get(w, ()))))
                elif w in on_stack:
                    low[v] = min(low[v], index[w])
                continue
            path.pop()
            if path:
                u = path[-1][0]
                low[u] = min(low[u], low[v])
            if low[v] == index[v]:
                component = []
                while True:
                    w = stack.pop()
                    on_stack.discard(w)
                    component.append(w)
                    if w == v:
                        break
                components.append(component)
    return components


def cyclic_component_of(successors: Mapping[int, Iterable[int]]) -> dict[int, int]:
    """Class -> number of its component, for the classes that lie on some cycle (self-loops too)."""
    number: dict[int, int] = {}
    for i, component in enumerate(strong_components(successors)):
        if len(component) > 1 or component[0] in successors.get(component[0], ()):
            for c in component:
                number[c] = i
    return number
