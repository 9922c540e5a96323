"""Copies without which Vela compiles a graph wrongly (names are those of the page of defects).

- Sums and maxima behind a SLICE: Vela reads a SLICE in place, and a REDUCE_SUM along the last axis, or a REDUCE_MAX, then reads the tensor from its first
  element (`sum_of_a_slice`, `maximum_of_a_slice`). They read a copy of it.
- A TRANSPOSE or RESHAPE that is an output and that only TRANSPOSEs read, as a cache of keys that attention reads: Vela makes one of the two, and the output is
  none of the binary's (`lost_output`). The output is a copy.

A depthwise convolution copies (`copying.py`). Without that, choices would be refused one after the other once they were compiled or their binaries run. What
a copy takes is told by Vela's table, so that the next extraction knows.
"""

from __future__ import annotations

from collections.abc import Mapping

from eqsat.search import copying
from eqsat.tensor.graph import Node, TensorGraph


def with_copies(graph: TensorGraph, origin: Mapping[int, int]) -> tuple[TensorGraph, dict[int, int]]:
    """`graph` with such copies, and its origin ({node: choice node}): a copy is of the origin of what it copies. Tensors that no convolution
    copies stay."""
    ways = {n: way for n in graph.live() if (way := _way(graph, n))}
    lost = _lost(graph)
    if not ways and not lost:
        return graph, dict(origin)
    out, made = TensorGraph(output_names=list(graph.output_names)), dict[int, int]()
    copied_from: dict[int, int] = {}

    def copied(n: int) -> int:
        first = len(out.nodes)
        copy = copying.emit(out, made[n])
        copied_from.update((k, n) for k in range(first, len(out.nodes)) if out.nodes[k].op != "const")
        return copy

    for n in graph.live():
        node = graph.nodes[n]
        if node.op == "input":
            made[n] = out.add_input(node.attr("name"), node.shape, node.dtype)
            continue
        if node.op == "const":
            made[n] = out.add_const(node.attr("value").data, node.dtype, node.shape)
            continue
        operands = [made[i] for i in node.inputs]
        if n in ways:
            operands[0] = copied(ways[n][0])
            for k in ways[n][1:]:
                again = graph.nodes[k]
                operands[0] = out.add_with(again.op, operands[:1], again.attrs)
                copied_from[operands[0]] = k
        made[n] = out.add_with(node.op, operands, node.attrs)
    out.outputs = [copied(o) if o in lost else made[o] for o in graph.outputs]
    of, live = {made[n]: n for n in origin if n in made} | copied_from, set(out.live())
    return out, {k: origin[n] for k, n in of.items() if n in origin and k in live}


def _lost(graph: TensorGraph) -> set[int]:
    """Outputs that Vela loses and a convolution copies."""
    readers = graph.readers()
    return {
        o
        for o in graph.outputs
        if graph.nodes[o].op in ("transpose", "reshape")
        and readers[o]
        and all(graph.nodes[r].op == "transpose" for r in readers[o])
        and copying.unit_of(graph.type(o)) is not None
    }


def _way(graph: TensorGraph, n: int) -> list[int]:
    """The SLICE that an operator reads and what is between, where Vela compiles that wrongly and a convolution copies the SLICE; else nothing."""
    node = graph.nodes[n]
    summed = node.op == "reduce_sum" and node.attr("axis") == len(node.shape) - 1
    if not summed and node.op not in ("reduce_max", "reduce_min"):
        return []
    between = ("reshape", "rescale") if summed else ("reshape",)
    way = [node.inputs[0]]
    while graph.nodes[way[0]].op in between:
        way.insert(0, graph.nodes[way[0]].inputs[0])
    if any(graph.nodes[k].op == "rescale" and not _is_by_one(graph.nodes[k]) for k in way):
        return []
    is_slice = graph.nodes[way[0]].op == "slice" and copying.unit_of(graph.type(way[0])) is not None
    return way if is_slice else []


def _is_by_one(rescale: Node) -> bool:
    """Whatever its zero points, as ExecuTorch widens what it sums. With another factor Vela does not take the RESCALE into the sum."""
    return all(m == 1 << s for m, s in zip(rescale.attr("multiplier"), rescale.attr("shift"), strict=True))
