"""Other orders of stock's graph or the explicit one (`order_rounds.py`).

They are equal graphs, too, and the best ones if nothing else gains much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eqsat.choice.compiled import Compiled
from eqsat.options.decision import Decision
from eqsat.options.options import CYCLES
from eqsat.search.given import Given
from eqsat.search.order_rounds import in_orders
from eqsat.search.origins import of_buffer
from eqsat.search.search import Search
from eqsat.tosa.flatbuffer import dumps, loads
from eqsat.tosa.locations import text
from eqsat.vela.compile import compile_tosa
from eqsat.verification.checks import Checks

#: Cycles of a given graph, as a multiple of the fastest graph found, above which no order of it is
#: tried.
#: The most that another order saved so far is 10%.
_MOST = 1.15


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
