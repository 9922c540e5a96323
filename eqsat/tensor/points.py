"""Values at which a graph's behaviour changes.

Errors may show only at these values and next to them.
They are constants of comparisons, limits of CLAMP, zero points and values of PAD.
They are also values at which a RESCALE saturates, and knees of interpolated tables.
Each is a value of the operator's operand.
It is carried back to where that comes from (`asked.before`).

>>> from eqsat.tensor import makers
>>> g = TensorGraph()
>>> wide = g.add_with("rescale", (g.add_input("x", (1, 4), "INT16"),), makers.rescale("INT32", shift=28))
>>> g.outputs = [g.add("greater", (wide, g.add_const(np.array([[400]]), "INT32")))]
>>> points(g)
{1: (400,), 0: (0, 100)}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from eqsat.tensor.allowed import ANY, Allowed
from eqsat.tensor.asked import before
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import Node, TensorGraph
from eqsat.tensor.types import Array

#: Most points of a value.
_MOST = 12
#: Most points of a constant or table.
_EACH = 4
#: Operators that compare their operands, or choose by comparing them.
_COMPARING = frozenset({"equal", "greater", "greater_equal", "maximum", "minimum"})


def points(graph: TensorGraph, nodes: Sequence[int] | None = None) -> dict[int, tuple[int, ...]]:
    """Returns the points of the values of nodes that have some, by node.

    nodes: whose operands are considered, in topological order; None: all live ones.
    """
    out: dict[int, tuple[int, ...]] = {}
    for n in reversed(graph.live() if nodes is None else nodes):
        node = graph.nodes[n]
        for k, i in enumerate(node.inputs):
            operand = graph.nodes[i]
            if operand.op != "const" and DType.of(operand.dtype).kind == "integer":
                new = (*out.get(i, ()), *_own(graph, node, k), *_pulled_back(graph, n, k, out.get(n, ())))
                out[i] = tuple(dict.fromkeys(new))[:_MOST]
    return {n: found for n, found in out.items() if found}


def _own(graph: TensorGraph, node: Node, k: int) -> Iterator[int]:
    """Yields the points of operand k of an operator."""
    attrs = dict(node.attrs)
    yield from attrs.get("w_zp" if node.op == "matmul" and k == 1 else "in_zp", ())
    if node.op in _COMPARING:
        for i in node.inputs:
            if graph.nodes[i].op == "const":
                yield from _some(np.unique(graph.nodes[i].attr("value").data))
    elif node.op == "clamp":
        dtype = DType.of(node.dtype)
        yield from (int(dtype.from_bytes(attrs[end])) for end in ("min_val", "max_val"))
    elif node.op == "pad":
        yield attrs["value"][0]
    elif node.op == "table" and graph.nodes[node.inputs[0]].dtype == "INT16":
        entries = np.array(attrs["table"])
        bends = np.abs(np.diff(entries, 2))
        yield from (-32768 + 128 * int(i + 1) for i in np.argsort(-bends, kind="stable")[:_EACH] if bends[i])


def _some(values: Array) -> list[int]:
    """Returns a few of the values, with the first and the last."""
    return [int(values[i]) for i in sorted({round(i) for i in np.linspace(0, len(values) - 1, _EACH)})]


def _pulled_back(graph: TensorGraph, n: int, k: int, found: tuple[int, ...]) -> list[int]:
    """Returns the ends of the ranges of operand k of a node in which the node's value is a point or saturates."""
    node = graph.nodes[n]
    wanted = [Allowed(p, p) for p in found]
    if node.op == "rescale":
        low, high = DType.of(node.dtype).limits
        wanted += [Allowed(high=low), Allowed(low=high)]
    back = before(graph, n, k, wanted)
    # A TABLE need not be monotone, so values below and above a point count too, as they do if there is no range.
    besides = [p for p, a in zip(found, back, strict=False) if a == ANY or node.op == "table"]
    back += before(graph, n, k, [w for p in besides for w in (Allowed(high=p - 1), Allowed(low=p + 1))])
    lowest, highest = DType.of(graph.nodes[node.inputs[k]].dtype).limits
    return [v for a in back if a != ANY for v in (a.low, a.high) if v is not None and lowest < v < highest]
