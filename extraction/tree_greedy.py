"""`tree_greedy`: makes the choice with the minimum tree cost, in which a shared part counts once for each reader.

The choice is optimal in tree cost for costs >= 0 without pair terms; with pair terms it is a heuristic.
One pass is fast.
"""

from __future__ import annotations

import time

from .bottom_up import Rank, bottom_up
from .check import Choice, check, reachable
from .errors import Infeasible
from .graph import ChoiceGraph
from .prices import Prices
from .result import Extraction


def extract(
    graph: ChoiceGraph, *, time_limit: float = 10.0, seed: int = 0, warm_start: Choice | None = None
) -> Extraction:
    """Makes one greedy pass; ignores `time_limit`, `seed` and `warm_start`.

    Raises Infeasible.
    """
    start = time.perf_counter()
    choice = reachable(graph, tree_pass(Prices(graph)))
    cost, seconds = check(graph, choice), time.perf_counter() - start
    return Extraction(choice, cost, float("-inf"), "feasible", [(seconds, cost)], seconds, "tree_greedy")


def tree_pass(prices: Prices, rank: Rank = float) -> dict[int, int]:
    """Returns a choice for every class that can be extracted.

    Raises Infeasible.
    """
    tree: dict[int, float] = {}

    def price(n: int, choice: dict[int, int]) -> float:
        return prices.node[n] + sum(tree[d] for d in prices.graph.children(n)) + prices.edges(n, choice)

    choice = bottom_up(prices, price, lambda c, _, value: tree.__setitem__(c, value), rank)
    require_roots(prices.graph, choice)
    return choice


def require_roots(graph: ChoiceGraph, choice: Choice) -> None:
    """Raises Infeasible if a root has no choice."""
    for r in graph.roots:
        if r not in choice:
            raise Infeasible(
                f"root class {r} cannot be extracted: each of its e-nodes is forbidden, reads a class "
                "that cannot be extracted, or needs the class itself"
            )
