"""Every input stays read, also where an identity shows that nothing depends on it.

Vela leaves an input that no operator reads out of its binary (`tests/choice/test_signature.py` asks), and the .pte's
runtime counts on all of them. Nothing depends on the first part of `slice(concat(a, b))` where the slice cuts b out:
the e-graph has b in the class of the slice, and no choice at all that reads a, since the concat would read itself. So
the graph that is written gets a reader: one element of the input is appended to the smallest value there is, and cut
off again.
"""

from __future__ import annotations

import math

from eqsat.tensor.graph import TensorGraph, unread

#: Leaves, and what may have further results, which are read by node.
_NOT_COMPUTED = ("input", "const", "opaque")


def with_inputs_read(
    graph: TensorGraph, origin: dict[int, int], source: TensorGraph
) -> tuple[TensorGraph, dict[int, int]]:
    """`graph` with a reader for each input that it does not read and `source` does, and its origin ({node: choice
    node}). An input whose dtype no value of the graph has stays unread."""
    for k in sorted(set(unread(graph)) - set(unread(source))):
        graph, origin = _with_reader(graph, origin, k)
    return graph, origin


def _with_reader(graph: TensorGraph, origin: dict[int, int], k: int) -> tuple[TensorGraph, dict[int, int]]:
    given = graph.inputs[k]
    value = _smallest(graph, graph.nodes[given].dtype)
    if value is None:
        return graph, origin
    out = TensorGraph(output_names=list(graph.output_names))
    made = {}  # node of `graph`: the same in `out`
    for i in graph.inputs:
        made[i] = out.add_input(graph.nodes[i].attr("name"), graph.nodes[i].shape, graph.nodes[i].dtype)
    read = dict(made)  # node of `graph`: what reads it reads this in `out`
    for n in (n for n in graph.live() if n not in read):
        node = graph.nodes[n]
        if node.op == "const":
            made[n] = out.add_const(node.attr("value").data, node.dtype, node.shape)
        else:
            made[n] = out.add_with(node.op, [read[i] for i in node.inputs], node.attrs)
        read[n] = _unchanged(out, made[n], made[given]) if n == value else made[n]
    out.outputs = [read[o] for o in graph.outputs]
    return out, {made[n]: c for n, c in origin.items() if n in made}


def _smallest(graph: TensorGraph, dtype: str) -> int | None:
    """The node with the fewest elements of a dtype among what is computed: of an input, Vela would tell the runtime
    another shape."""
    fit = [n for n in graph.live() if graph.nodes[n].dtype == dtype and graph.nodes[n].op not in _NOT_COMPUTED]
    return min(fit, key=lambda n: graph.type(n).elements, default=None)


def _unchanged(out: TensorGraph, value: int, given: int) -> int:
    """`value` with an element of `given` appended and cut off again."""
    element, rank, shape = given, len(out.nodes[given].shape), out.nodes[value].shape
    if rank:
        element = out.add("slice", [element], start=(0,) * rank, size=(1,) * rank)
    flat = [out.add("reshape", [value], shape=(math.prod(shape),)), out.add("reshape", [element], shape=(1,))]
    joined = out.add("concat", flat, axis=0)
    return out.add("reshape", [out.add("slice", [joined], start=(0,), size=(math.prod(shape),))], shape=shape)
