"""Copies of the inputs and outputs of a graph that lie outside SRAM.

A TRANSPOSE of an input reads single elements of the memory outside, and one that gives an output writes them.
Behind or before a copy, which moves whole bursts, it reads and writes SRAM alone.
Measured with Vela 5.2 on U65, where inputs and outputs lie outside by default:
a picture [3, 112, 112] to NHWC takes 161,063 cycles without a copy before it, and 20,480 with one.
An output [16, 4096] from NHWC takes 140,060 without, and 30,949 with one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isqrt, prod

from eqsat.choice.compiled import Candidate, Compiled
from eqsat.choice.writer import write_copy
from eqsat.search.proposal import Asking, State, one_by_one
from eqsat.tensor.graph import Rewritten, TensorGraph
from eqsat.tensor.types import Shape

#: Most inputs and outputs that are copied.
_MOST = 6
#: Channels of a copy, at most: more are written in several bursts.
_CHANNELS = 16
#: Channels below which nothing is copied.
_FEWEST_CHANNELS = 8
#: Elements of a tensor that is copied, at least; a command costs more than a smaller one gains.
_ELEMENTS = 1024


@dataclass(frozen=True, slots=True)
class Outside:
    """An input or output of a graph outside SRAM, by its node. view: the shape in which it is copied."""

    node: int
    view: Shape


def borders(state: State) -> Asking:
    """Asks for one copy after the other, that of the largest tensor first."""
    start = state.origin

    def with_some(some: Collection[Outside]) -> Candidate:
        made = with_copies(start.graph, some)
        return start.rewrite(made.graph, "outside", made.source)

    yield from one_by_one(state, outside(start)[:_MOST], with_some)


def outside(compiled: Compiled) -> list[Outside]:
    """Returns inputs, and outputs that nothing reads, outside SRAM that may be worth a copy, the largest first."""
    graph, readers = compiled.graph, compiled.graph.readers()
    nodes = compiled.nodes
    within = {nodes.get(t.name) for t in compiled.estimate.tensors}
    found = []
    for n in dict.fromkeys([*graph.inputs, *graph.outputs]):
        is_read = n in graph.inputs and n not in graph.outputs and readers[n]
        is_result = n not in graph.inputs and not readers[n]
        view = _view(graph, readers, n) if graph.nodes[n].dtype == "INT8" and n not in within else None
        if view is not None and (is_read or is_result):
            found.append(Outside(n, view))
    return sorted(found, key=lambda o: (-prod(o.view), o.node))


def _view(graph: TensorGraph, readers: Mapping[int, Sequence[int]], node: int) -> Shape | None:
    """Returns the shape in which an input or output is copied, its neighbour's if possible; None for no copy."""
    size = prod(graph.nodes[node].shape)
    channels = next((c for c in range(_CHANNELS, _FEWEST_CHANNELS - 1, -1) if size % c == 0), None)
    if size < _ELEMENTS or channels is None:
        return None
    views = [node, *(r for r in readers[node] if graph.nodes[r].op == "reshape")]
    while not readers[node] and graph.nodes[views[-1]].op == "reshape":
        views.append(graph.nodes[views[-1]].inputs[0])
    for shape in (graph.nodes[v].shape for v in reversed(views)):
        if len(shape) == 4 and shape[0] == 1 and _FEWEST_CHANNELS <= shape[-1] <= _CHANNELS:
            return shape
    pixels = size // channels
    width = next(d for d in range(isqrt(pixels), 0, -1) if pixels % d == 0)
    return (1, pixels // width, width, channels)


def with_copies(graph: TensorGraph, of: Collection[Outside]) -> Rewritten:
    """Returns the graph with copies of some of its inputs and outputs."""
    inputs: dict[int, int] = {}

    def write(o: Outside, out: Rewritten) -> int:
        node = graph.nodes[o.node]
        first = out.graph.add_copy(node, [out.number[i] for i in node.inputs])
        if node.op == "input":
            inputs[o.node] = first
        copy = write_copy(out.graph, out.graph.add("reshape", [first], shape=o.view))
        return out.graph.add("reshape", [copy], shape=node.shape)

    made = graph.rewrite({o.node: partial(write, o) for o in of})
    made.graph.inputs = [inputs.get(i, n) for i, n in zip(graph.inputs, made.graph.inputs, strict=True)]
    return made
