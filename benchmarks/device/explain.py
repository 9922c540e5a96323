"""Which known defect of Vela (`eqsat/vela/defects.py`) makes the binary of a graph differ.

It is found by the parts of the graph that have the pattern of a defect, each compiled by itself.
A pattern is a chain of operators, each reading the one before, with or without moves between them.
"slice > rescale:INT32" is a SLICE and a RESCALE to INT32 of it.
A pattern may also be operators that read one tensor: "reduce_min + reshape".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import product

from eqsat.target import Target
from eqsat.tensor.graph import Node, TensorGraph, find_unread
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import DType, GraphError, attrs_of
from eqsat.vela.defects import DEFECTS, Defect


def shrink(graph: TensorGraph, fails: Callable[[TensorGraph], bool], tries: int) -> TensorGraph:
    """Returns a smaller graph that still fails, by a greedy search: the first cut that fails is kept and cut further.

    fails: whether a graph has the failure. tries: how many graphs are tried, at most.
    """
    cuts = _cuts(graph)
    for _ in range(tries):
        candidate = next(cuts, None)
        if candidate is None:
            break
        if fails(candidate):
            graph, cuts = candidate, _cuts(candidate)
    return graph


def operators(graph: TensorGraph) -> list[int]:
    """Returns the numbers of the live nodes that are not leaves, in order."""
    return [n for n in graph.live() if OPS[graph.nodes[n].op].kind != "leaf"]


def fragment(graph: TensorGraph, inside: Collection[int], outputs: Sequence[int]) -> TensorGraph:
    """Returns some operators as a graph of their own.

    Constants stay; everything else that the operators read becomes an input.
    inside: numbers of the operators. outputs: numbers of the nodes that become its outputs. Raises GraphError for none.
    """
    read = {i for n in inside for i in graph.nodes[n].inputs} - {*inside}
    return _between(graph, sorted(i for i in read if OPS[graph.nodes[i].op].kind != "leaf"), outputs)


def _cuts(graph: TensorGraph) -> Iterator[TensorGraph]:
    """Yields graphs with fewer operators.

    They have one of several outputs, an inner node as only output, or an inner node as input.
    """
    inner = [n for n in operators(graph) if not DType.of(graph.nodes[n].dtype).only_rescaled]
    for n in (*(graph.outputs if len(graph.outputs) > 1 else ()), *(n for n in inner if graph.outputs != [n])):
        yield _between(graph, (), [n])
    for n in (n for n in reversed(inner) if n not in graph.outputs):
        yield _between(graph, [n], graph.outputs)


def _between(graph: TensorGraph, cut: Collection[int], outputs: Sequence[int]) -> TensorGraph:
    """Returns the part of a graph that gives some outputs, without inputs that it does not read.

    cut: numbers of the nodes that become inputs. Raises GraphError if there is no output.
    """
    if not outputs:
        raise GraphError("a graph needs an output")
    nodes = list(graph.nodes)
    for n in cut:
        nodes[n] = Node("input", (), attrs_of({"name": f"cut{n}"}), nodes[n].shape, nodes[n].dtype)
    names = [f"y{k}" for k in range(len(outputs))]
    part = TensorGraph(nodes=nodes, inputs=[*graph.inputs, *cut], outputs=list(outputs), output_names=names)
    unread = find_unread(part)
    part.inputs = [i for k, i in enumerate(part.inputs) if k not in unread]
    return part.prune()


#: Operators that may lie between those of a pattern.
_MOVES = frozenset({"reshape", "transpose", "identity"})
#: Most graphs that are tried to cut a graph down.
_CUTS = 160


def explained(
    graph: TensorGraph, differs: Callable[[TensorGraph], bool], target: Target, vela: str
) -> tuple[str, TensorGraph]:
    """Returns (name of a defect or "", the smallest graph that still differs) for a graph that differs.

    vela: its version, as "5.2".
    Only defects that this version was seen to have on the target count.
    """
    possible = [d for d in DEFECTS if d.seen and d.is_in(target.family, vela)]
    for defect in possible:
        for part in parts(defect, graph):
            if differs(part):
                return defect.name, part
    cut = shrink(graph, differs, _CUTS)
    return next((d.name for d in possible if next(parts(d, cut), None)), ""), cut


def parts(defect: Defect, graph: TensorGraph) -> Iterator[TensorGraph]:
    """Yields the parts of a graph that have a pattern of the defect, each as a graph of its own."""
    readers = graph.readers()
    for pattern in filter(None, defect.patterns.split(", ")):
        find = _beside if " + " in pattern else _chains
        alone = (_alone(graph, readers, nodes) for nodes in find(graph, readers, pattern))
        yield from (part for part in alone if part is not None)


def _beside(graph: TensorGraph, readers: Mapping[int, Sequence[int]], pattern: str) -> Iterator[Sequence[int]]:
    """Yields one reader of a tensor for each operator of the pattern."""
    for n in graph.live():
        yield from product(*([r for r in readers[n] if _is(graph.nodes[r], step)] for step in pattern.split(" + ")))


def _chains(graph: TensorGraph, readers: Mapping[int, Sequence[int]], pattern: str) -> Iterator[Sequence[int]]:
    """Yields the chains of a pattern in a graph."""
    for first in graph.live():
        yield from _paths(graph, readers, [first], pattern.split(" > "))


def _paths(
    graph: TensorGraph, readers: Mapping[int, Sequence[int]], path: list[int], steps: Sequence[str]
) -> Iterator[list[int]]:
    """Yields the paths that begin with `path` and go on through all steps.

    The last node of `path` is the first step, or a move before it.
    """
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
    """Tells whether a node is the operator of a step, with its dtype if the step has one."""
    operators, _, dtype = step.partition(":")
    return node.op in operators.split("|") and dtype in ("", node.dtype)


def _alone(graph: TensorGraph, readers: Mapping[int, Sequence[int]], path: Sequence[int]) -> TensorGraph | None:
    """Returns a graph of the operators of a path, None if there is no such graph.

    It has the RESCALEs that sums of 48 bits need, too.
    """
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
