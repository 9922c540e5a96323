"""Copies: a depthwise convolution of an operand of a CONCAT, or an ADD of zero for INT32.

Vela writes an operand of a CONCAT in place if an operator computes it and nothing else reads it.
Otherwise, and if the operand is a view, Vela copies it.
Its estimate has the copy as a pooling: 0.5 to 1 cycle per element.
A depthwise convolution 1x1 with weights of one has equal results, and is written in place.
For large tensors it takes a half to a fifth of these cycles.
Vela's copies are known only after compilation, so compiled graphs are rewritten (`eqsat/search/proposals/copies.py`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cost_models.protocol import Unit
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import infer
from eqsat.tensor.types import Array, Const, Steps, Type

#: The operators of a copy.
STEPS: Steps = (("depthwise_conv2d", makers.conv("INT8")), ("rescale", makers.by_one("INT8")))


def unit_of(t: Type) -> Unit | None:
    """Returns the convolution that copies a tensor.

    Returns None unless the tensor is one image of INT8.
    """
    if t.dtype != "INT8" or len(t.shape) != 4 or t.shape[0] != 1:
        return None
    weights, bias = _constants(t)
    operands = (t, Type(weights.shape, "INT8"), Type(bias.shape, "INT32"))
    constants = (None, Const(weights, "INT8"), Const(bias, "INT32"))
    op, attrs = STEPS[0]
    return Unit(STEPS[:1], operands, infer(op, attrs, operands), constants)


def _constants(t: Type) -> tuple[Array, Array]:
    """Returns weights of one and a zero bias."""
    return np.ones((1, 1, t.shape[3], 1), np.int8), np.zeros(t.shape[3], np.int32)


def can_copy(t: Type) -> bool:
    """Whether `emit` can copy a tensor."""
    return t.dtype == "INT32" or unit_of(_with_four_axes(t)) is not None


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
