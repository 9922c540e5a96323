"""Convolutions in place of Vela's copies into CONCATs (`eqsat/choice/copying.py`).

Vela's table of a graph tells which operands it copies, and that of the graph with all convolutions which of these pay.
If those that pay are no better at once, for example as they need too much flash, they are tried one after the other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

from eqsat.choice import copying
from eqsat.choice.compiled import Candidate, Compiled
from eqsat.search.proposal import Ask, Asking, one_by_one
from eqsat.search.state import State
from eqsat.tensor.graph import Rewritten
from eqsat.tosa.flatbuffer import written_names

#: Most operands that are tried one by one.
_MOST = 12
#: An operand of a CONCAT: the node of that, and its place there.
Operand = tuple[int, int]


def copies(state: State) -> Asking:
    start = state.start
    by_vela = copied_operands(start) if start else {}
    if start is None or not by_vela:
        return
    state = yield Ask([_with_copies(start, by_vela)[0]])
    gains = _gains(start, state.results[0], by_vela)
    paying = sorted((o for o in by_vela if gains[o] > 0), key=lambda o: -gains[o])
    if not paying:
        return
    state = yield Ask([_with_copies(start, paying)[0]])
    found = state.results[0]
    if state.best is start and (found is None or state.decision.may_beat(found.figures, start.figures)):
        yield from one_by_one(state, paying[:_MOST], lambda some: _with_copies(start, some)[0])


def copied_operands(compiled: Compiled) -> dict[Operand, int]:
    """Returns {operand of a CONCAT that Vela copies, and that a convolution can copy: cycles of Vela's copy}.

    The table gives only the size of a copied operand.
    Among operands of that size, views and operands with other readers are assumed first.
    """
    graph = compiled.graph
    nodes, readers = {name: n for n, name in written_names(graph).items()}, graph.readers()
    out: dict[Operand, int] = {}
    for row in compiled.estimate.rows:
        n = nodes.get(row.name, -1)
        if row.operator != "MemoryCopy" or n < 0 or graph.nodes[n].op != "concat":
            continue
        fit = {
            k: len(readers[i]) == 1 and graph.nodes[i].op in ("rescale", "clamp", "table")
            for k, i in enumerate(graph.nodes[n].inputs)
            if (n, k) not in out and graph.type(i).elements == row.macs
        }
        out.update(((n, k), row.priced) for k in sorted(fit, key=lambda k: fit[k])[:1])
    return {(n, k): c for (n, k), c in out.items() if copying.unit_of(graph.type(graph.nodes[n].inputs[k])) is not None}


def _gains(start: Compiled, found: Compiled | None, by_vela: Mapping[Operand, int]) -> dict[Operand, int]:
    """Returns the cycles that each convolution saves, by the table of the graph with all of them.

    found: that graph; None: Vela refuses it, and each counts as if it took no cycles.
    """
    if found is None:
        return dict(by_vela)
    cycles: dict[str, int] = {}
    for row in found.estimate.rows:
        source = row.source or row.name  # what is written in place has the name of the CONCAT
        cycles[source] = cycles.get(source, 0) + row.priced
    names, written = written_names(found.graph), _with_copies(start, by_vela)[1]
    return {o: by_vela[o] - sum(cycles.get(names[n], 0) for n in written[o] if n in names) for o in by_vela}


def _with_copies(start: Compiled, of: Collection[Operand]) -> tuple[Candidate, dict[Operand, range]]:
    """Returns a graph in which convolutions copy some operands of CONCATs, and {operand: nodes of its copy}."""
    graph, written = start.graph, dict[Operand, range]()

    def write(n: int, out: Rewritten) -> int:
        operands = [out.number[i] for i in graph.nodes[n].inputs]
        for k in (k for m, k in of if m == n):
            first = len(out.graph.nodes)
            operands[k] = copying.emit(out.graph, operands[k])
            written[n, k] = range(first, len(out.graph.nodes))
        return out.graph.add_copy(graph.nodes[n], operands)

    made = graph.rewritten({n: partial(write, n) for n, _ in of})
    return start.rewritten(made.graph, "copies", made.source), written
