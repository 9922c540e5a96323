"""A graph that was read, as other proposals can change it: with tensors named after its nodes."""

from __future__ import annotations

from eqsat.search.origins import of_buffer
from eqsat.search.proposal import Ask, Asking
from eqsat.search.state import State
from eqsat.tosa.flatbuffer import dumps, loads
from eqsat.tosa.locations import text


def written(state: State) -> Asking:
    start = state.start
    if start is None or start.is_named:
        return
    graph = loads(start.tosa, "a graph that was read")
    locations = {n: text(o) for n, o in of_buffer(start.tosa).items()}
    given = start.given or (start.name if start.name != "eqsat" else "")
    tosa = dumps(graph, locations)
    yield Ask(
        [start.changed("", name="eqsat", given=given, graph=graph, tosa=tosa, locations=locations, is_named=True)]
    )
