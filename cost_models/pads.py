"""Stand-ins for the surroundings of a part of a graph that Vela compiles by itself."""

from __future__ import annotations

from eqsat.tensor import makers
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import Type


def has_pad(tensor: Type) -> bool:
    """Whether a tensor can be cut: CLAMP takes its dtype."""
    return DType.of(tensor.dtype).is_activation


def add_pad(graph: TensorGraph, x: int, cut: int) -> int:
    """Adds a CLAMP that Vela cannot recognise as a no-op, and returns its node.

    cut: subtracted from the dtype's limit; it makes two pads of one tensor differ.
    """
    dtype = graph.nodes[x].dtype
    return graph.add_with("clamp", [x], makers.clamp(dtype, high=DType.of(dtype).limits[1] - cut))


def add_stop(graph: TensorGraph, x: int) -> int:
    """Adds a movement of `x` that ends Vela's reordering of reshapes before transposes.

    `windows.reordered` describes the reordering.
    Returns its node, or x itself if it has too few elements.
    """
    elements = graph.type(x).elements
    first = next((d for d in (2, 3, 5, 7, 11, 13) if elements % d == 0 and elements > d), None)
    if first is None:
        return x
    y = graph.add("reshape", [x], shape=(1, first, elements // first))
    return graph.add(
        "transpose", [graph.add("reshape", [y], shape=(1, 1, first, elements // first))], perms=(0, 1, 3, 2)
    )
