"""Copies of a tensor: a depthwise convolution 1x1 with weights of one, or an ADD of zero for INT32.

In place of Vela's own copies of operands of CONCATs they take no fewer calibrated cycles.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import Array, Steps, Type

#: The operators of a copy.
STEPS: Steps = (("depthwise_conv2d", makers.conv("INT8")), ("rescale", makers.by_one("INT8")))


def _constants(t: Type) -> tuple[Array, Array]:
    """Returns weights of one and a zero bias."""
    return np.ones((1, 1, t.shape[3], 1), np.int8), np.zeros(t.shape[3], np.int32)


def can_copy(t: Type) -> bool:
    """Whether `emit` can copy a tensor: INT32, or one image of INT8."""
    return t.dtype == "INT32" or t.dtype == "INT8" and len(t.shape) <= 4 and (1, 1, 1, 1, *t.shape)[-4] == 1


def _with_four_axes(t: Type) -> Type:
    return replace(t, shape=(1,) * (4 - len(t.shape)) + t.shape)


def emit(graph: TensorGraph, node: int) -> int:
    """Adds a copy of a node to a graph, and returns its node."""
    t = graph.type(node)
    if t.dtype == "INT32":
        shape = (1,) * len(t.shape)
        return graph.add("add", [node, graph.add_const(np.zeros(shape, np.int32), "INT32", shape)])
    if len(t.shape) < 4:
        copy = emit(graph, graph.add("reshape", [node], shape=_with_four_axes(t).shape))
        return graph.add("reshape", [copy], shape=t.shape)
    weights, bias = _constants(graph.type(node))
    constants = graph.add_const(weights, "INT8"), graph.add_const(bias, "INT32")
    (op, attrs), (rescale, scale) = STEPS
    return graph.add_with(rescale, [graph.add_with(op, [node, *constants], attrs)], scale)
