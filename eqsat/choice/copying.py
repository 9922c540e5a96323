"""Copies of a tensor: a depthwise convolution 1x1 with weights of one, or an ADD of zero for INT32.

In place of Vela's own copies of operands of CONCATs they take no fewer calibrated cycles.
"""

from __future__ import annotations

import numpy as np

from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import Type


def can_copy(t: Type) -> bool:
    """Whether `emit` can copy a tensor: INT32, or one image of INT8."""
    return t.dtype == "INT32" or t.dtype == "INT8" and len(t.shape) <= 4 and (1, 1, 1, 1, *t.shape)[-4] == 1


def emit(graph: TensorGraph, node: int) -> int:
    """Adds a copy of a node to a graph, and returns its node."""
    t = graph.type(node)
    if t.dtype == "INT32":
        shape = (1,) * len(t.shape)
        return graph.add("add", [node, graph.add_const(np.zeros(shape, np.int32), "INT32", shape)])
    if len(t.shape) < 4:
        copy = emit(graph, graph.add("reshape", [node], shape=(1,) * (4 - len(t.shape)) + t.shape))
        return graph.add("reshape", [copy], shape=t.shape)
    channels = t.shape[3]
    weights = graph.add_const(np.ones((1, 1, channels, 1), np.int8), "INT8")
    bias = graph.add_const(np.zeros(channels, np.int32), "INT32")
    copy = graph.add_with("depthwise_conv2d", [node, weights, bias], makers.conv("INT8"))
    return graph.add_with("rescale", [copy], makers.by_one("INT8"))
