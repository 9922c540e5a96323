"""Graphs from which a search goes on with the graphs as they are, in other orders or settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from eqsat.choice.compiled import Compiled
from eqsat.options.decision import Decision


def starts(best: Compiled, known: Sequence[Compiled], decision: Decision) -> list[Compiled]:
    """The best graph; and of those that are faster and do not fit the fastest, and the one that is fast and exceeds
    little."""
    over = [c for c in known if c.figures.cycles < best.figures.cycles and not decision.limits.fits(c.figures)]
    out = [best]
    if over:
        out.append(min(over, key=lambda c: c.figures.cycles * (1 + decision.limits.excess(c.figures))))
        out.append(min(over, key=lambda c: c.figures))
    return list({id(c): c for c in out}.values())


def aimed(best: Compiled, known: Sequence[Compiled], decision: Decision) -> Iterator[tuple[Decision, Compiled]]:
    """Each start with what it is to be better by: where an answer may need more memory than by default also what would
    be one then, so that more finds all that less does. best: the answer as it is."""
    for limits in decision.aims:
        within = replace(decision, limits=limits)
        first = best if within == decision else min(known, key=lambda c: within.rank(c.figures))
        for start in starts(first, known, within):
            yield within, start
