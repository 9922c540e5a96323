"""Copies of the inputs and outputs of a graph that lie outside SRAM.

A TRANSPOSE of an input reads single elements of the memory outside, and one that gives an output writes them.
Each is an access of its own there.
Behind or before a copy, which moves whole bursts, it has SRAM alone to do with.
The copy is a depthwise convolution 1x1 with weights of one (`eqsat/choice/copying.py`).
Measured with Vela 5.2 on U65, where inputs and outputs lie outside by default:
a picture [3, 112, 112] to NHWC takes 161,063 cycles without a copy before it, and 20,480 with one.
An output [16, 4096] from NHWC takes 140,060 without, and 30,949 with one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isqrt, prod

from eqsat.choice import copying
from eqsat.choice.compiled import Candidate, Compiled
from eqsat.search.proposal import Ask, Asking, one_by_one
from eqsat.search.state import State
from eqsat.tensor.graph import Rewritten, TensorGraph
from eqsat.tensor.types import Shape
from eqsat.tosa.flatbuffer import written_names
from eqsat.vela.compile import Estimate
from eqsat.vela.table import Row

#: Most inputs and outputs that are copied.
_MOST = 6
#: Channels of a copy, at most: more are written in several bursts.
_CHANNELS = 16
#: Channels below which nothing is copied.
_FEWEST_CHANNELS = 8
#: Cycles that an operator waits for memory per element of an input or output that is copied, at least.
#: A copy takes about a third of a cycle per element.
_WAITING = 0.5
#: Elements of a tensor that is copied, at least; a command costs more than a smaller one gains.
_ELEMENTS = 1024


def borders(state: State) -> Asking:
    """All copies are tried at once, and if that is no better, one after the other, the longest waits first."""
    start = state.start
    every = outside(start)[:_MOST] if start else []
    if start is None or not every:
        return
    state = yield Ask([_with_copies(start, every)])
    if state.best is start:
        yield from one_by_one(state, every, lambda some: _with_copies(start, some))


@dataclass(frozen=True, slots=True)
class Outside:
    """An input or output of a graph outside SRAM, by its node.

    view: the shape in which it is copied.
    waiting: cycles for which an operator waits for it, at most.
    """

    node: int
    view: Shape
    waiting: int


def outside(compiled: Compiled) -> list[Outside]:
    """Returns the inputs and outputs that may be worth a copy, those with the longest waits first.

    They lie outside SRAM, and nothing but the result of the graph is computed of an output.
    """
    graph, estimate = compiled.graph, compiled.estimate
    names, readers = written_names(graph), graph.readers()
    within, rows = {t.name for t in estimate.tensors}, [r for r in estimate.rows if r.cycles]
    writers = {r.name: r for r in rows}
    reading = {r.source: r for r in reversed(rows)}
    found = []
    for n in dict.fromkeys([*graph.inputs, *graph.outputs]):
        node, is_input = graph.nodes[n], n in graph.inputs
        view = _view(graph, readers, n)
        if names[n] in within or node.dtype != "INT8" or view is None:
            continue
        if is_input == (not readers[n]) or is_input and n in graph.outputs:
            continue
        if is_input:
            at = [reading[names[r]] for r in _behind_views(graph, readers, n) if names[r] in reading]
        else:
            writer = _before_views(graph, n)
            at = [r for r in (writers.get(names[n]), writers.get(names[writer])) if r]
        waiting = max((_waiting(r, estimate) for r in at), default=0)
        if waiting > _WAITING * prod(node.shape):
            found.append(Outside(n, view, waiting))
    return sorted(found, key=lambda o: (-o.waiting, o.node))


def _waiting(row: Row, estimate: Estimate) -> int:
    """Returns the cycles of an operator beyond those of its products."""
    return row.priced - (row.macs // estimate.rates.macs if row.weight_bytes else 0)


def _behind_views(graph: TensorGraph, readers: Mapping[int, Sequence[int]], node: int) -> list[int]:
    """Returns the operators that read a node, directly or through views."""
    found, left = list[int](), list(readers[node])
    while left:
        n = left.pop()
        if graph.nodes[n].op == "reshape":
            left.extend(readers[n])
        else:
            found.append(n)
    return found


def _before_views(graph: TensorGraph, node: int) -> int:
    """Returns the operator whose result a node is, directly or through views."""
    while graph.nodes[node].op == "reshape":
        (node,) = graph.nodes[node].inputs
    return node


def _view(graph: TensorGraph, readers: Mapping[int, Sequence[int]], node: int) -> Shape | None:
    """Returns the shape in which an input or output is copied, None if it is not worth a copy.

    It is one in which the operator beside it has the tensor, if that has as few channels.
    """
    size = prod(graph.nodes[node].shape)
    channels = next((c for c in range(_CHANNELS, _FEWEST_CHANNELS - 1, -1) if size % c == 0), None)
    if size < _ELEMENTS or channels is None:
        return None
    views = [node, *(r for r in readers[node] if graph.nodes[r].op == "reshape")]
    if not readers[node]:
        views.append(_before_views(graph, node))
    for shape in (graph.nodes[v].shape for v in reversed(views)):
        if len(shape) == 4 and shape[0] == 1 and _FEWEST_CHANNELS <= shape[-1] <= _CHANNELS:
            return shape
    pixels = size // channels
    width = next(d for d in range(isqrt(pixels), 0, -1) if pixels % d == 0)
    return (1, pixels // width, width, channels)


def copied(graph: TensorGraph, of: Collection[Outside]) -> Rewritten:
    """Returns the graph with copies of some of its inputs and outputs."""
    inputs: dict[int, int] = {}

    def write(o: Outside, out: Rewritten) -> int:
        node = graph.nodes[o.node]
        first = out.graph.add_copy(node, [out.number[i] for i in node.inputs])
        if node.op == "input":
            inputs[o.node] = first
        copy = copying.emit(out.graph, out.graph.add("reshape", [first], shape=o.view))
        return out.graph.add("reshape", [copy], shape=node.shape)

    made = graph.rewritten({o.node: partial(write, o) for o in of})
    made.graph.inputs = [inputs.get(i, n) for i, n in zip(graph.inputs, made.graph.inputs, strict=True)]
    return made


def _with_copies(start: Compiled, of: Collection[Outside]) -> Candidate:
    """Returns a graph with copies of some inputs and outputs."""
    made = copied(start.graph, of)
    return start.rewritten(made.graph, "outside", made.source)
