"""How few cycles an accelerator needs at least: the roofline of a graph, and that of its operators one by one.

Roofline model: Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", CACM 52(4), 2009.
What a cycle can do is what Vela has configured for the target (`Estimate.rates`).

>>> g = TensorGraph()
>>> a, b = g.add_input("a", (1, 8, 32), "INT8"), g.add_input("b", (1, 32, 8), "INT8")
>>> g.outputs.append(g.add("matmul", [a, b], in_zp=(0,), w_zp=(0,)))
>>> bound(g, Rates(macs=128, weights=1.0, activations=8.0, clock=1e9)).roofline  # 768 bytes in and out take longer than
2,048 MACs 96.0
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace

from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tosa.flatbuffer import named
from eqsat.vela.table import Row


@dataclass(frozen=True, slots=True)
class Rates:
    """What an accelerator does in a cycle at most: MACs of INT8, bytes of weights out of the memory that holds them,
    bytes of activations in and out of the fast memory; clock: cycles per second."""

    macs: int
    weights: float
    activations: float
    clock: float


@dataclass(frozen=True, slots=True)
class Bound:
    """What a graph needs at least: MACs, those with padding among them; bytes of weights as they are, not encoded;
    bytes of the graph's inputs and outputs. The rest is cycles.

    mac_cycles: of the MACs. roofline: the largest of what MACs, weights, and inputs and outputs need at their full
    rates. operators: the larger of MACs and weights of each operator, added up; tighter, but for operators whose
    weights are fetched while others compute.
    """

    macs: int
    weight_bytes: int
    io_bytes: int
    mac_cycles: float
    roofline: float
    operators: float

    @staticmethod
    def together(bounds: Iterable[Bound]) -> Bound:
        """That of graphs that run one after the other."""
        macs, weights, io, *cycles = (sum(x) for x in zip(*map(astuple, bounds), strict=True))
        return Bound(macs, weights, io, *cycles)


@dataclass(frozen=True, slots=True)
class Need:
    """MACs of one operator, and the bytes of its weights by the constants that they are."""

    macs: int
    weights: Mapping[int, int]

    def cycles(self, rates: Rates) -> float:
        return max(self.macs / rates.macs, sum(self.weights.values()) / rates.weights)


def needs(graph: TensorGraph) -> dict[int, Need]:
    """Of each operator that multiplies and adds; opaque ones are not known."""
    found = {}
    for n in graph.live():
        node = graph.nodes[n]
        if count := OPS[node.op].macs:
            weights = {i: graph.type(i).bytes for i in node.inputs[:2] if graph.nodes[i].op == "const"}
            found[n] = Need(count([graph.type(i) for i in node.inputs], graph.type(n)), weights)
    return found


def bound(graph: TensorGraph, rates: Rates) -> Bound:
    """The bound of a graph. Weights that several operators share are read once for the roofline, and by each operator
    for `operators`."""
    every = list(needs(graph).values())
    macs = sum(need.macs for need in every)
    weights = sum({i: size for need in every for i, size in need.weights.items()}.values())
    io = sum(graph.type(n).bytes for n in {*graph.inputs, *graph.outputs})
    mac_cycles = macs / rates.macs
    roofline = max(mac_cycles, weights / rates.weights, io / rates.activations)
    operators = sum(need.cycles(rates) for need in every)
    return Bound(macs, weights, io, mac_cycles, roofline, max(roofline, operators))


def over_bound(rows: Sequence[Row], tosa: bytes, rates: Rates) -> list[Row]:
    """Rows of Vela's table of a TOSA graph, each also with `mac_cycles`, what its MACs need at the full rate, `ideal`,
    the larger of that and of what its weights need, and `waiting`, cycles in which memory keeps it from computing.

    An operator of the graph that Vela cuts into several rows shares what it needs among them, by their MACs: the same
    weights read again, or products with zeros that Vela puts in, are excess.
    """
    graph, names = named(tosa)
    required = needs(graph)
    nodes = [names.get(row.source or "", -1) for row in rows]
    counted: dict[int, int] = {}
    for n, row in zip(nodes, rows):
        counted[n] = counted.get(n, 0) + row.macs
    out = []
    for n, row in zip(nodes, rows):
        need, share = required.get(n), row.macs / max(1, counted[n])
        mac_cycles, ideal = (share * need.macs / rates.macs, share * need.cycles(rates)) if need else (0.0, 0.0)
        out.append(replace(row, mac_cycles=mac_cycles, ideal=ideal, waiting=row.cycles - row.busy_cycles))
    return out


def by_operator(rows: Iterable[Row]) -> dict[str, dict[str, float]]:
    """By Vela's name of the operator: how many rows, and the sums of their cycles and of what `over_bound` tells of
    them, if it does."""
    out: dict[str, dict[str, float]] = {}
    for row in rows:
        told = {"mac_cycles": row.mac_cycles, "ideal": row.ideal, "waiting": row.waiting}
        found = {"operators": 1, "cycles": row.cycles, **{k: v for k, v in told.items() if v is not None}}
        old = out.get(row.operator, {})
        out[row.operator] = {k: old.get(k, 0) + v for k, v in found.items()}
    return out
