"""Starting graphs of the rounds that try other orders, copies, settings or stripes, and what follows from them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from eqsat.choice.compiled import Compiled
from eqsat.options.decision import Decision
from eqsat.options.options import SRAM
from eqsat.search.origins import of_buffer
from eqsat.search.result import Extracted
from eqsat.search.search import Search
from eqsat.tosa.flatbuffer import dumps, loads
from eqsat.tosa.locations import text
from eqsat.vela.compile import compile_tosa

logger = logging.getLogger(__name__)


def starts(best: Compiled, known: Sequence[Compiled], decision: Decision) -> list[Compiled]:
    """Returns the best graph, and up to two faster ones that exceed the limits.

    These two are the fastest, and the one with the least product of cycles and 1 + excess.
    Where less SRAM is the objective, faster ones that fit count, too: they have cycles to spend.
    """
    faster = [c for c in known if c.figures.cycles < best.figures.cycles]
    over = [c for c in faster if decision.objective == SRAM or not decision.limits.fits(c.figures)]
    out = [best]
    if over:
        out.append(min(over, key=lambda c: c.figures.cycles * (1 + decision.limits.excess(c.figures))))
        out.append(min(over, key=lambda c: c.figures))
    return list({id(c): c for c in out}.values())


def aimed(best: Compiled, known: Sequence[Compiled], decision: Decision) -> Iterator[tuple[Decision, Compiled]]:
    """Yields starting graphs, each with the decision by which its successors have to be better.

    best: the answer so far.
    If the limits allow more memory than the default ones, the default limits are an aim, too.
    So a search with more memory finds all that one with less memory does.
    """
    for within in decision.aims:
        first = best if within == decision else min(known, key=lambda c: within.rank(c.figures))
        for start in starts(first, known, within):
            yield within, start


@dataclass(frozen=True, slots=True)
class Successors:
    """Graphs made by changing others, each compiled once.

    by_tosa: each compiled graph, by its flatbuffer; None if Vela refuses it.
    name: the extractor's in logs and records.
    """

    search: Search
    by_tosa: dict[bytes, Compiled | None]
    name: str

    def begin(self, changed: Compiled) -> Compiled:
        """Starts to compile a graph unless it is known, and returns it."""
        if changed.tosa not in self.by_tosa:
            self.search.begin(changed.tosa)
        return changed

    def compiled(self, changed: Compiled, expected: int) -> Compiled | None:
        """Returns a graph with its own estimate, None if Vela refuses it.

        changed: the graph with the estimate of the one that it was made of.
        expected: its cycles.
        Raises SearchInterrupted.
        """
        if changed.tosa not in self.by_tosa:
            self.by_tosa[changed.tosa] = successor(self.search, changed, self.name, expected)
        return self.by_tosa[changed.tosa]


def successor(search: Search, changed: Compiled, name: str, expected: int) -> Compiled | None:
    """Returns a changed graph as Vela compiles it with its settings, None if it is refused.

    The arguments are those of `Successors`.
    Raises SearchInterrupted.
    """
    search.interruption.check()
    estimate = search.compiled(changed.tosa, changed.settings)
    if estimate is None:
        return None
    cycles = estimate.corrected
    logger.info("%s corrected cycles by %s", f"{cycles:,}", name, extra={"cycles": cycles})
    search.extractions.append(Extracted(name, 0, float(expected), cycles, None))
    return replace(changed, estimate=estimate)


def written_anew(search: Search, start: Compiled) -> tuple[Compiled, dict[int, str]]:
    """Returns a given graph compiled again with tensors named after its nodes, and their locations.

    Raises WorkerError.
    """
    graph, locations = loads(start.tosa, "a graph that was read"), of_buffer(start.tosa)
    texts = {n: text(o) for n, o in locations.items()}
    buffer = dumps(graph, texts)
    with search.clock.stage("vela"):
        estimate = compile_tosa(buffer, search.target, search.pool)
    given = start.given or start.name
    return replace(start, name="eqsat", given=given, graph=graph, tosa=buffer, estimate=estimate), texts
