"""Channels on which no output depends, and the graph without them.

Training for sparsity leaves filters whose weights are all zero, and channels that nothing reads.
A channel of a feature map can go if all convolutions that read it have zero weights for it, or if it is the same
number for every input, which these convolutions can add to their biases.
Pointwise operators, poolings and depthwise convolutions compute every channel by itself, so the feature maps that they
connect lose the same channels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import prod

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from eqsat.tensor.graph import Node, Rewritten, TensorGraph, Write
from eqsat.tensor.ops import OPS, evaluate_op
from eqsat.tensor.types import Array, DType, GraphError, Shape, Type, attrs_of

_CONVOLUTIONS = ("conv2d", "depthwise_conv2d")
_POOLINGS = ("max_pool2d", "avg_pool2d")

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Channels:
    """What is known of a feature map whose channels can go.

    axis: of the channels.
    constant: which of them are the same number for every input and position.
    values: these numbers, and anything for the other channels.
    """

    axis: int
    constant: Mask
    values: NDArray[np.int64]


def without_dead_channels(graph: TensorGraph) -> Rewritten | None:
    """Returns an equal graph without the channels on which no output depends, None if there are none."""
    known = _analyze(graph)
    links = nx.utils.UnionFind(known)
    for n in known:
        links.union(n, *_find_linked(graph, n, known))
    dead = {links[n]: np.ones(len(c.constant), bool) for n, c in known.items()}
    outputs, readers = set(graph.outputs), graph.readers()
    for n, channels in known.items():
        spared = [
            _find_spared(graph, reader, n, channels)
            for reader in readers[n]
            if n not in _find_linked(graph, reader, known)
        ]
        dead[links[n]] &= np.logical_and.reduce([np.full(len(channels.constant), n not in outputs), *spared])
    kept = {n: np.flatnonzero(~dead[links[n]]) if not dead[links[n]].all() else np.zeros(1, int) for n in known}
    smaller = {n: k for n, k in kept.items() if len(k) < len(known[n].constant)}
    if not smaller:
        return None
    affected = {*smaller, *(r for n in smaller for r in readers[n])}
    writes: dict[int, Write] = {n: partial(_write, graph, n, known, smaller) for n in affected}
    try:
        return graph.rewrite(writes)
    except GraphError:
        return None


# ---- what is known of channels ------------------------------------------------------------------


def _analyze(graph: TensorGraph) -> dict[int, _Channels]:
    """Returns what is known of the channels of results of convolutions, and of what follows them."""
    known: dict[int, _Channels] = {}
    for n in graph.live():
        node = graph.nodes[n]
        found = None
        if node.op in _CONVOLUTIONS and all(graph.nodes[i].op == "const" for i in node.inputs[1:]):
            found = _of_convolution(graph, node, known.get(node.inputs[0]))
        elif node.inputs and not DType.of(node.dtype).carried:
            found = _of_channels(graph, node, known)
        if found is not None:
            known[n] = found
    return known


def _of_convolution(graph: TensorGraph, node: Node, read: _Channels | None) -> _Channels | None:
    """Returns what is known of the sums of a convolution. read: what is known of the channels that it reads."""
    weights, bias = _weights(graph, node), _data(graph, node.inputs[2])
    if weights is None or bias is None or read and read.axis != 3:
        return None
    zero_point, inputs = node.attr("in_zp")[0], graph.nodes[node.inputs[0]].shape[3]
    constant = read.constant if read else np.zeros(inputs, bool)
    values = np.where(constant, read.values if read else 0, zero_point) - zero_point
    adds = np.where(_adds_one_number(node, constant, values), values, 0)
    if node.op == "conv2d":
        taps = weights.sum((1, 2))  # [outputs, inputs]
        is_constant = ~((weights != 0).any((1, 2)) & ~_adds_one_number(node, constant, values)).any(1)
        return _Channels(3, is_constant, taps @ adds + bias)
    if weights.shape[3] != 1:
        return None
    is_constant = ~(weights != 0).any((0, 1, 3)) | _adds_one_number(node, constant, values)
    return _Channels(3, is_constant, weights.sum((0, 1, 3)) * adds + bias)


def _adds_one_number(node: Node, constant: Mask, values: NDArray[np.int64]) -> Mask:
    """Returns which channels add the same number to every sum of a convolution.

    constant, values: which channels are constant, and these constants less the zero point (the value of padding).
    """
    harmless: Mask = (values == 0) | (not any(node.attr("pad")))
    return constant & harmless


def _weights(graph: TensorGraph, node: Node) -> NDArray[np.int64] | None:
    """Returns the weights of a convolution without their zero point."""
    weights = _data(graph, node.inputs[1])
    return None if weights is None else weights - node.attr("w_zp")[0]


def _data(graph: TensorGraph, n: int) -> NDArray[np.int64] | None:
    """Returns the values of a constant, None if it is none or of a dtype that numpy lacks."""
    node = graph.nodes[n]
    is_known = node.op == "const" and DType.of(node.dtype).is_integral and not DType.of(node.dtype).carried
    return node.attr("value").data.astype(np.int64) if is_known else None


def _of_channels(graph: TensorGraph, node: Node, known: Mapping[int, _Channels]) -> _Channels | None:
    """Returns what is known of the result of an operator that computes every channel by itself, None for others."""
    found = next(((i, known[i]) for i in node.inputs if i in known), None)
    axis = _axis_after(node, graph.nodes[found[0]].shape, found[1].axis) if found else None
    if found is None or axis is None:
        return None
    channels = node.shape[axis]
    constant, values = np.ones(channels, bool), []
    for i in node.inputs:
        operand = graph.nodes[i]
        if operand.op == "const":
            values.append(operand.attr("value").data)
        elif i in known and operand.shape[known[i].axis] == channels and known[i].axis == found[1].axis:
            constant = constant & known[i].constant
            values.append(_fill(operand, known[i]))
        elif operand.shape[axis] == 1:
            constant = np.zeros(channels, bool)
        else:
            return None
    if not constant.any():
        return _Channels(axis, constant, np.zeros(channels, np.int64))
    try:
        result = evaluate_op(node.op, node.attrs, values, Type(node.shape, node.dtype))
    except GraphError:
        return None
    rows = np.moveaxis(result, axis, -1).reshape(-1, channels).astype(np.int64)
    return _Channels(axis, constant & (rows == rows[0]).all(0), rows[0])


def _fill(node: Node, channels: _Channels) -> Array:
    """Returns a value of a node, whose constant channels are as they are known."""
    along = [1] * len(node.shape)
    along[channels.axis] = -1
    values = np.where(channels.constant, channels.values, 0).astype(DType.of(node.dtype).storage)
    return np.broadcast_to(values.reshape(along), node.shape)


def _axis_after(node: Node, shape: Shape, axis: int) -> int | None:
    """Returns the axis of the channels in a node's result, None if it mixes them. shape, axis: of the operand."""
    if OPS[node.op].kind == "pointwise" or node.op in _POOLINGS and axis == 3:
        return axis
    if node.op == "transpose":
        return tuple(node.attr("perms")).index(axis)
    if node.op == "reshape":
        same = (
            k for k, size in enumerate(node.shape) if size == shape[axis] and prod(node.shape[:k]) == prod(shape[:axis])
        )
        return next(same, None)
    return None


# ---- what can go ----------------------------------------------------------------------------------


def _find_linked(graph: TensorGraph, n: int, known: Mapping[int, _Channels]) -> list[int]:
    """Returns the operands that lose a channel if the result of a node does."""
    node = graph.nodes[n]
    if n not in known or node.op == "conv2d":
        return []
    channels = len(known[n].constant)
    return [i for i in node.inputs if i in known and len(known[i].constant) == channels]


def _find_spared(graph: TensorGraph, reader: int, n: int, channels: _Channels) -> Mask:
    """Returns which channels of a node a reader does without."""
    node = graph.nodes[reader]
    weights = _weights(graph, node) if node.op == "conv2d" and node.inputs[0] == n else None
    if weights is None or _data(graph, node.inputs[2]) is None or channels.axis != 3:
        return np.zeros(len(channels.constant), bool)
    unread: Mask = ~(weights != 0).any((0, 1, 2))
    return unread | _adds_one_number(node, channels.constant, channels.values - node.attr("in_zp")[0])


# ---- the smaller graph --------------------------------------------------------------------------


def _write(
    graph: TensorGraph, n: int, known: Mapping[int, _Channels], kept: Mapping[int, NDArray[np.int64]], out: Rewritten
) -> int:
    """Writes a node without the channels that go. kept: those that stay, of the nodes that lose some.

    Raises GraphError if a bias would leave its dtype.
    """
    node = graph.nodes[n]
    if node.op in _CONVOLUTIONS:
        return _write_convolution(graph, n, known, kept, out)
    operands, attrs = [out.number[i] for i in node.inputs], dict(node.attrs)
    if n not in kept:
        return out.graph.add_with(node.op, operands, node.attrs)
    axis, channels = known[n].axis, len(known[n].constant)
    for k, i in enumerate(node.inputs):
        operand = graph.nodes[i]
        if operand.op == "const" and operand.shape[axis] == channels:
            operands[k] = out.graph.add_const(operand.attr("value").data.take(kept[n], axis), operand.dtype)
    if attrs.get("per_channel") and axis == len(node.shape) - 1:
        attrs |= {name: tuple(attrs[name][c] for c in kept[n]) for name in ("multiplier", "shift")}
    if node.op == "reshape":
        attrs["shape"] = (*node.shape[:axis], len(kept[n]), *node.shape[axis + 1 :])
    return out.graph.add_with(node.op, operands, attrs_of(attrs))


def _write_convolution(
    graph: TensorGraph, n: int, known: Mapping[int, _Channels], kept: Mapping[int, NDArray[np.int64]], out: Rewritten
) -> int:
    """Writes a convolution like `_write`; its bias gets what channels that go add to its sums."""
    node, (x, w, b) = graph.nodes[n], graph.nodes[n].inputs
    weights, bias = _weights(graph, node), _data(graph, b)
    stored = graph.nodes[w].attr("value").data
    assert weights is not None and bias is not None
    if node.op == "conv2d":
        bias = np.broadcast_to(bias, len(weights))
        if x in kept:
            goes = np.setdiff1d(np.arange(weights.shape[3]), kept[x])
            read = known[x]
            adds = np.where(read.constant, read.values - node.attr("in_zp")[0], 0)[goes]
            bias, stored = bias + weights.sum((1, 2))[:, goes] @ adds, stored[..., kept[x]]
        if n in kept:
            stored, bias = stored[kept[n]], bias[kept[n]]
    else:
        stored, bias = stored[:, :, kept[n]], np.broadcast_to(bias, stored.shape[2])[kept[n]]
    low, high = DType.of(graph.nodes[b].dtype).limits
    if bias.min() < low or bias.max() > high:
        raise GraphError("a bias would leave its dtype")
    constants = out.graph.add_const(stored, graph.nodes[w].dtype), out.graph.add_const(bias, graph.nodes[b].dtype)
    return out.graph.add_with(node.op, [out.number[x], *constants], node.attrs)
