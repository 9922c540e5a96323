"""Finds the places of Vela's defects (`defects.py`) in a graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

from eqsat.tensor.graph import Node, TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tensor.ops.pointwise import DOUBLE_ROUND
from eqsat.tensor.types import Attrs, DType, Shape, Type

# RESCALEs that Vela 5.2 fuses, for U55 and U65, into the operator whose result they scale.
# It lowers the others from INT32 to products with their factors.
# Source: `FuseRescale` and `RewriteRescale` in `ethosu/regor/compiler/graphir_optimiser.cpp`, `SupportsQuantization` in
# `ethosu/regor/architecture/ethosu55/ethos_u55_constraints.cpp`.

#: Operators that scale their results by a factor per channel.
_PER_CHANNEL = ("conv2d", "depthwise_conv2d")
#: Operators that scale their results by one factor.
_BY_ONE_FACTOR = ("reduce_sum", "matmul")
#: Elementwise operators that scale their results by one factor, a power of two where an operand is INT32.
_ELEMENTWISE = ("add", "sub", "mul", "abs")
#: Elementwise operators that do not scale their results.
_UNSCALED = ("maximum", "minimum")
#: A multiplier and the shift to the right that follows.
Factor = tuple[int, int]
#: Type of the operands of a sum by the larger one of their two factors, as the sum has it.
_OF_LARGER: dict[Factor, str] = {(1 << 19, 0): "INT8", (1 << 14, 0): "INT16"}


def is_fused(graph: TensorGraph, readers: Mapping[int, Sequence[int]], n: int) -> bool:
    """Whether Vela fuses a RESCALE from or to INT32 into the operator whose result it scales."""
    made = _only_read(graph, readers, graph.nodes[n].inputs[0])
    if made is None:
        return False
    op, factors = graph.nodes[made].op, _factors(graph.nodes[n])
    if op in _PER_CHANNEL:
        return True
    if op in _UNSCALED:
        return factors == [(1, 0)]
    if len(factors) > 1:
        return False
    return op in _BY_ONE_FACTOR or op in _ELEMENTWISE and (factors[0][0] == 1 or _reads_narrow(graph, readers, made))


def _only_read(graph: TensorGraph, readers: Mapping[int, Sequence[int]], n: int) -> int | None:
    """Returns the first node upwards that is no RESHAPE, None if one up to it is an output or has several readers."""
    while len(readers[n]) == 1 and n not in graph.outputs:
        if graph.nodes[n].op != "reshape":
            return n
        n = graph.nodes[n].inputs[0]
    return None


def _reads_narrow(graph: TensorGraph, readers: Mapping[int, Sequence[int]], n: int) -> bool:
    """Whether Vela fuses the RESCALEs to INT32 of all operands of an elementwise operator into it."""
    node = graph.nodes[n]
    dtypes, factors = _read_scaled_operands(graph, readers, n)
    if len(factors) != len(node.inputs) or any(DType.of(d).is_wide for d in dtypes):
        return False
    if node.op not in ("add", "sub"):
        return all(f == (1, 0) for f in factors)
    larger = max(factors, key=lambda f: f[0] * 2.0 ** -f[1])
    return _are_integers(factors) or factors[0] != factors[1] and dtypes == {_OF_LARGER.get(larger)}


def _read_scaled_operands(
    graph: TensorGraph, readers: Mapping[int, Sequence[int]], n: int
) -> tuple[set[str], list[Factor]]:
    """Returns (types read, factors) of an operator's RESCALEs; empty if an operand is none that it alone reads."""
    read = [graph.nodes[k] for i in graph.nodes[n].inputs if (k := _only_read(graph, readers, i)) is not None]
    if len(read) < len(graph.nodes[n].inputs) or any(r.op != "rescale" for r in read):
        return set(), []
    return {graph.type(r.inputs[0]).dtype for r in read}, [f for r in read for f in _factors(r)]


def _are_integers(factors: Sequence[Factor]) -> bool:
    """Whether factors are integers that fit in 16 bits with their sign."""
    return all(shift == 0 and m < 1 << 15 for m, shift in factors)


def _factors(rescale: Node) -> list[Factor]:
    """Returns the factors of a RESCALE, reduced, except those that round twice."""
    factors = []
    for m, shift in zip(rescale.attr("multiplier"), rescale.attr("shift"), strict=True):
        if rescale.attr("rounding_mode") != DOUBLE_ROUND or shift <= 31:
            while m % 2 == 0 and shift > 0:
                m, shift = m // 2, shift - 1
        factors.append((m, shift))
    return factors


#: Nodes, each of which reads the one before.
Place = tuple[int, ...]
#: A function that yields the places of a defect in a graph.
Places = Callable[[TensorGraph], Iterator[Place]]
#: Operators after which Vela lets readers of an activation begin too early (`too_early_behind_an_activation`).
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
    """Yields wanted operators whose result, or a RESCALE of it, a CLAMP or a TABLE reads."""
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
    for n in (n for n in readers if graph.nodes[n].op == "rescale" and is_fused(graph, readers, n)):
        made = _only_read(graph, readers, graph.nodes[n].inputs[0])
        if made is not None and graph.nodes[made].op in ("add", "sub"):
            _, factors = _read_scaled_operands(graph, readers, made)
            if _are_integers(factors) and len(set(factors)) > 1:
                yield (n,)


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
    """Yields operators, each with the SLICE that is its first operand, and the RESHAPEs between."""
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
    """Yields RESCALEs from or to INT32 that do not fuse, each with its only reader: a CONCAT or PAD that moves it."""
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
    """Yields the paths from a node to SLICEs of its channels; after a RESHAPE, to those that cut nothing else."""
    shape = graph.nodes[n].shape
    for r in readers[n]:
        part = graph.nodes[r]
        if part.op == "reshape" and part.shape[-1:] == shape[-1:]:
            yield from ((r, *path) for path in _to_slices(graph, readers, r, True))
        elif part.op == "slice" and part.shape[-1] < shape[-1] and not (reshaped and part.shape[:-1] != shape[:-1]):
            yield (r,)


def early_readers(graph: TensorGraph) -> Iterator[Place]:
    """Yields TRANSPOSEs of height and width, each with a reader of the old shape; RESHAPEs may lie between."""
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
