"""`tree_greedy`: makes the choice with the minimum tree cost, in which a shared part counts once for each reader.

The choice is optimal in tree cost for costs >= 0 without pair terms; with pair terms it is a heuristic.
`bottom_up`, which `dag_greedy` calls, too, is Knuth's generalisation of Dijkstra's algorithm.
("A generalization of Dijkstra's algorithm", 1977.)
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable

from extraction.check import Choice, check, reachable
from extraction.graph import ChoiceGraph, Infeasible, Prices
from extraction.protocol import Extraction

Rank = Callable[[int], float]


def extract(
    graph: ChoiceGraph, *, time_limit: float = 10.0, seed: int = 0, warm_start: Choice | None = None
) -> Extraction:
    """Makes one greedy pass; ignores `time_limit`, `seed` and `warm_start`. Raises Infeasible."""
    start = time.perf_counter()
    choice = reachable(graph, tree_pass(Prices(graph)))
    cost, seconds = check(graph, choice), time.perf_counter() - start
    return Extraction(choice, cost, float("-inf"), "feasible", [(seconds, cost)], seconds, "tree_greedy")


def tree_pass(prices: Prices, rank: Rank = float) -> dict[int, int]:
    """Returns a choice for every class that can be extracted. Raises Infeasible."""
    tree: dict[int, float] = {}

    def price(n: int, choice: dict[int, int]) -> float:
        return prices.node[n] + sum(tree[d] for d in prices.graph.children(n)) + prices.edges(n, choice)

    choice = bottom_up(prices, price, lambda c, _, value: tree.__setitem__(c, value), rank)
    require_roots(prices.graph, choice)
    return choice


def bottom_up(
    prices: Prices,
    price: Callable[[int, dict[int, int]], float],
    decided: Callable[[int, dict[int, int], float], None],
    rank: Rank = float,
) -> dict[int, int]:
    """Returns choices for every class that can be extracted.

    The cheapest e-node with a price decides its class.
    Every class is decided once, after its children, so the choice is acyclic by construction.
    price(n, choice): called once, when all classes that n reads are decided.
    decided(c, choice, price): called at each decision; choice[c] is the newest.
    rank(n): the lowest one wins between equal prices.
    """
    graph = prices.graph
    choice: dict[int, int] = {}
    waiting = [len(reads) for reads in prices.reads]
    owner = graph.node_class.tolist()
    heap: list[tuple[float, float, int]] = [
        (price(n, choice), rank(n), n) for n, w in enumerate(waiting) if w == 0 and n not in graph.forbidden
    ]
    heapq.heapify(heap)
    while heap:
        value, _, n = heapq.heappop(heap)
        c = owner[n]
        if c in choice:
            continue
        choice[c] = n
        decided(c, choice, value)
        for r in prices.readers[c]:
            waiting[r] -= 1
            if waiting[r] == 0 and owner[r] not in choice:
                heapq.heappush(heap, (price(r, choice), rank(r), r))
    return choice


def require_roots(graph: ChoiceGraph, choice: Choice) -> None:
    """Raises Infeasible if a root has no choice."""
    for r in graph.roots:
        if r not in choice:
            raise Infeasible(
                f"root class {r} cannot be extracted: each of its e-nodes is forbidden, reads a class "
                "that cannot be extracted, or needs the class itself"
            )
