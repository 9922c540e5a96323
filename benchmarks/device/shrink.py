"""Shrinking of a failing graph: a smaller one with the same failure, by cuts above and below."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import Node, TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import GraphError, attrs_of


def shrink(graph: TensorGraph, fails: Callable[[TensorGraph], bool], tries: int = 80) -> TensorGraph:
    """Returns a smaller graph that still fails, by a greedy search.

    The first cut that fails is kept, until no cut does or `tries` graphs have been tried.
    fails: whether a graph has the failure.
    """
    left = tries
    smaller = True
    while smaller:
        smaller = False
        for candidate in _cuts(graph):
            if not left:
                return graph
            left -= 1
            if fails(candidate):
                graph, smaller = candidate, True
                break
    return graph


def fragment(graph: TensorGraph, inside: Collection[int], outputs: Sequence[int]) -> TensorGraph:
    """Returns some operators as a graph of their own.

    Constants stay; everything else that the operators read becomes an input.
    inside: numbers of the operators. outputs: numbers of the nodes that become its outputs.
    """
    nodes = list(graph.nodes)
    read = {i for n in inside for i in nodes[n].inputs} - {*inside}
    cut = sorted(i for i in read if OPS[nodes[i].op].kind != "leaf")
    for n in cut:
        nodes[n] = _input(n, nodes[n])
    return _read(
        TensorGraph(
            nodes=nodes,
            inputs=[*graph.inputs, *cut],
            outputs=list(outputs),
            output_names=[f"y{k}" for k in range(len(outputs))],
        )
    )


def _input(n: int, node: Node) -> Node:
    return Node("input", (), attrs_of({"name": f"cut{n}"}), node.shape, node.dtype)


def _cuts(graph: TensorGraph) -> Iterator[TensorGraph]:
    """Yields graphs with fewer operators.

    They have one of several outputs, an inner node as only output, or an inner node as input.
    """
    if len(graph.outputs) > 1:
        for o in graph.outputs:
            yield _with_output(graph, o)
    inner = [
        n
        for n in graph.live()
        if OPS[graph.nodes[n].op].kind != "leaf" and not DType.of(graph.nodes[n].dtype).only_rescaled
    ]
    for n in inner:
        if graph.outputs != [n]:
            yield _with_output(graph, n)
    for n in reversed(inner):
        if n not in graph.outputs:
            yield _with_input(graph, n)


def _with_output(graph: TensorGraph, n: int) -> TensorGraph:
    return _read(TensorGraph(nodes=graph.nodes, inputs=graph.inputs, outputs=[n], output_names=["y"]))


def _with_input(graph: TensorGraph, n: int) -> TensorGraph:
    nodes = list(graph.nodes)
    nodes[n] = _input(n, nodes[n])
    return _read(
        TensorGraph(nodes=nodes, inputs=[*graph.inputs, n], outputs=graph.outputs, output_names=graph.output_names)
    )


def _read(graph: TensorGraph) -> TensorGraph:
    """Returns the graph without unread inputs. Raises GraphError if it has no output."""
    readers = graph.readers()
    graph.inputs = [i for i in graph.inputs if readers[i] or i in graph.outputs]
    if not graph.outputs:
        raise GraphError("a graph needs an output")
    return graph.prune()
