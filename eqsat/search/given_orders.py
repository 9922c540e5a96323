"""Stock's graph, or the explicit one, in other orders (`order_rounds.py`): equal graphs too, and the best where nothing
else gains much."""

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

#: An order is not looked for where a graph takes more than so many times the cycles of one that was found: the most
#: that one saved is 10%.
_MOST = 1.15


def in_other_orders(
    given: Given, search: Search, found: Sequence[Compiled], decision: Decision, checks: Checks
) -> list[Compiled]:
    """The better one of the given graphs in its best order and in the one with the least SRAM, unless it is far behind
    what was found, or may compute wrong results.

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
    """A graph that was read, compiled again as its tensors are named after its nodes now; and the locations of those.

    Raises WorkerError.
    """
    graph, locations = loads(start.tosa, "a graph that was read"), of_buffer(start.tosa)
    texts = {n: text(o) for n, o in locations.items()}
    buffer = dumps(graph, texts)
    with search.clock.stage("vela"):
        estimate = compile_tosa(buffer, search.target, search.pool)
    given = start.given or start.name
    return replace(start, name="eqsat", given=given, graph=graph, tosa=buffer, estimate=estimate), texts
