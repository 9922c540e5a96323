"""Copies of tensors, and those without which Vela compiles a graph wrongly (`eqsat/vela/defects.py`).

A copy is a depthwise convolution 1x1 with weights of one, or an ADD of zero for INT32.
Others are a TABLE that Vela fuses into the operator before it.
Without those, choices would be refused one by one, after compilation or a run of their binary.
A copy's cycles are in Vela's table, which corrects the prices of the next extraction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import numpy as np

from eqsat.tensor import makers
from eqsat.tensor.graph import Rewritten, TensorGraph
from eqsat.tensor.types import Type
from eqsat.vela.defects import Copy
from eqsat.vela.patterns import Place


def can_copy(t: Type) -> bool:
    """Whether `write_copy` can copy a tensor: INT32, or one image of INT8."""
    return t.dtype == "INT32" or t.dtype == "INT8" and len(t.shape) <= 4 and (1, 1, 1, 1, *t.shape)[-4] == 1


def write_copy(graph: TensorGraph, node: int) -> int:
    """Adds a copy of a node to a graph, and returns its node."""
    t = graph.type(node)
    if t.dtype == "INT32":
        shape = (1,) * len(t.shape)
        return graph.add("add", [node, graph.add_const(np.zeros(shape, np.int32), "INT32", shape)])
    if len(t.shape) < 4:
        copy = write_copy(graph, graph.add("reshape", [node], shape=(1,) * (4 - len(t.shape)) + t.shape))
        return graph.add("reshape", [copy], shape=t.shape)
    channels = t.shape[3]
    weights = graph.add_const(np.ones((1, 1, channels, 1), np.int8), "INT8")
    bias = graph.add_const(np.zeros(channels, np.int32), "INT32")
    copy = graph.add_with("depthwise_conv2d", [node, weights, bias], makers.conv("INT8"))
    return graph.add_with("rescale", [copy], makers.by_one("INT8"))


def with_needed_copies(
    graph: TensorGraph, origin: Mapping[int, int], copies: Iterable[Copy]
) -> tuple[TensorGraph, dict[int, int]]:
    """Returns `graph` with the needed copies of what can be copied, and {node: choice node}.

    origin: {node of `graph`: choice node}; a copy has that of the copied node.
    """
    copies = list(copies)
    if tabled := {p[0] for c in copies if c.by_table for p in c.places(graph) if graph.nodes[p[0]].dtype == "INT8"}:
        out = graph.rewrite({n: partial(_write_table, graph, n) for n in tabled})
        graph, origin = out.graph, _origin(out, origin)
    places = [p for c in copies if not c.by_table for p in c.places(graph) if can_copy(graph.type(p[0]))]
    if not places:
        return graph, dict(origin)
    ending: dict[int, list[Place]] = {}
    for p in places:
        if len(p) > 1:
            ending.setdefault(p[-1], []).append(p)
    out = graph.rewrite({last: partial(_of_copies, graph, found) for last, found in ending.items()})
    copied = {p[0]: _copy(p[0], out) for p in places if len(p) == 1}
    out.graph.outputs = [copied.get(o, out.number[o]) for o in graph.outputs]
    return out.graph, _origin(out, origin)


def _origin(out: Rewritten, origin: Mapping[int, int]) -> dict[int, int]:
    """Returns {new operator: choice node}, from the nodes that the operators were written for."""
    nodes = out.graph.nodes
    operators = ((k, out.source[k]) for k in out.graph.live() if nodes[k].op not in ("input", "const"))
    return {k: origin[n] for k, n in operators if n in origin}


def _write_table(graph: TensorGraph, n: int, out: Rewritten) -> int:
    """Writes a node with a TABLE behind it that leaves every value as it is, and returns the TABLE's node."""
    node = graph.nodes[n]
    made = out.graph.add_copy(node, [out.number[i] for i in node.inputs])
    table = out.graph.add_with("table", [made], makers.table(range(-128, 128)))
    out.source[made] = out.source[table] = n
    return table


def _of_copies(graph: TensorGraph, places: Sequence[Place], out: Rewritten) -> int:
    """Writes the last operator of all places on copies of their first nodes, and returns its node."""
    number = dict(out.number)
    for copied, *others in places:
        number[copied] = _copy(copied, out)
        for n in others[:-1]:
            node = graph.nodes[n]
            number[n] = out.graph.add_copy(node, [number[i] for i in node.inputs])
            out.source[number[n]] = n
    last = graph.nodes[places[0][-1]]
    return out.graph.add_copy(last, [number[i] for i in last.inputs])


def _copy(n: int, out: Rewritten) -> int:
    first = len(out.graph.nodes)
    copy = write_copy(out.graph, out.number[n])
    out.source.update(dict.fromkeys(range(first, len(out.graph.nodes)), n))
    return copy
