"""Copies and orders without which Vela compiles a graph wrongly (`eqsat/vela/defects.py`).

A copy is a depthwise convolution or a sum (`copying.py`).
Without copies such choices would be refused one by one, after compilation or a run of their binary.
A copy's cycles are in Vela's table, which corrects the prices of the next extraction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from eqsat.choice import copying
from eqsat.tensor.graph import Rewritten, TensorGraph
from eqsat.tensor.types import Attrs, attrs_of
from eqsat.vela.defects import Copy
from eqsat.vela.patterns import Place


def with_needed_copies(
    graph: TensorGraph, origin: Mapping[int, int], copies: Iterable[Copy]
) -> tuple[TensorGraph, dict[int, int]]:
    """Returns `graph` with the needed copies, and {node: choice node}.

    origin: {node of `graph`: choice node}.
    A copy has the origin of the copied node.
    Tensors of a type that cannot be copied stay as they are.
    """
    copies = list(copies)
    while first := {p[-1]: p for c in copies if c.sliced_first for p in c.places(graph)}:  # a slice may lay bare others
        out = graph.rewritten({part: partial(_slice_first, graph, place) for part, place in first.items()})
        graph, origin = out.graph, _origin(out, origin)
    places = [p for c in copies if not c.sliced_first for p in c.places(graph) if copying.can_copy(graph.type(p[0]))]
    if not places:
        return graph, dict(origin)
    ending: dict[int, list[Place]] = {}
    for p in places:
        if len(p) > 1:
            ending.setdefault(p[-1], []).append(p)
    out = graph.rewritten({last: partial(_of_copies, graph, found) for last, found in ending.items()})
    copied = {p[0]: _copy(p[0], out) for p in places if len(p) == 1}
    out.graph.outputs = [copied.get(o, out.number[o]) for o in graph.outputs]
    return out.graph, _origin(out, origin)


def _origin(out: Rewritten, origin: Mapping[int, int]) -> dict[int, int]:
    """Returns {new operator: choice node}, from the nodes that the operators were written for."""
    nodes = out.graph.nodes
    operators = ((k, out.source[k]) for k in out.graph.live() if nodes[k].op not in ("input", "const"))
    return {k: origin[n] for k, n in operators if n in origin}


def _slice_first(graph: TensorGraph, place: Place, out: Rewritten) -> int:
    """Writes the SLICE at the end of a place before the RESCALE at its beginning.

    Returns the node of the RESCALE, or of a RESHAPE of it if RESHAPEs lay between.
    """
    rescale, node = graph.nodes[place[0]], graph.nodes[place[-1]]
    starts, size = node.attr("start"), node.attr("size")
    start, channels = starts[-1], size[-1]
    if len(place) > 2:
        whole = rescale.shape[:-1]
        starts, size = (*(0 for _ in whole), start), (*whole, channels)
    (read,) = rescale.inputs
    while graph.nodes[read].op == "slice":  # of two in a row, Vela makes the first by a copy
        starts = tuple(a + b for a, b in zip(starts, graph.nodes[read].attr("start"), strict=True))
        (read,) = graph.nodes[read].inputs
    sliced = out.graph.add("slice", [out.number[read]], start=starts, size=size)
    scaled = _with_channels(rescale.attrs, slice(start, start + channels))
    made = out.graph.add_with(rescale.op, [sliced], scaled)
    out.source[made] = place[0]
    if out.graph.type(made).shape != node.shape:
        made = out.graph.add("reshape", [made], shape=node.shape)
        out.source[made] = place[0]
    return made


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
    copy = copying.emit(out.graph, out.number[n])
    out.source.update(dict.fromkeys(range(first, len(out.graph.nodes)), n))
    return copy


def _with_channels(rescale: Attrs, channels: slice) -> Attrs:
    """Returns the attributes of a RESCALE with a factor per channel, for some of its channels."""
    return attrs_of({k: v[channels] if k in ("multiplier", "shift") else v for k, v in rescale})
