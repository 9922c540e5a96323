"""Readers for inputs of the graph that nothing else reads, although the source reads them.

Vela leaves out an input that no operator reads (`tests/choice/test_signature.py`).
The runtime of the .pte needs all of them.
Rules may remove the last reader.
For example, no result depends on a in `slice(concat(a, b))` if the slice cuts out b.
The e-graph has b in the class of the slice, and no choice that reads a, since the concat would read itself.
So the written graph gets a reader.
One element of the input is appended to the smallest computed value, and cut off again.
"""

from __future__ import annotations

import math

from eqsat.tensor.graph import Rewritten, TensorGraph, unread

#: Operators that are not computed, or may have further results, which are read by node.
_NOT_COMPUTED = ("input", "const", "opaque")


def with_inputs_read(
    graph: TensorGraph, origin: dict[int, int], source: TensorGraph
) -> tuple[TensorGraph, dict[int, int]]:
    """Returns `graph` with a reader for each unread input that `source` reads, and {node: choice node}.

    An input whose dtype no computed value of the graph has stays unread.
    """
    for k in sorted(set(unread(graph)) - set(unread(source))):
        graph, origin = _with_reader(graph, origin, k)
    return graph, origin


def _with_reader(graph: TensorGraph, origin: dict[int, int], k: int) -> tuple[TensorGraph, dict[int, int]]:
    given = graph.inputs[k]
    value = _smallest(graph, graph.nodes[given].dtype)
    if value is None:
        return graph, origin
    node = graph.nodes[value]

    def with_part(out: Rewritten) -> int:
        made = out.graph.add_copy(node, [out.number[i] for i in node.inputs])
        read = _unchanged(out.graph, made, out.number[given])
        out.source.update(dict.fromkeys(range(made + 1, len(out.graph.nodes)), given))
        return read

    out = graph.rewritten({value: with_part})
    return out.graph, {m: origin[n] for m, n in out.source.items() if n in origin}


def _smallest(graph: TensorGraph, dtype: str) -> int | None:
    """Returns the node with the fewest elements of a dtype among computed nodes, None without one.

    It is no input of the graph, since Vela would report another shape for it to the runtime.
    """
    fit = [n for n in graph.live() if graph.nodes[n].dtype == dtype and graph.nodes[n].op not in _NOT_COMPUTED]
    return min(fit, key=lambda n: graph.type(n).elements, default=None)


def _unchanged(out: TensorGraph, value: int, given: int) -> int:
    """Returns `value` with an element of `given` appended and cut off again."""
    element, rank, shape = given, len(out.nodes[given].shape), out.nodes[value].shape
    if rank:
        element = out.add("slice", [element], start=(0,) * rank, size=(1,) * rank)
    flat = [out.add("reshape", [value], shape=(math.prod(shape),)), out.add("reshape", [element], shape=(1,))]
    joined = out.add("concat", flat, axis=0)
    return out.add("reshape", [out.add("slice", [joined], start=(0,), size=(math.prod(shape),))], shape=shape)
