"""The independent checker: whether a choice is valid, and what it costs.

It shares no code with any extractor, so that a bug of an extractor cannot hide itself here.
"""

from __future__ import annotations

from collections.abc import Mapping

from extraction.graph import ChoiceGraph, InvalidExtraction

Choice = Mapping[int, int]


def check(graph: ChoiceGraph, choice: Choice) -> float | int:
    """Returns the cost of `choice` after checking that it is valid (see `graph` for costs).

    Entries for classes that the roots do not reach are ignored.
    Raises InvalidExtraction, naming the class, if a reached class has no choice, an e-node of another class or a
    forbidden e-node, and if the choice is cyclic.
    """
    order, total = _topological(graph, choice), 0.0
    for c in order:
        n = choice[c]
        for child in set(graph.children(n)):
            total += graph.pair_costs.get((n, choice[child]), 0.0)
    for c in order:
        total += float(graph.cost[choice[c]])
    return graph.total(total)


def reachable(graph: ChoiceGraph, choice: Choice) -> dict[int, int]:
    """Returns `choice` cut down to the classes that the roots reach through it.

    Readers come before the classes that they read.
    Raises InvalidExtraction if such a class has no valid e-node, or on a cycle.
    """
    return {c: choice[c] for c in _topological(graph, choice)}


def dag_cost(graph: ChoiceGraph, choice: Choice) -> float | int:
    """Returns extraction-gym's DAG cost: the sum of the costs of the chosen e-nodes, each once, without pair terms."""
    return graph.total(sum(float(graph.cost[choice[c]]) for c in _topological(graph, choice)))


def tree_cost(graph: ChoiceGraph, choice: Choice) -> float | int:
    """Returns the cost of the choice unfolded into trees, one per root; shared parts count as often as they occur."""
    tree: dict[int, float] = {}
    for c in reversed(_topological(graph, choice)):
        n = choice[c]
        tree[c] = float(graph.cost[n]) + sum(tree[d] for d in graph.children(n))
    return graph.total(sum(tree[r] for r in graph.roots))


def _topological(graph: ChoiceGraph, choice: Choice) -> list[int]:
    """Returns the reached classes, readers first; raises InvalidExtraction for one without e-node and for a cycle."""
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
