"""RESCALEs that Vela for U55 and U65 fuses into the operator whose result they scale (5.2).

Vela lowers the others from INT32 to products with their factors.
Source: `FuseRescale` and `RewriteRescale` in `ethosu/regor/compiler/graphir_optimiser.cpp`, `SupportsQuantization` in
`ethosu/regor/architecture/ethosu55/ethos_u55_constraints.cpp`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import Node, TensorGraph
from eqsat.tensor.ops.rescale import DOUBLE_ROUND

#: Operators that scale their results by a factor per channel.
_PER_CHANNEL = ("conv2d", "depthwise_conv2d")
#: Operators that scale their results by one factor.
_BY_ONE_FACTOR = ("reduce_sum", "matmul")
#: Elementwise operators that scale their results by one factor, a power of two where an operand is INT32.
_ELEMENTWISE = ("add", "sub", "mul", "abs")
#: Elementwise operators that do not scale their results.
_UNSCALED = ("maximum", "minimum")
#: A multiplier and the shift to the right behind it.
Factor = tuple[int, int]
#: Type of the operands of a sum by the larger one of their two factors, as the sum has it.
_OF_LARGER: dict[Factor, str] = {(1 << 19, 0): "INT8", (1 << 14, 0): "INT16"}


def is_fused(graph: TensorGraph, readers: Mapping[int, Sequence[int]], n: int) -> bool:
    """Whether Vela fuses a RESCALE from or to INT32 into the operator whose result it scales.

    readers: those of all nodes of the graph.
    """
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


def sums_unlike_integers(graph: TensorGraph, readers: Mapping[int, Sequence[int]], n: int) -> bool:
    """Whether Vela fuses a RESCALE into a sum or difference of two RESCALEs by different integers."""
    made = _only_read(graph, readers, graph.nodes[n].inputs[0])
    if made is None or graph.nodes[made].op not in ("add", "sub") or not is_fused(graph, readers, n):
        return False
    factors = _read_scaled_operands(graph, readers, made)[1]
    return _are_integers(factors) and len(set(factors)) > 1


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
    """Whether factors are integers that have room in 16 bits with their sign."""
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
