"""The independent checker: is it a valid choice, and what does it cost?

It shares no code with any extractor, so that no extractor can mark its own homework.
"""

from __future__ import annotations

from collections.abc import Mapping

from .errors import InvalidExtraction
from .graph import ChoiceGraph

Choice = Mapping[int, int]


def check(graph: ChoiceGraph, choice: Choice) -> float | int:
    """The cost of `choice`, once it is proved valid (see `graph` for what a cost is).

    Raises InvalidExtraction, naming the class, if a reached class has no choice, an e-node of
    another class or a forbidden one; if a forbidden pair meets; or if the choice is cyclic. Entries
    for classes that the roots do not reach are ignored.
    """
    order = _topological(graph, choice)
    for c in order:
        n = choice[c]
        for child in set(graph.children(n)):
            if (n, choice[child]) in graph.forbidden_pairs:
                raise InvalidExtraction(
                    f"class {c}: e-node {n} may not read e-node {choice[child]} of class {child}", c
                )
    return graph.total(_cost(graph, choice, order))


def reachable(graph: ChoiceGraph, choice: Choice) -> dict[int, int]:
    """`choice` cut down to the classes that the roots reach through it, readers before what they read."""
    return {c: choice[c] for c in _topological(graph, choice)}


def dag_cost(graph: ChoiceGraph, choice: Choice) -> float | int:
    """Sum of the costs of the chosen e-nodes, each once: extraction-gym's DAG cost (no pair terms)."""
    return graph.total(sum(float(graph.cost[choice[c]]) for c in _topological(graph, choice)))


def tree_cost(graph: ChoiceGraph, choice: Choice) -> float | int:
    """Sum over the roots of the choice unfolded into trees, shared parts as often as they occur."""
    tree: dict[int, float] = {}
    for c in reversed(_topological(graph, choice)):
        n = choice[c]
        tree[c] = float(graph.cost[n]) + sum(tree[d] for d in graph.children(n))
    return graph.total(sum(tree[r] for r in graph.roots))


def _topological(graph: ChoiceGraph, choice: Choice) -> list[int]:
    """The reached classes, readers first. Raises InvalidExtraction as `check` says."""
    done: list[int] = []
    state: dict[int, bool] = {}  # False: on the path, True: finished
    for root in graph.roots:
        if root in state:
            continue
        _enter(graph, choice, root, state)
        path = [(root, iter(graph.children(choice[root])))]
        while path:
            c, rest = path[-1]
            child = next(rest, None)
            if child is None:
                path.pop()
                state[c] = True
                done.append(c)
            elif child not in state:
                _enter(graph, choice, child, state)
                path.append((child, iter(graph.children(choice[child]))))
            elif not state[child]:
                raise InvalidExtraction(f"class {child}: the choice is cyclic there", child)
    return done[::-1]


def _enter(graph: ChoiceGraph, choice: Choice, c: int, state: dict[int, bool]) -> None:
    if c not in choice:
        raise InvalidExtraction(f"class {c} is needed but has no choice", c)
    n = choice[c]
    if not 0 <= n < graph.n_nodes or graph.node_class[n] != c:
        raise InvalidExtraction(f"class {c}: e-node {n} is not one of its own", c)
    if n in graph.forbidden:
        raise InvalidExtraction(f"class {c}: e-node {n} is forbidden", c)
    state[c] = False


def _cost(graph: ChoiceGraph, choice: Choice, order: list[int]) -> float:
    readers = dict.fromkeys(order, 0)
    total = 0.0
    for c in order:
        n = choice[c]
        for child in set(graph.children(n)):
            readers[child] += 1
            total += graph.pair_costs.get((n, choice[child]), 0.0)
    for c in order:
        times = readers[c] + (c in graph.roots) if c in graph.per_reader else 1
        total += times * float(graph.cost[choice[c]])
    return total
