"""The units of a concrete graph, and what a cost model makes of it, without copies of views."""

from __future__ import annotations

import math

from cost_models.protocol import CostModel, Unit
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS


def units_of(graph: TensorGraph) -> dict[int, Unit]:
    """Returns {node: unit} of the live ops of a concrete graph."""
    out = {}
    for n in graph.live():
        node = graph.nodes[n]
        if OPS[node.op].kind != "leaf" and node.op != "item":
            values = tuple(graph.nodes[i].attr("value") if graph.nodes[i].op == "const" else None for i in node.inputs)
            out[n] = Unit(((node.op, node.attrs),), tuple(graph.type(i) for i in node.inputs), graph.type(n), values)
    return out


def total(model: CostModel, graph: TensorGraph) -> float:
    """Returns the sum of the units' prices and of the pairwise terms; inf if a unit may not be used."""
    units = units_of(graph)
    prices = {n: p.cycles for n, p in zip(units, model.price(list(units.values())), strict=True)}
    found = sum(prices.values())
    if found == math.inf:
        return found
    for n, unit in units.items():
        for read in dict.fromkeys(i for i in graph.nodes[n].inputs if i in units):
            term = model.fusion(unit, units[read], [units[i] for i in graph.nodes[read].inputs if i in units])
            if term is not None:
                found -= term.saving(prices[n], prices[read], {u: prices[i] for i, u in units.items()})
    return found
