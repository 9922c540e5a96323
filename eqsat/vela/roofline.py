"""Lower bounds on the cycles of a graph: its roofline, and that of its operators one by one.

Source: Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", CACM 52(4), 2009.

>>> g = TensorGraph()
>>> a, b = g.add_input("a", (1, 8, 32), "INT8"), g.add_input("b", (1, 32, 8), "INT8")
>>> g.outputs.append(g.add("matmul", [a, b], in_zp=(0,), w_zp=(0,)))
>>> # 768 bytes in and out take longer than 2,048 MACs
>>> bound(g, Rates(macs=128, weights=1.0, activations=8.0, clock=1e9)).roofline
96.0
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace

from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tosa.flatbuffer import load_named
from eqsat.vela.table import Row


@dataclass(frozen=True, slots=True)
class Rates:
    """The most that an accelerator does in a cycle.

    macs       : MACs of INT8
    weights    : bytes of weights out of the memory that holds them
    activations: bytes of activations in and out of the fast memory
    clock      : cycles per second
    """

    macs: int
    weights: float
    activations: float
    clock: float


@dataclass(frozen=True, slots=True)
class Bound:
    """A lower bound on the cost of a graph.

    macs        : MACs, those with padding among them
    weight_bytes: bytes of weights, not encoded
    io_bytes    : bytes of the graph's inputs and outputs
    mac_cycles  : cycles of the MACs at the full rate
    roofline    : cycles of MACs, weights, or inputs and outputs at their full rates, whichever are most
    operators   : cycles of MACs or weights of each operator, the larger, added up

    `operators` is tighter, but no bound for operators whose weights are fetched while others compute.
    """

    macs: int
    weight_bytes: int
    io_bytes: int
    mac_cycles: float
    roofline: float
    operators: float

    @staticmethod
    def together(bounds: Iterable[Bound]) -> Bound:
        """Returns the bound of graphs that run one after the other."""
        macs, weights, io, *cycles = (sum(x) for x in zip(*map(astuple, bounds), strict=True))
        return Bound(macs, weights, io, *cycles)


@dataclass(frozen=True, slots=True)
class Need:
    """The MACs that one operator needs, and {constant: bytes of its weights}."""

    macs: int
    weights: Mapping[int, int]

    def cycles(self, rates: Rates) -> float:
        return max(self.macs / rates.macs, sum(self.weights.values()) / rates.weights)


def needs(graph: TensorGraph) -> dict[int, Need]:
    """Returns {operator: need} for the operators that multiply and add; what opaque ones need is not known."""
    found = {}
    for n in graph.live():
        node = graph.nodes[n]
        if count := OPS[node.op].macs:
            weights = {i: graph.type(i).bytes for i in node.inputs[:2] if graph.nodes[i].op == "const"}
            found[n] = Need(count([graph.type(i) for i in node.inputs], graph.type(n)), weights)
    return found


def bound(graph: TensorGraph, rates: Rates) -> Bound:
    """Returns the bound of a graph.

    Weights that several operators share are read once for `roofline`, and by each for `operators`.
    """
    every = list(needs(graph).values())
    macs = sum(need.macs for need in every)
    weights = sum({i: size for need in every for i, size in need.weights.items()}.values())
    io = sum(graph.type(n).bytes for n in {*graph.inputs, *graph.outputs})
    mac_cycles = macs / rates.macs
    roofline = max(mac_cycles, weights / rates.weights, io / rates.activations)
    operators = sum(need.cycles(rates) for need in every)
    return Bound(macs, weights, io, mac_cycles, roofline, max(roofline, operators))


def over_bound(rows: Sequence[Row], tosa: bytes, rates: Rates) -> list[Row]:
    """Returns rows of Vela's table of a TOSA graph with more fields, in cycles.

    mac_cycles: its MACs at the full rate
    ideal     : the larger of that and of its weights at the full rate
    waiting   : cycles in which memory keeps it from computing

    Rows that Vela cuts an operator into share its need by their MACs.
    So weights that are read again, and products with zeros that Vela inserts, count as excess.
    """
    graph, names = load_named(tosa)
    required = needs(graph)
    nodes = [names.get(row.source, -1) for row in rows]
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
    """Returns {Vela's name of the operator: sums over its rows}.

    operators: the number of rows
    cycles   : their cycles
    mac_cycles, ideal, waiting: those of `over_bound`, if the rows have them
    """
    out: dict[str, dict[str, float]] = {}
    for row in rows:
        told = {"mac_cycles": row.mac_cycles, "ideal": row.ideal, "waiting": row.waiting}
        found = {"operators": 1, "cycles": row.cycles, **{k: v for k, v in told.items() if v is not None}}
        old = out.get(row.operator, {})
        out[row.operator] = {k: old.get(k, 0) + v for k, v in found.items()}
    return out
