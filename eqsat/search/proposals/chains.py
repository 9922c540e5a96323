"""Products of parts, each right before the sum that reads it, where Vela chains both (U85).

The gates of a recurrent network are slices of a sum of products, and a part of a product is the product with a part of
the weights. So a gate's sum and TABLE are chained to its convolution, and the next TABLE is loaded meanwhile.
By itself one convolution of all gates takes fewer cycles, which is why prices of single operators do not lead here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial, reduce

from eqsat.choice.writer import with_needed_copies
from eqsat.search.proposal import Ask, Asking, State
from eqsat.search.proposals.orders import swaps, with_swap
from eqsat.tensor.graph import Rewritten, TensorGraph
from eqsat.tensor.stripes import Parts, Region, find_needed
from eqsat.vela.defects import Copy, remedies

#: Operators of which a part is the same operator on parts.
_POINTWISE = frozenset(("add", "sub", "mul", "clamp", "table", "rescale"))
#: Operators that Vela chains with a sum that reads their result, on U85.
_CONVOLUTIONS = ("conv2d", "depthwise_conv2d")


def chains(state: State) -> Asking:
    """Asks for convolutions before sums, in the graph as it is and with products of parts."""
    start = state.origin
    if not state.target.family.chains:
        return
    graph, source = in_parts(start.graph, remedies(Copy, state.target.family))
    asked = [start.rewrite(before_sums(graph), "chains", source)] if graph is not start.graph else []
    arranged = before_sums(start.graph)
    if arranged is not start.graph:
        asked.append(start.rewrite(arranged, "chains"))
    if asked:
        yield Ask(asked)


def before_sums(graph: TensorGraph) -> TensorGraph:
    """Returns the graph with convolutions right before the sums that read them; itself if they already are."""
    return reduce(with_swap, (n for n in swaps(graph) if _is_convolved_last(graph, n)), graph)


def _is_convolved_last(graph: TensorGraph, n: int) -> bool:
    """Whether the second of two operands, which runs first, is made by a convolution, and the first one is not."""
    first, second = (_find_maker(graph, i) for i in graph.nodes[n].inputs)
    return second in _CONVOLUTIONS and first not in _CONVOLUTIONS


def _find_maker(graph: TensorGraph, n: int) -> str:
    """Returns the operator that makes a value, before RESCALEs and RESHAPEs."""
    while graph.nodes[n].op in ("rescale", "reshape"):
        (n,) = graph.nodes[n].inputs
    return graph.nodes[n].op


def in_parts(graph: TensorGraph, copies: Sequence[Copy] = ()) -> tuple[TensorGraph, dict[int, int]]:
    """Returns the graph with its slices of channels taken of weights, and {node: node of the given graph}.

    Pointwise operators may lie between a convolution and a slice; without such a slice it is the graph itself.
    copies: the remedies without which Vela would compile graphs wrongly.
    """
    parts, products = Parts(graph), _products(graph)
    sliced = (n for n in graph.live() if _cuts_channels(graph, n, products))
    cuts = {n: partial(_write, parts, n, region) for n in sliced if (region := _region(graph, n, products))}
    if not cuts:
        return graph, {}
    written = graph.rewrite(cuts)
    out = written.graph.rewrite()  # without what only the slices read
    return with_needed_copies(out.graph, {n: written.source[k] for n, k in out.source.items()}, copies)


def _cuts_channels(graph: TensorGraph, n: int, products: Collection[int]) -> bool:
    """Whether a node is a slice of channels only, of one of the products."""
    node = graph.nodes[n]
    if node.op != "slice" or node.attr("size")[:-1] != graph.nodes[node.inputs[0]].shape[:-1]:
        return False
    return node.inputs[0] in products


def _products(graph: TensorGraph) -> set[int]:
    """Returns the convolutions by constants, and the pointwise operators and RESHAPEs that are computed of one."""
    found = set[int]()
    for n in graph.live():
        node = graph.nodes[n]
        if node.op == "conv2d":
            is_one = all(graph.nodes[i].op == "const" for i in node.inputs[1:])
        else:
            is_one = (node.op in _POINTWISE or node.op == "reshape") and not found.isdisjoint(node.inputs)
        if is_one:
            found.add(n)
    return found


def _region(graph: TensorGraph, cut: int, products: Collection[int]) -> Region | None:
    """Returns what is computed in parts for a slice of a product, None if not all of it can be.

    That is products, and what leads to other operands of their sums without computing INT8.
    """
    target, axis = graph.nodes[cut].inputs[0], len(graph.nodes[cut].shape) - 1

    def is_in_parts(n: int) -> bool:
        node = graph.nodes[n]
        if node.op == "reshape":
            return graph.nodes[node.inputs[0]].shape[-1] == node.shape[-1]
        return n in products or node.op in _POINTWISE and node.dtype != "INT8"

    found, stack = {target}, [target]
    while stack:
        n = stack.pop()
        inner = () if graph.nodes[n].op == "conv2d" else [i for i in graph.nodes[n].inputs if is_in_parts(i)]
        stack += [i for i in inner if i not in found]
        found.update(inner)
    region = Region(target, tuple(sorted(found)), axis)
    return region if find_needed(graph, region, *_channels(graph, cut)) is not None else None


def _channels(graph: TensorGraph, cut: int) -> tuple[int, int]:
    """Returns the first channel that a slice takes, and the one behind the last."""
    start = graph.nodes[cut].attr("start")[-1]
    return start, start + graph.nodes[cut].shape[-1]


def _write(parts: Parts, cut: int, region: Region, out: Rewritten) -> int:
    """Writes a slice of channels, and returns its node."""
    return parts.write(region, *_channels(parts.graph, cut), out)
