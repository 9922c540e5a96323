"""Bottom-up choice in order of price: the frame that both greedy extractors fill in.

It is Knuth's generalisation of Dijkstra's algorithm.
("A generalization of Dijkstra's algorithm", 1977.)
An e-node gets its price once all classes that it reads are decided.
The cheapest e-node with a price decides its class.
Every class is decided once, after its children, so the choice is acyclic by construction.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from .prices import Prices

Rank = Callable[[int], float]


def bottom_up(
    prices: Prices,
    price: Callable[[int, dict[int, int]], float],
    decided: Callable[[int, dict[int, int], float], None],
    rank: Rank = float,
) -> dict[int, int]:
    """Returns choices for every class that can be extracted.

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
