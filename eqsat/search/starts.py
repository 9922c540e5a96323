"""Starting graphs of the rounds that try other orders, copies, settings or stripes, and what follows from them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace

from eqsat.choice.compiled import Compiled
from eqsat.options.decision import Decision
from eqsat.options.options import SRAM
from eqsat.search.result import Extracted
from eqsat.search.search import Search

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
    for limits in decision.aims:
        within = replace(decision, limits=limits)
        first = best if within == decision else min(known, key=lambda c: within.rank(c.figures))
        for start in starts(first, known, within):
            yield within, start


def successor(search: Search, start: Compiled, changed: Compiled, name: str) -> Compiled | None:
    """Returns a changed graph as Vela compiles it, None if it is refused.

    start: the graph that was changed.
    changed: its successor with the estimate of `start`.
    name: the extractor's in logs and records.
    """
    found = search.compiled(changed.tosa)
    if found is None:
        return None
    estimate, judged = found
    cycles = estimate.corrected
    logger.info("%s corrected cycles by %s", f"{cycles:,}", name, extra={"cycles": cycles})
    search.extractions.append(Extracted(name, 0, float(start.figures.cycles), cycles, None))
    return replace(changed, estimate=estimate, judged=judged)
