"""Rounds that try other orders (`order.py`) of the best graphs found.

The memory that is live in an order ranks the orders, and Vela compiles them.
Other orders of stock's graph or the explicit one are equal graphs, too, and the best ones if nothing else gains much.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType

from eqsat.choice.compiled import Compiled
from eqsat.options.decision import Decision
from eqsat.options.effort import EFFORTS
from eqsat.options.options import CYCLES
from eqsat.search.given import Given
from eqsat.search.interruption import SearchInterrupted
from eqsat.search.order import Allocation, Cost, Swap, swapped, swaps
from eqsat.search.outside import copy_outside
from eqsat.search.search import Search
from eqsat.search.starts import Successors, starts, written_anew
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.flatbuffer import dumps
from eqsat.verification.checks import Checks

#: The extractor's name in logs and records.
_NAME = "order"
#: Cycles of a given graph, as a multiple of the fastest graph found, above which no order of it is
#: tried.
#: The most that another order saved so far is 10%.
_MOST = 1.15
#: Sort keys for the cost of an order: the peak first, or the waiting bytes first.
_BY: Sequence[Callable[[Cost], tuple[int, int]]] = (lambda cost: cost, lambda cost: (cost.waiting, cost.peak))


def in_orders(
    search: Search,
    by_tosa: dict[bytes, Compiled | None],
    decision: Decision,
    locations: Mapping[int, str] = MappingProxyType({}),
) -> None:
    """Adds to `by_tosa` the graphs in other orders, within each of the limits that a decision aims at.

    The best of them is also tried with copies of its inputs and outputs.
    """
    for within in decision.aims:
        OrderRounds(search, by_tosa, within, locations).run()
        copy_outside(search, by_tosa, within, locations)


def in_other_orders(
    given: Given, search: Search, found: Sequence[Compiled], decision: Decision, checks: Checks
) -> list[Compiled]:
    """Returns the better given graph in its best order, and in the one with the least SRAM.

    Returns none if the graph takes more than `_MOST` times the cycles of the fastest that fits.
    That holds only if cycles are the objective.
    Graphs whose results may be wrong are left out.
    Raises SearchInterrupted and WorkerError.
    """
    able = {name: c for name, c in given.compiled.items() if not checks.is_suspect(c)}
    if not able:
        return []
    name = min(able, key=lambda name: decision.rank(able[name].figures))
    start = able[name]
    ahead = min((c.figures.cycles for c in found if decision.limits.fits(c.figures)), default=start.figures.cycles)
    if decision.objective == CYCLES and start.figures.cycles > _MOST * ahead:
        return []
    start, locations = written_anew(search, start)
    known: dict[bytes, Compiled | None] = {start.tosa: start}
    in_orders(search, known, decision, locations)
    compiled = [c for c in known.values() if c]
    best = min(compiled, key=lambda c: decision.rank(c.figures))
    least = min(compiled, key=lambda c: (c.figures.sram, c.figures.cycles))
    return [c for c in {id(c): c for c in (best, least)}.values() if c is not start]


class OrderRounds:
    """Rounds that add orders of the best graph, and of faster ones that need too much memory.

    The graphs are added to `by_tosa`, until the search is interrupted.
    """

    def __init__(
        self,
        search: Search,
        by_tosa: dict[bytes, Compiled | None],
        decision: Decision,
        locations: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        """locations: of the nodes of all graphs, as they are written."""
        self.search, self.by_tosa, self.decision, self.locations = search, by_tosa, decision, locations
        self.successors = Successors(search, by_tosa, _NAME)

    def run(self) -> None:
        with suppress(SearchInterrupted):
            known = [c for c in self.by_tosa.values() if c]
            for start in starts(min(known, key=self._rank), known, self.decision) if known else ():
                self._improve(start)

    def _rank(self, c: Compiled) -> tuple[float, bool, int, int]:
        return self.decision.rank(c.figures)

    def _improve(self, start: Compiled) -> None:
        """Tries the orders with the least estimated cost, and then single swaps.

        Each swap that makes the graph better is kept.
        While a graph is compiled, the ones that follow it if it is no better are begun.
        """
        most = len(self.by_tosa) + EFFORTS[self.search.options.effort].orders
        allocation, known = Allocation.of(start.graph, start.estimate), swaps(start.graph)
        best = start
        if len(self.by_tosa) < most:
            for changed in [self._begun(start, _arranged(start.graph, known, allocation, by)) for by in _BY]:
                if len(self.by_tosa) < most:
                    best = self._better(best, changed)
        left, begun = _by_change(best.graph, known, allocation), dict[Swap, Compiled]()
        while left and len(self.by_tosa) < most:
            for swap in left[: min(self.search.pool.size, most - len(self.by_tosa))]:
                if swap not in begun:
                    begun[swap] = self._begun(best, swapped(best.graph, swap))
            better = self._better(best, begun[left.pop(0)])
            if better is not best:
                best = better
                begun.clear()

    def _begun(self, best: Compiled, graph: TensorGraph) -> Compiled:
        """Starts to compile another order of a graph, and returns it with the estimate of the graph."""
        if graph is best.graph:
            return best
        return self.successors.begin(replace(best, graph=graph, tosa=dumps(graph, self.locations)))

    def _better(self, best: Compiled, changed: Compiled) -> Compiled:
        """Returns the better of the best graph and another one, which is compiled."""
        return min(best, self.successors.compiled(changed, best.figures.cycles) or best, key=self._rank)


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
