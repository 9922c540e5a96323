"""Other orders (`eqsat/search/order.py`) of a graph, ranked by the memory that is live in them.

Orders of stock's graph or the explicit one are equal graphs, too, and the best ones if nothing else gains much.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eqsat.search.order import Allocation, Cost, Swap, swapped, swaps
from eqsat.search.proposal import Ask, Asking
from eqsat.search.state import State
from eqsat.tensor.graph import TensorGraph

#: Sort keys for the cost of an order: the peak first, or the waiting bytes first.
_BY: Sequence[Callable[[Cost], tuple[int, int]]] = (lambda cost: cost, lambda cost: (cost.waiting, cost.peak))


def orders(state: State) -> Asking:
    """The orders with the least estimated cost come first, and then single swaps, each of the best graph so far."""
    start = best = state.start
    if start is None or best is None:
        return
    allocation, known = Allocation.of(start.graph, start.estimate), swaps(start.graph)
    arranged = (_arranged(start.graph, known, allocation, by) for by in _BY)
    state = yield Ask([start.rewritten(graph, "order") for graph in arranged if graph is not start.graph])
    best = state.best or start
    left = _by_change(best.graph, known, allocation)
    while left:
        at = best
        candidates = (at.rewritten(swapped(at.graph, swap), "order") for swap in left)
        state = yield Ask([next(candidates)], likely=candidates)
        best = state.best or at
        left.pop(0)


def _arranged(
    graph: TensorGraph, among: Sequence[Swap], allocation: Allocation, by: Callable[[Cost], tuple[int, int]]
) -> TensorGraph:
    """Returns a graph with the swaps that lower its cost, tried one after the other."""
    best, cost = graph, by(allocation.cost(graph))
    for swap in reversed(among):
        tried = swapped(best, swap)
        if (new := by(allocation.cost(tried))) < cost:
            best, cost = tried, new
    return best


def _by_change(graph: TensorGraph, among: Sequence[Swap], allocation: Allocation) -> list[Swap]:
    """Returns the swaps that change the order in which a graph runs.

    They are sorted by the expected peak, and then by the change of the waiting bytes, largest first.
    None is left out for its peak: Vela may place tensors better or worse than the live bytes suggest.
    """
    waiting, order = allocation.cost(graph).waiting, allocation.order(graph)
    changes: list[tuple[int, int, Swap]] = []
    for swap in among:
        after = swapped(graph, swap)
        if allocation.order(after) != order:
            cost = allocation.cost(after)
            changes.append((cost.peak, -abs(cost.waiting - waiting), swap))
    return [swap for _, _, swap in sorted(changes)]
