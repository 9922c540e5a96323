"""`tree_greedy`: the choice whose tree cost is least (sharing is not seen).

Tree-optimal for costs >= 0 without pair terms; with them a heuristic like any other. Fast: one pass.
"""

from __future__ import annotations

import time

from .bottom_up import Rank, bottom_up, readers_of
from .check import Choice, check, reachable
from .errors import Infeasible, NoChoiceFound
from .graph import ChoiceGraph
from .prices import Prices
from .result import Extraction


def extract(
    graph: ChoiceGraph, *, time_limit: float = 10.0, seed: int = 0, warm_start: Choice | None = None
) -> Extraction:
    """One greedy pass; limit, seed and warm start are not needed. Raises Infeasible, NoChoiceFound."""
    start = time.perf_counter()
    prices = Prices(graph)
    choice = reachable(graph, tree_pass(graph, prices, readers_of(graph, prices)))
    cost, seconds = check(graph, choice), time.perf_counter() - start
    return Extraction(choice, cost, float("-inf"), "feasible", [(seconds, cost)], seconds, "tree_greedy")


def tree_pass(graph: ChoiceGraph, prices: Prices, readers: list[list[int]], rank: Rank = float) -> dict[int, int]:
    """A choice for every class that can be extracted."""
    tree: dict[int, float] = {}

    def price(n: int, choice: dict[int, int]) -> float:
        return prices.node[n] + sum(tree[d] for d in graph.children(n)) + prices.edges(n, choice)

    choice = bottom_up(graph, prices, readers, price, lambda c, _, value: tree.__setitem__(c, value), rank)
    require_roots(graph, choice)
    return choice


def require_roots(graph: ChoiceGraph, choice: Choice) -> None:
    """Raises Infeasible, or NoChoiceFound where forbidden pairs leave it open, if a root is missing."""
    for r in graph.roots:
        if r not in choice:
            if graph.forbidden_pairs:
                raise NoChoiceFound(f"greedy extraction found no allowed e-node for root class {r}")
            raise Infeasible(
                f"root class {r} cannot be extracted: each of its e-nodes is forbidden, reads a class "
                "that cannot be extracted, or needs the class itself"
            )
