"""Copies and shapes without which Vela compiles a graph wrongly, as its table of defects says
(`eqsat/vela/defects.py`).

A depthwise convolution copies (`copying.py`). Without that, choices would be refused one after the other once they were
compiled or their binaries run. What a copy takes is told by Vela's table, so that the next extraction knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from eqsat.choice import copying
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import Shape
from eqsat.vela.defects import Copy


def _another_shape(shape: Shape) -> Shape:
    """One that Vela does not take for the same: the last axis but one is the last."""
    rest, last = prod(shape[:-1]), shape[-1] if shape else 1
    return (1, rest, last, 1) if shape != (1, rest, last, 1) else (1, 1, 1, rest * last)


def with_copies(
    graph: TensorGraph, origin: Mapping[int, int], copies: Iterable[Copy]
) -> tuple[TensorGraph, dict[int, int]]:
    """`graph` with such copies, and its origin ({node: choice node}): a copy is of the origin of what it copies,
    RESHAPEs of that of what they are around.
    Tensors that no convolution copies stay."""
    copies = list(copies)
    reshaped = {p[-1] for c in copies if c.reshaped for p in c.places(graph)}
    places = [
        p for c in copies if not c.reshaped for p in c.places(graph) if copying.unit_of(graph.type(p[0])) is not None
    ]
    ways = {p[-1]: p[:-1] for p in places if len(p) > 1}
    lost = {p[0] for p in places if len(p) == 1}
    if not places and not reshaped:
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
        if n in reshaped:
            before = out.add("reshape", operands, shape=_another_shape(node.shape))
            inside = out.add_with(node.op, [before], node.attrs)
            made[n] = out.add("reshape", [inside], shape=node.shape)
            copied_from |= {before: n, inside: n}
        else:
            made[n] = out.add_with(node.op, operands, node.attrs)
    out.outputs = [copied(o) if o in lost else made[o] for o in graph.outputs]
    of, live = {made[n]: n for n in origin if n in made} | copied_from, set(out.live())
    return out, {k: origin[n] for k, n in of.items() if n in origin and k in live}
