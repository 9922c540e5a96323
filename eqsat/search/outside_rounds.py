"""Rounds that copy inputs and outputs of the best graph between SRAM and the memory outside (`outside.py`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace

from eqsat.choice.compiled import Compiled
from eqsat.options.decision import Decision
from eqsat.search.interruption import SearchInterrupted
from eqsat.search.outside import Outside, copied, outside
from eqsat.search.search import Search
from eqsat.search.starts import Successors
from eqsat.tosa.flatbuffer import dumps

#: The extractor's name in logs and records.
_NAME = "outside"
#: Most inputs and outputs that are copied.
_MOST = 6


def copy_outside(
    search: Search, by_tosa: dict[bytes, Compiled | None], decision: Decision, locations: Mapping[int, str]
) -> None:
    """Adds to `by_tosa` the best graph with copies of its inputs and outputs.

    All copies are tried at once, and if that is no better, one after the other, those with the longest waits first.
    locations: of the nodes of the best graph, as they are written.
    """
    best = min((c for c in by_tosa.values() if c), key=lambda c: decision.rank(c.figures), default=None)
    if best is None:
        return
    successors = Successors(search, by_tosa, _NAME)
    start, every, kept = best, tuple(outside(best)[:_MOST]), tuple[Outside, ...]()
    with suppress(SearchInterrupted):
        for more in dict.fromkeys([every, *((o,) for o in every)]) if every else ():
            changed = _with(start, (*kept, *more), locations)
            found = successors.compiled(changed, start.figures.cycles)
            if found is not None and decision.rank(found.figures) < decision.rank(best.figures):
                best, kept = found, (*kept, *more)
                if more == every:
                    return


def _with(start: Compiled, of: Collection[Outside], locations: Mapping[int, str]) -> Compiled:
    """Returns a graph with copies of some inputs and outputs, and with the estimate of the one without."""
    made = copied(start.graph, of)
    buffer = dumps(made.graph, {k: locations[n] for k, n in made.source.items() if n in locations})
    classes = {made.number[n]: c for n, c in start.classes.items() if n in made.number}
    return replace(start, graph=made.graph, tosa=buffer, classes=classes)
