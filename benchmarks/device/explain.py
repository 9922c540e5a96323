"""Which known defect of Vela (`eqsat/vela/defects.py`) makes a graph's binary differ: by the part of the graph that has
its pattern, compiled by itself.

A pattern is a chain of operators, each reading the one before, moves between them or not: "slice > rescale:INT32" is a
SLICE and a RESCALE to INT32 of it; or operators that read one tensor: "reduce_min + reshape".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product

from eqsat.checking.shrink import fragment, shrink
from eqsat.target import Target
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import Node, TensorGraph
from eqsat.tensor.types import GraphError
from eqsat.vela.defects import DEFECTS, Defect

#: Between the operators of a pattern.
_MOVES = frozenset({"reshape", "transpose", "identity"})
#: Graphs that cutting down may try.
_CUTS = 160


def explained(
    graph: TensorGraph, differs: Callable[[TensorGraph], bool], target: Target, vela: str
) -> tuple[str, TensorGraph]:
    """(name of a defect or "", the smallest graph that still differs) for one that does. vela: its version, as "5.2";
    only what that version was seen to do on the target counts."""
    possible = [d for d in DEFECTS if d.seen and d.is_in(target.family, vela)]
    for defect in possible:
        for part in parts(defect, graph):
            if differs(part):
                return defect.name, part
    cut = shrink(graph, differs, _CUTS)
    return next((d.name for d in possible if next(parts(d, cut), None)), ""), cut


def parts(defect: Defect, graph: TensorGraph) -> Iterator[TensorGraph]:
    """What has a pattern of the defect, each part as a graph of its own."""
    readers = graph.readers()
    for pattern in filter(None, defect.patterns.split(", ")):
        find = _beside if " + " in pattern else _chains
        for nodes in find(graph, readers, pattern):
            part = _alone(graph, readers, nodes)
            if part is not None:
                yield part


def _beside(graph: TensorGraph, readers: Mapping[int, Sequence[int]], pattern: str) -> Iterator[Sequence[int]]:
    """One reader of a tensor for each operator of the pattern."""
    for n in graph.live():
        yield from product(*([r for r in readers[n] if _is(graph.nodes[r], step)] for step in pattern.split(" + ")))


def _chains(graph: TensorGraph, readers: Mapping[int, Sequence[int]], pattern: str) -> Iterator[Sequence[int]]:
    for first in graph.live():
        yield from _paths(graph, readers, [first], pattern.split(" > "))


def _paths(
    graph: TensorGraph, readers: Mapping[int, Sequence[int]], path: list[int], steps: Sequence[str]
) -> Iterator[list[int]]:
    """Paths through all steps that begin with `path`, whose last node is to be the first step or a move before it."""
    node = graph.nodes[path[-1]]
    if _is(node, steps[0]):
        if len(steps) == 1:
            yield path
            return
        steps = steps[1:]
    elif len(path) == 1 or node.op not in _MOVES:
        return
    for reader in dict.fromkeys(readers[path[-1]]):
        yield from _paths(graph, readers, [*path, reader], steps)


def _is(node: Node, step: str) -> bool:
    operators, _, dtype = step.partition(":")
    return node.op in operators.split("|") and dtype in ("", node.dtype)


def _alone(graph: TensorGraph, readers: Mapping[int, Sequence[int]], path: Sequence[int]) -> TensorGraph | None:
    """The operators of a path, with the RESCALEs that sums of 48 bits need; None where there is no such graph."""
    inside = set(path)
    for n in path:
        if DType.of(graph.nodes[n].dtype).only_rescaled:
            inside |= {*readers[n]}
        inside |= {i for i in graph.nodes[n].inputs if DType.of(graph.nodes[i].dtype).only_rescaled}
    outputs = [n for n in sorted(inside) if n in graph.outputs or not inside & {*readers[n]}]
    try:
        return fragment(graph, inside, outputs)
    except GraphError:
        return None
