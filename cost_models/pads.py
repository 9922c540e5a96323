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
