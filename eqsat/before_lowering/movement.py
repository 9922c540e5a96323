"""Data movement of FX in the tensor language.

What an op of one operand moves is not tabulated per op.
It is run on the numbers of the operand's elements.
The result is read as a slice, a reversal, a reordering of axes and a repetition.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from eqsat.before_lowering.vocabulary import arguments, is_copy, name, operand, overload, shape_of
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.movement import Move
from eqsat.tensor.types import Array, Shape

#: Ops of one operand whose result consists of elements of the operand.
_GATHERS = frozenset(
    [
        "permute",
        "transpose",
        "swapaxes",
        "swapdims",
        "t",
        "movedim",
        "moveaxis",
        "view",
        "reshape",
        "_unsafe_view",
        "flatten",
        "unflatten",
        "unsqueeze",
        "squeeze",
        "view_as",
        "reshape_as",
        "slice",
        "narrow",
        "select",
        "expand",
        "repeat",
        "tile",
        "flip",
        "pixel_shuffle",
        "pixel_unshuffle",
        "channel_shuffle",
        "native_channel_shuffle",
    ]
)
#: Ops whose result is a list of slices of their operand, read through getitem.
_LISTS = frozenset(["split", "split_with_sizes", "chunk", "unbind", "tensor_split", "unsafe_chunk", "unsafe_split"])
#: Ops that are CONCAT in the tensor language.
_JOINS = ("cat", "concat", "stack")
#: Ops that are PAD in the tensor language.
_PADS = ("constant_pad_nd", "pad")


def is_list_of_slices(node: Node) -> bool:
    """Tells whether the node gives a list of slices of its operand."""
    return node.op == "call_function" and name(node.target) in _LISTS


def is_movement(node: Node) -> bool:
    """Tells whether the node only moves data; a getitem of a list of slices does."""
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return is_list_of_slices(operand(node))
    known = name(node.target) in {*_GATHERS, *_LISTS, *_JOINS, *_PADS}
    return overload(node.target) is not None and (known or is_copy(node))


def sources(node: Node) -> list[Node]:
    """Returns the tensors that a movement reads, in order; for a getitem the list's own operand."""
    if node.target is operator.getitem:
        return [operand(operand(node))]
    tensors = arguments(node).get("tensors")
    return list(tensors) if tensors else [operand(node)]


def move(g: TensorGraph, node: Node, xs: Sequence[int]) -> int:
    """Adds a movement on operands `xs` and returns its node.

    Raises NotImplementedError or GraphError for one that is not modelled.
    """
    if is_copy(node):
        return xs[0]
    kind = name(node.target)
    if kind in _JOINS:
        return _joined(g, xs, arguments(node), shape_of(node), kind == "stack")
    if kind in _PADS:
        return _padded(g, xs, arguments(node), shape_of(node))
    (x,) = xs
    shape = g.nodes[x].shape
    numbers = np.arange(prod(shape), dtype=np.int32).reshape(shape)
    index = _run(node, torch.from_numpy(numbers)).numpy()
    steps = list(_steps(index, shape))
    check = TensorGraph()
    y = check.add_input("x", shape, "INT32")
    for op, attrs in steps:
        x, y = g.add(op, (x,), **attrs), check.add(op, (y,), **attrs)
    check.outputs = [y]
    if not np.array_equal(check.evaluate([numbers])[0], index):
        raise NotImplementedError(f"{node.name} is no slice, reversal, reordering or repetition")
    return x


def _run(node: Node, x: torch.Tensor) -> torch.Tensor:
    """Returns the result of a movement of one operand, computed by torch."""
    if node.target is operator.getitem:
        index = node.args[1]
        assert isinstance(index, int)
        return _run(operand(node), x)[index]
    assert callable(node.target)
    # Some ops, such as view_as, read the shape of another tensor.
    args, kwargs = torch.fx.node.map_arg(
        (node.args, node.kwargs), lambda n: x if n is operand(node) else torch.empty(shape_of(n))
    )
    result: torch.Tensor = node.target(*args, **kwargs)
    return result


def _steps(index: Array, shape: Shape) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (op, attributes) of ops that may gather the flat indices `index` of a tensor of `shape`."""
    places = np.stack(np.unravel_index(index.reshape(-1), shape)) if shape else np.zeros((0, index.size), np.int64)
    start = places.min(axis=1)
    size = places.max(axis=1) - start + 1
    if tuple(size) != shape:
        yield "slice", {"start": tuple(map(int, start)), "size": tuple(map(int, size))}
    places -= start[:, None]
    for axis in np.flatnonzero((places[:, 0] == size - 1) & (size > 1)):
        yield "reverse", {"axis": int(axis)}
        places[axis] = size[axis] - 1 - places[axis]
    now = tuple(map(int, size))
    if index.size == prod(now):
        flat = np.ravel_multi_index(tuple(places), now) if now else np.zeros(1, np.int64)
        yield from _reordering(flat, now, index.shape)
        return
    aligned = (1,) * (index.ndim - len(now)) + now
    if aligned != now:
        yield "reshape", {"shape": aligned}
    yield "tile", {"multiples": tuple(n // d for n, d in zip(index.shape, aligned, strict=True))}


def _reordering(flat: Array, shape: Shape, result: Shape) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the reshapes and the transpose that give the elements `flat` of a tensor."""
    axes, done = [], 1
    while done < flat.size:
        stride = int(flat[done])
        steps = flat[::done] == np.arange(flat.size // done) * stride
        n = int(steps.argmin()) or steps.size
        axes.append((n, stride))
        done *= n
    if prod(n for n, _ in axes) != flat.size:
        raise NotImplementedError("the elements are in no order of axes")
    m = Move(shape, tuple(result), tuple(reversed(axes)))
    direct = m.direct()
    if not m.is_view and direct is not None:
        yield "transpose", {"perms": direct}
        return
    sizes, perm = m.squeezed()
    if not m.is_view:
        yield "reshape", {"shape": sizes}
        yield "transpose", {"perms": perm}
    yield "reshape", {"shape": tuple(result)}


def _joined(g: TensorGraph, xs: Sequence[int], a: Mapping[str, Any], out: Shape, stacked: bool) -> int:
    axis = a["dim"] % len(out)
    if stacked:
        one = (*out[:axis], 1, *out[axis + 1 :])
        xs = [g.add("reshape", (x,), shape=one) for x in xs]
    return g.add("concat", xs, axis=axis)


def _padded(g: TensorGraph, xs: Sequence[int], a: Mapping[str, Any], out: Shape) -> int:
    given = a["pad"]
    if min(given, default=0) < 0 or a.get("mode", "constant") != "constant":
        raise NotImplementedError("a pad that cuts or is not constant")
    pads = [0] * (2 * len(out))
    for k in range(len(given) // 2):
        d = len(out) - 1 - k
        pads[2 * d : 2 * d + 2] = given[2 * k : 2 * k + 2]
    return g.add("pad", xs, pads=tuple(pads), value=(float(a.get("value") or 0.0),))
