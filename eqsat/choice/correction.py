"""Corrections of prices by Vela's table of a whole graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations

from eqsat.choice.choice import Choices
from eqsat.choice.writer import Written
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.flatbuffer import written_names
from eqsat.vela.table import Row

#: Share of its price by which a row of Vela's table has to exceed it to correct it.
_EXCESS = 0.5
#: Cycles by which it has to exceed it besides.
_EXCESS_CYCLES = 1000


def correct(choices: Choices, written: Written, rows: Sequence[Row]) -> tuple[Choices, bool]:
    """Returns choices with prices corrected by rows of Vela's table of a graph.

    A unit whose row costs far more than the unit and everything fused into it gets the excess.
    Fusions that did not happen are dropped, such as with a producer that has other readers.
    Also returns whether the next extraction may differ.
    """
    graph, origin = written
    cycles, readers = _cycles(graph, rows), graph.readers()
    cost, pairs, candidates = choices.graph.cost.copy(), dict(choices.graph.pair_costs), list(choices.candidates)
    copies = {m: delta for (n, m), delta in pairs.items() if n >= len(candidates) > m}  # of parts
    raised, missed = False, 0.0
    for n in (n for n in origin if n in cycles):
        group = _group(n, graph, origin, cycles, readers)
        priced = sum(cost[c] for c in group) + sum(pairs.get(p, 0.0) for p in permutations(group, 2))
        priced += copies.get(origin[n], 0.0)
        if candidates[origin[n]].is_widening:  # its readers pay for it
            priced += sum(pairs.get((origin[r], origin[n]), 0.0) for r in readers[n] if r in origin)
        excess = cycles[n] - priced
        if excess > _EXCESS * priced + _EXCESS_CYCLES:
            cost[origin[n]] += excess
            candidates[origin[n]] = candidates[origin[n]].with_more_cycles(excess)
            raised = True
        for m in graph.nodes[n].inputs:
            bonus = -pairs.get((origin[n], origin.get(m, -1)), 0.0)
            if len(readers[m]) > 1 and cycles[n] > _EXCESS * bonus > 0:
                del pairs[origin[n], origin[m]]
                missed += bonus
    new = replace(choices, graph=replace(choices.graph, cost=cost, pair_costs=pairs), candidates=tuple(candidates))
    return new, raised or missed > _EXCESS_CYCLES


def _cycles(graph: TensorGraph, rows: Sequence[Row]) -> dict[int, int]:
    """Returns {node: cycles}, summed over rows named after a tensor of the graph."""
    numbers = {name: n for n, name in written_names(graph).items()}
    out: dict[int, int] = {}
    for row in rows:
        if (n := numbers.get(row.name)) is not None:
            out[n] = out.get(n, 0) + row.priced
    return out


def _group(
    n: int,
    graph: TensorGraph,
    origin: Mapping[int, int],
    cycles: Mapping[int, int],
    readers: Mapping[int, Sequence[int]],
) -> set[int]:
    """Returns the choice nodes that the row of node `n` covers.

    An operand without a row of its own whose only reader is covered is covered, too.
    """
    group, stack = {origin[n]}, list(graph.nodes[n].inputs)
    while stack:
        m = stack.pop()
        if m in origin and m not in cycles and len(readers[m]) == 1:
            group.add(origin[m])
            stack.extend(graph.nodes[m].inputs)
    return group
