"""Products of parts, each right before the sum that reads it, where Vela chains both (U85).

The gates of a recurrent network are slices of a sum of products.
A part of a product is the product with a part of the weights.
So a gate's sum and TABLE are chained to its convolution, and the next TABLE is loaded meanwhile.
By itself one convolution of all gates takes fewer cycles, which is why prices of single operators do not lead here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce

from eqsat.choice.copies import with_needed_copies
from eqsat.search.proposal import Ask, Asking, State
from eqsat.search.proposals.orders import COMMUTATIVE, Swap, swaps, with_swap
from eqsat.tensor.graph import Rewritten, TensorGraph
from eqsat.vela.defects import Copy, remedies

#: Operators of which a part is the same operator on parts.
_POINTWISE = frozenset(("add", "sub", "mul", "clamp", "table", "rescale"))
#: Operators that Vela chains with a sum that reads their result, on U85.
_CONVOLUTIONS = ("conv2d", "depthwise_conv2d")


def chains(state: State) -> Asking:
    """Asks for convolutions before sums, in the graph as it is and with products of parts."""
    start = state.start
    if start is None or not state.target.family.chains:
        return
    graph, source = in_parts(start.graph, remedies(Copy, state.target.family))
    asked = [start.rewritten(before_sums(graph), "chains", source)] if graph is not start.graph else []
    arranged = before_sums(start.graph)
    if arranged is not start.graph:
        asked.append(start.rewritten(arranged, "chains"))
    if asked:
        yield Ask(asked)


def before_sums(graph: TensorGraph) -> TensorGraph:
    """Returns the graph with convolutions right before the sums that read them; itself if they already are."""
    return reduce(with_swap, (s for s in swaps(graph) if _is_convolved_last(graph, s)), graph)


def _is_convolved_last(graph: TensorGraph, swap: Swap) -> bool:
    """Whether the second of two operands, which runs first, is made by a convolution, and the first one is not."""
    first, second = (_made_by(graph, graph.nodes[swap.node].inputs[k]) for k in (swap.first, swap.second))
    return graph.nodes[swap.node].op in COMMUTATIVE and second in _CONVOLUTIONS and first not in _CONVOLUTIONS


def _made_by(graph: TensorGraph, n: int) -> str:
    """Returns the operator that makes a value, before RESCALEs and RESHAPEs."""
    while graph.nodes[n].op in ("rescale", "reshape"):
        (n,) = graph.nodes[n].inputs
    return graph.nodes[n].op


def in_parts(graph: TensorGraph, copies: Sequence[Copy] = ()) -> tuple[TensorGraph, dict[int, int]]:
    """Returns the graph with its slices of channels taken of weights, and {node: node of the given graph}.

    Pointwise operators may lie between a convolution and a slice.
    copies: the remedies without which Vela would compile graphs wrongly.
    Returns the graph itself if it has no such slice.
    """
    parts = _Parts(graph, _products(graph))
    cuts = {n: partial(parts.write, n) for n in graph.live() if _cuts_channels(graph, n, parts.products)}
    if not cuts:
        return graph, {}
    written = graph.rewritten(cuts)
    out = written.graph.rewritten()  # without what only the slices read
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


@dataclass(frozen=True, slots=True)
class _Parts:
    """Writes slices of channels of products, each part of a node once. made: {(node, start, end): new node}."""

    graph: TensorGraph
    products: Collection[int]
    made: dict[tuple[int, int, int], int] = field(default_factory=dict)

    def write(self, n: int, out: Rewritten) -> int:
        """Writes a slice of channels, and returns its node."""
        node = self.graph.nodes[n]
        start = node.attr("start")[-1]
        return self._part(node.inputs[0], start, start + node.shape[-1], out)

    def _part(self, n: int, start: int, end: int, out: Rewritten) -> int:
        """Writes the channels of a node from `start` up to `end`, and returns their node."""
        nodes, node, channels = self.graph.nodes, self.graph.nodes[n], slice(start, end)
        if node.shape[-1] == 1:  # it broadcasts
            return out.number[n]
        if (n, start, end) in self.made:
            return self.made[n, start, end]
        if node.op == "const":
            new = out.graph.add_const(node.attr("value").data[..., channels], node.dtype)
        elif node.op == "conv2d" and n in self.products:
            x, *constants = node.inputs
            parts = ((nodes[k], nodes[k].attr("value").data) for k in constants)
            cut = [out.graph.add_const(data[channels] if len(data) > 1 else data, k.dtype) for k, data in parts]
            new = out.graph.add_with("conv2d", [out.number[x], *cut], node.attrs)
        elif node.op in _POINTWISE and (node.dtype != "INT8" or n in self.products):
            attrs, operands = dict(node.attrs), [self._part(i, start, end, out) for i in node.inputs]
            if attrs.get("per_channel"):
                attrs |= {name: attrs[name][channels] for name in ("multiplier", "shift")}
            new = out.graph.add(node.op, operands, **attrs)
        elif node.op == "reshape" and nodes[node.inputs[0]].shape[-1] == node.shape[-1]:
            part = self._part(node.inputs[0], start, end, out)
            new = out.graph.add("reshape", [part], shape=(*node.shape[:-1], end - start))
        else:
            read, starts = n, [0] * len(node.shape)
            if node.op == "slice":  # of two in a row, Vela makes the first by a copy
                (read,), starts = node.inputs, list(node.attr("start"))
            starts[-1] += start
            size = (*node.shape[:-1], end - start)
            new = out.graph.add("slice", [out.number[read]], start=tuple(starts), size=size)
        out.source[new] = n
        self.made[n, start, end] = new
        return new
