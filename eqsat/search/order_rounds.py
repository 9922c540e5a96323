"""Orders in which Vela runs a graph (`order.py`), tried on the best graphs that were found: what is in SRAM meanwhile
tells which, and Vela what comes of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType

from eqsat.choice.compiled import Compiled
from eqsat.options.decision import Decision
from eqsat.options.effort import EFFORTS
from eqsat.search.interruption import SearchInterrupted
from eqsat.search.order import Allocation, Cost, Swap, moved, swapped, swaps
from eqsat.search.result import Extracted
from eqsat.search.search import Search
from eqsat.search.starts import starts
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.flatbuffer import dumps

logger = logging.getLogger(__name__)

#: What such graphs are called.
_NAME = "order"
#: What counts first of the cost of an order.
_BY: Sequence[Callable[[Cost], tuple[int, int]]] = (lambda cost: cost, lambda cost: (cost.waiting, cost.peak))


def in_orders(
    search: Search,
    by_tosa: dict[bytes, Compiled | None],
    decision: Decision,
    locations: Mapping[int, str] = MappingProxyType({}),
) -> None:
    """Adds to `by_tosa` what orders give within each of the limits that a decision aims at."""
    for limits in decision.aims:
        OrderRounds(search, by_tosa, replace(decision, limits=limits), locations).run()


class OrderRounds:
    """Goes on from the best graph, and from faster ones that need too much memory, and adds to `by_tosa`, until the
    search is interrupted."""

    def __init__(
        self,
        search: Search,
        by_tosa: dict[bytes, Compiled | None],
        decision: Decision,
        locations: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        """locations: of the nodes of all graphs, as they are written."""
        self.search, self.by_tosa, self.decision, self.locations = search, by_tosa, decision, locations

    def run(self) -> None:
        with suppress(SearchInterrupted):
            known = [c for c in self.by_tosa.values() if c]
            for start in starts(min(known, key=self._rank), known, self.decision) if known else ():
                self._improve(start)

    def _rank(self, c: Compiled) -> tuple[float, bool, int, int]:
        return self.decision.rank(c.figures)

    def _improve(self, start: Compiled) -> None:
        """First the orders that are best by what is known of the graph's tensors, then one swap after the other, each
        kept where it is better."""
        most = len(self.by_tosa) + EFFORTS[self.search.options.effort].orders
        allocation, known = Allocation.of(start.graph, start.estimate), swaps(start.graph)
        best = start
        for by in _BY:
            if len(self.by_tosa) < most:
                best = self._better(best, _arranged(start.graph, known, allocation, by))
        for swap in _by_change(best.graph, known, allocation):
            if len(self.by_tosa) < most:
                best = self._better(best, swapped(best.graph, swap))

    def _better(self, best: Compiled, graph: TensorGraph) -> Compiled:
        """The graph, compiled, where it is better than the best one."""
        if graph is best.graph:
            return best
        return min(best, self._compiled(best, graph) or best, key=self._rank)

    def _compiled(self, start: Compiled, graph: TensorGraph) -> Compiled | None:
        """None: Vela refuses it."""
        buffer = dumps(graph, self.locations)
        if buffer not in self.by_tosa:
            self.search.interruption.check()
            self.by_tosa[buffer] = self._new(start, graph, buffer)
        return self.by_tosa[buffer]

    def _new(self, start: Compiled, graph: TensorGraph, buffer: bytes) -> Compiled | None:
        found = self.search.compiled(buffer)
        if found is None:
            return None
        estimate, judged = found
        cycles = estimate.corrected
        logger.info("%s cycles by %s", f"{cycles:,}", _NAME, extra={"cycles": cycles})
        self.search.extractions.append(Extracted(_NAME, 0, float(start.figures.cycles), cycles, None))
        others = moved(start.graph, graph)
        classes = {n: c for n, c in start.classes.items() if n not in others}
        return replace(start, graph=graph, tosa=buffer, estimate=estimate, judged=judged, classes=classes)


def _arranged(
    graph: TensorGraph, among: Sequence[Swap], allocation: Allocation, by: Callable[[Cost], tuple[int, int]]
) -> TensorGraph:
    """A graph with the swaps that lower its cost, each while it does."""
    best, cost = graph, by(allocation.cost(graph))
    for swap in reversed(among):
        tried = swapped(best, swap)
        if (new := by(allocation.cost(tried))) < cost:
            best, cost = tried, new
    return best


def _by_change(graph: TensorGraph, among: Sequence[Swap], allocation: Allocation) -> list[Swap]:
    """The swaps that change the order in which a graph runs, by the peak that is expected, then those first that change
    most.

    None is left out for its peak: Vela may place tensors better or worse than the bytes that are there at once say.
    """
    waiting, order = allocation.cost(graph).waiting, allocation.order(graph)
    changes: list[tuple[int, int, Swap]] = []
    for swap in among:
        after = swapped(graph, swap)
        if allocation.order(after) != order:
            cost = allocation.cost(after)
            changes.append((cost.peak, -abs(cost.waiting - waiting), swap))
    return [swap for _, _, swap in sorted(changes)]
