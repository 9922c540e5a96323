"""Other orders (`eqsat/search/order.py`) of a graph, ranked by the memory that is live in them.

Orders of stock's graph or the explicit one are equal graphs, too, and the best ones if nothing else gains much.
"""

from __future__ import annotations

from functools import reduce

from eqsat.search.order import Allocation, Swap, swaps, with_swap
from eqsat.search.proposal import Ask, Asking, one_by_one
from eqsat.search.state import State
from eqsat.tensor.graph import TensorGraph


def orders(state: State) -> Asking:
    """First comes the order in which least is live, and then single swaps, each of the best graph so far.

    Of those with equal peaks, the ones that change most come first.
    No swap is left out for what is live: Vela may place tensors better or worse than that suggests.
    """
    start = state.start
    if start is None:
        return
    allocation, known, arranged = Allocation.of(start), swaps(start.graph), start.graph

    def cost(graph: TensorGraph) -> tuple[int, int]:
        """Returns the most bytes that are in SRAM at once, and their sum over the steps."""
        in_sram = allocation.in_sram(graph)
        return max(in_sram), sum(in_sram)

    for swap in reversed(known):
        arranged = min(arranged, with_swap(arranged, swap), key=cost)
    if arranged is not start.graph:
        state = yield Ask([start.rewritten(arranged, "order")])
    best = state.best or start
    order, (_, before) = allocation.order(best.graph), cost(best.graph)
    changes = list[tuple[int, int, Swap]]()
    for swap in known:
        after = with_swap(best.graph, swap)
        if allocation.order(after) != order:
            most, total = cost(after)
            changes.append((most, -abs(total - before), swap))
    left = [swap for _, _, swap in sorted(changes)]
    yield from one_by_one(state, left, lambda some: best.rewritten(reduce(with_swap, some, best.graph), "order"))
