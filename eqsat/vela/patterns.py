"""Places of the defects in a graph for which `defects.py` has a remedy.

A place is nodes of which each reads the one before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import Node, TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Attrs, Shape, Type
from eqsat.vela.fused import is_fused, sums_unlike_integers

#: Nodes of which each reads the one before.
Place = tuple[int, ...]
#: A function that yields the places of a defect in a graph.
Places = Callable[[TensorGraph], Iterator[Place]]
#: Operators behind which Vela lets readers of an activation begin too early (`too_early_behind_an_activation`).
TURNING = ("transpose", "reverse")
#: Activations that Vela fuses into the operator before.
ACTIVATIONS = ("clamp", "table")
#: The largest stride of a convolution that Vela does not cut.
LARGEST_STRIDE = 3


class Operator(NamedTuple):
    """An operator by itself, in a graph or as a candidate."""

    op: str
    attrs: Attrs
    operands: tuple[Type, ...]
    result: Type

    @staticmethod
    def of(graph: TensorGraph, n: int) -> Operator:
        node = graph.nodes[n]
        return Operator(node.op, node.attrs, tuple(graph.type(i) for i in node.inputs), graph.type(n))


def is_pointwise_of_images(o: Operator) -> bool:
    """Whether it is a 1x1 CONV2D of several images without strides or padding."""
    if o.op != "conv2d" or o.operands[0].shape[0] == 1:
        return False
    attrs = dict(o.attrs)
    return o.operands[1].shape[1:3] == attrs["stride"] == (1, 1) and not any(attrs["pad"])


def is_reduction_of_images(o: Operator) -> bool:
    """Whether it is a sum or an extremum within each of several images."""
    return o.op in ("reduce_max", "reduce_min", "reduce_sum") and math.prod(o.result.shape[:-3]) > 1


def find_activated(graph: TensorGraph, wanted: Callable[[Operator], bool]) -> Iterator[Place]:
    """Yields wanted operators with a CLAMP or a TABLE behind them, or behind their RESCALE."""
    readers = graph.readers()
    for n in (n for n in readers if wanted(Operator.of(graph, n))):
        behind = [r for q in readers[n] for r in (q, *(readers[q] if graph.nodes[q].op == "rescale" else ()))]
        if any(graph.nodes[r].op in ACTIVATIONS for r in behind):
            yield (n,)


def is_wide_rescale(o: Operator) -> bool:
    """Whether it is a RESCALE from INT32 to INT32."""
    return o.op == "rescale" and all(DType.of(t.dtype).is_wide for t in (o.operands[0], o.result))


def wide_rescales(graph: TensorGraph) -> Iterator[Place]:
    """Yields RESCALEs from INT32 to INT32."""
    return ((n,) for n in graph.live() if is_wide_rescale(Operator.of(graph, n)))


def shared_rescales(graph: TensorGraph) -> Iterator[Place]:
    """Yields RESCALEs to INT32 that several operators read."""
    for n, reading in graph.readers().items():
        if graph.nodes[n].op == "rescale" and graph.nodes[n].dtype == "INT32" and len(reading) > 1:
            yield (n,)


def sums_of_unlike_integers(graph: TensorGraph) -> Iterator[Place]:
    """Yields RESCALEs that Vela fuses into a sum or difference of two RESCALEs by different integers."""
    readers = graph.readers()
    rescales = (n for n in readers if graph.nodes[n].op == "rescale")
    return ((n,) for n in rescales if sums_unlike_integers(graph, readers, n))


def equal_weights(graph: TensorGraph) -> Iterator[Place]:
    """Yields the first operator with weights that differs from another one only in its biases.

    Vela finds encoded weights again by weights and scales, without biases.
    """
    readers, biases = graph.readers(), dict[tuple[Hashable, ...], Hashable]()
    for n, reading in readers.items():
        node = graph.nodes[n]
        if OPS[node.op].kind != "mac" or len(node.inputs) < 3:
            continue
        weights, bias = (graph.nodes[i] for i in node.inputs[1:3])
        if weights.op == bias.op == "const" and len(reading) == 1 and graph.nodes[reading[0]].op == "rescale":
            key = (node.op, weights.shape, weights.attrs, _scales(graph.nodes[reading[0]]))
            if biases.setdefault(key, bias.attrs) != bias.attrs:
                yield (n,)
                return


def lost_outputs(graph: TensorGraph) -> Iterator[Place]:
    """Yields outputs that are a TRANSPOSE or RESHAPE and that only TRANSPOSEs read, like a cache of keys."""
    readers = graph.readers()
    for o in set(graph.outputs):
        read_by = {graph.nodes[r].op for r in readers[o]}
        if graph.nodes[o].op in ("transpose", "reshape") and read_by == {"transpose"}:
            yield (o,)


def sums_of_slices(graph: TensorGraph) -> Iterator[Place]:
    """Yields REDUCE_SUMs along the last axis, from the SLICE that they read.

    A RESCALE between multiplies by one, as ExecuTorch widens operands; with another factor it does not fuse.
    """
    for n in graph.live():
        node = graph.nodes[n]
        if node.op == "reduce_sum" and node.attr("axis") == len(node.shape) - 1:
            place = _from_slice(graph, n, ("reshape", "rescale"))
            if all(s == 1.0 for k in place if graph.nodes[k].op == "rescale" for s in _scales(graph.nodes[k])):
                yield from filter(None, (place,))


def readers_of_slices(graph: TensorGraph, ops: tuple[str, ...]) -> Iterator[Place]:
    """Yields operators from the SLICE on that is their first operand; RESHAPEs may lie between."""
    readers = (n for n in graph.live() if graph.nodes[n].op in ops)
    return filter(None, (_from_slice(graph, n, ("reshape",)) for n in readers))


def narrow_rescales_of_slices(graph: TensorGraph) -> Iterator[Place]:
    """Yields RESCALEs from INT32 to fewer bits, with the SLICE that they read."""
    for n in graph.live():
        node = graph.nodes[n]
        if node.op == "rescale" and not DType.of(node.dtype).is_wide:
            above = graph.nodes[node.inputs[0]]
            if above.op == "slice" and above.dtype == "INT32":
                yield node.inputs[0], n


def misplaced_rescales(graph: TensorGraph) -> Iterator[Place]:
    """Yields RESCALEs from or to INT32 that do not fuse, with the CONCAT or PAD that alone has each, not in front."""
    readers = graph.readers()
    for n, reading in readers.items():
        node = graph.nodes[n]
        if node.op != "rescale" or "INT32" not in (graph.type(node.inputs[0]).dtype, node.dtype):
            continue
        alone = len(reading) == 1 and n not in graph.outputs
        if alone and _is_moved(graph.nodes[reading[0]], n) and not is_fused(graph, readers, n):
            yield n, reading[0]


def _is_moved(reader: Node, n: int) -> bool:
    """Whether a CONCAT or a PAD has an operand elsewhere than at the beginning."""
    return reader.op == "concat" and reader.inputs[0] != n or reader.op == "pad" and any(reader.attr("pads")[::2])


def sliced_channel_scales(graph: TensorGraph) -> Iterator[Place]:
    """Yields RESCALEs with a factor per channel, each with a SLICE of its channels.

    RESHAPEs that keep the channels may lie between, if the SLICE cuts nothing else.
    RESCALEs of results of convolutions are left out.
    """
    readers = graph.readers()
    for n in readers:
        node = graph.nodes[n]
        per_channel = node.op == "rescale" and len(node.attr("multiplier")) > 1
        if per_channel and OPS[graph.nodes[node.inputs[0]].op].kind != "mac":
            yield from ((n, *path) for path in _to_slices(graph, readers, n, False))


def _to_slices(graph: TensorGraph, readers: Mapping[int, Sequence[int]], n: int, reshaped: bool) -> Iterator[Place]:
    """Yields the paths from a node to SLICEs of its channels; behind a RESHAPE, to those that cut nothing else."""
    shape = graph.nodes[n].shape
    for r in readers[n]:
        part = graph.nodes[r]
        if part.op == "reshape" and part.shape[-1:] == shape[-1:]:
            yield from ((r, *path) for path in _to_slices(graph, readers, r, True))
        elif part.op == "slice" and part.shape[-1] < shape[-1] and not (reshaped and part.shape[:-1] != shape[:-1]):
            yield (r,)


def early_readers(graph: TensorGraph) -> Iterator[Place]:
    """Yields TRANSPOSEs of height and width, with readers of the shape from before; RESHAPEs may lie between."""
    readers = graph.readers()
    for n in readers:
        node = graph.nodes[n]
        if node.op == "transpose" and len(node.shape) > 2:
            *outer, y, x, c = range(len(node.shape))
            before = graph.type(node.inputs[0]).shape
            if node.attr("perms") == (*outer, x, y, c) and math.prod(before[:-3]) == 1:
                yield from ((n, r) for r in _reading_as(graph, readers, n, before))


def _reading_as(graph: TensorGraph, readers: Mapping[int, Sequence[int]], n: int, shape: Shape) -> Iterator[int]:
    """Yields the operators that read `n`, or a RESHAPE of it, with the last three axes of a shape."""
    same = (1, 1, *graph.nodes[n].shape)[-3:] == (1, 1, *shape)[-3:]
    for r in readers[n]:
        if graph.nodes[r].op == "reshape":
            yield from _reading_as(graph, readers, r, shape)
        elif same:
            yield r


def activated_turns(graph: TensorGraph) -> Iterator[Place]:
    """Yields TRANSPOSEs and REVERSEs, each with the CLAMP or TABLE that alone reads it."""
    for n, reading in graph.readers().items():
        if graph.nodes[n].op in TURNING and [graph.nodes[r].op in ACTIVATIONS for r in reading] == [True]:
            yield n, *reading


def strided_convolutions_of_slices(graph: TensorGraph) -> Iterator[Place]:
    """Yields convolutions with padding and a stride above 3, each with the SLICE that it reads."""
    for n in (n for n in graph.live() if graph.nodes[n].op in ("conv2d", "depthwise_conv2d")):
        node, operand = graph.nodes[n], graph.nodes[n].inputs[0]
        if graph.nodes[operand].op == "slice" and max(node.attr("stride")) > LARGEST_STRIDE and any(node.attr("pad")):
            yield operand, n


def _from_slice(graph: TensorGraph, n: int, between: tuple[str, ...]) -> Place:
    """Returns the nodes from a SLICE by way of ops in `between` to the operator `n` that reads it, () if none."""
    place: Place = (graph.nodes[n].inputs[0], n)
    while graph.nodes[place[0]].op in between:
        place = (graph.nodes[place[0]].inputs[0], *place)
    return place if graph.nodes[place[0]].op == "slice" else ()


def _scales(rescale: Node) -> tuple[float, ...]:
    """Returns the factors of a RESCALE, which are exact: multipliers are below 2**31."""
    return tuple(m * 2.0**-s for m, s in zip(rescale.attr("multiplier"), rescale.attr("shift"), strict=True))
