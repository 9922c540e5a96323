"""The units of a concrete graph, for models that look at neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cost_models.protocol import Unit
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Type


class UnitGraph:
    """A concrete graph and its units.

    units  : {node: unit} of the live ops, in topological order
    readers: {node: the nodes that read it, once per operand}
    outputs: the outputs of the graph
    """

    def __init__(self, graph: TensorGraph):
        self.graph, self.units, self.readers = graph, units_of(graph), graph.readers()
        self.outputs = set(graph.outputs)

    def inputs(self, n: int) -> tuple[int, ...]:
        return self.graph.nodes[n].inputs

    def type(self, n: int) -> Type:
        return self.graph.type(n)

    def op(self, n: int) -> str:
        return self.graph.nodes[n].op

    def is_unit(self, n: int, *ops: str) -> bool:
        """Whether `n` is a live op, and one of `ops` if there are any."""
        return n in self.units and (not ops or self.units[n].op in ops)

    def single_reader(self, n: int) -> int:
        """Returns the only reader of `n`, -1 if it has none or several, or is an output."""
        readers = self.readers[n]
        return readers[0] if len(readers) == 1 and n not in self.outputs else -1

    def through_views(self, n: int) -> int:
        """Calls the function `through_views` for this graph."""
        return through_views(self.graph, self.readers, n)

    def producers(self, n: int) -> list[Unit]:
        """Returns the units that `n` reads."""
        return [self.units[i] for i in self.inputs(n) if i in self.units]


def through_views(graph: TensorGraph, readers: Mapping[int, Sequence[int]], n: int) -> int:
    """Returns the first node above `n` that is not a view.

    A view is a reshape with one reader; `n` itself is returned if it is none.
    """
    while graph.nodes[n].op == "reshape" and len(readers[n]) == 1:
        n = graph.nodes[n].inputs[0]
    return n


def units_of(graph: TensorGraph) -> dict[int, Unit]:
    """Returns {node: unit} of the live ops of a concrete graph."""
    out = {}
    for n in graph.live():
        node = graph.nodes[n]
        if OPS[node.op].kind != "leaf" and node.op != "item":
            values = tuple(graph.nodes[i].attr("value") if graph.nodes[i].op == "const" else None for i in node.inputs)
            out[n] = Unit(((node.op, node.attrs),), tuple(graph.type(i) for i in node.inputs), graph.type(n), values)
    return out
