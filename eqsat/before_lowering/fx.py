"""What an FX node does (`eqsat/executorch/nodes.py` has what it calls).

A node is data movement, pointwise, a reduction along one axis, per-tensor quantize or dequantize, or opaque.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from eqsat.executorch.nodes import (
    CASTS,
    QParams,
    arguments,
    is_dequantize,
    is_quantize,
    name,
    operand,
    overload,
    qparams,
    shape_of,
)
from eqsat.target.staging import shortest
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.movement import Move
from eqsat.tensor.ops import evaluate_op
from eqsat.tensor.types import Array, GraphError, Shape, Type, attrs_of

_REDUCTIONS = ("sum", "mean", "amax", "amin")
_JOINS, _PADS = ("cat", "concat", "stack"), ("constant_pad_nd", "pad")
#: Ops that copy elements though PyTorch does not declare a view of their operand.
_GATHERS = ("repeat", "tile", "flip", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "native_channel_shuffle")
_COPIES = ("clone", "_clone_dim_order", "dropout", "_unsafe_view", "unsafe_chunk", "unsafe_split", *CASTS)


def dtype_name(dtype: torch.dtype) -> str:
    """Returns the name of a dtype in the tensor language, such as INT8 or FP32."""
    return str(dtype).removeprefix("torch.").upper().replace("FLOAT", "FP")


def aligned(shape: Shape, rank: int) -> Shape:
    """Returns a shape with leading ones up to `rank`."""
    return (1,) * (rank - len(shape)) + shape


def dtype_of(node: Node, value: torch.Tensor | None = None) -> str:
    """Returns the dtype of a node's value in the tensor language.

    That of a quantized tensor carries its parameters after a colon.
    A tensor is quantized as the quantize that makes it, or else as the first dequantize that reads it,
    if that one accepts all integers of the dtype, or of a constant's `value`.
    """
    val = node.meta["val"]
    if not isinstance(val, torch.Tensor):
        return str(None)
    if is_quantize(node) and (made := qparams(node)):
        return quantized(made)
    for q in (q for user in node.users if is_dequantize(user) and (q := qparams(user)) and q[-1] == val.dtype):
        known = value if value is not None and value.numel() else torch.iinfo(val.dtype)
        low, high = (known.min(), known.max()) if isinstance(known, torch.Tensor) else (known.min, known.max)
        if q[2] <= low and high <= q[3]:
            return quantized(q)
    return dtype_name(val.dtype)


def quantized(q: QParams) -> str:
    """Returns the dtype of tensors with these parameters."""
    return f"{dtype_name(q[-1])}:{q}"


def reduced_axis(node: Node) -> int | None:
    """Returns the axis of a reduction along one axis with keepdim, else None."""
    if name(node.target) not in _REDUCTIONS:
        return None
    a = arguments(node)
    dims = [d] if isinstance(d := a.get("dim"), int) else d
    if not dims or len(dims) != 1 or not a.get("keepdim"):
        return None
    return int(dims[0]) % len(shape_of(a["self"]))


def is_movement(node: Node) -> bool:
    """Tells whether the node only moves data; a getitem of a list of slices does."""
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return is_list_of_slices(operand(node))
    op, kind = overload(node.target), name(node.target)
    if op is None or op.namespace not in ("aten", "dim_order_ops") or kind in (*_JOINS, *_PADS, *_GATHERS):
        return op is not None and op.namespace == "aten"
    of_views = getattr(getattr(torch.ops.aten, kind, None), op._overloadname, op)
    if kind not in _COPIES and not any(r.alias_info and not r.alias_info.is_write for r in of_views._schema.returns):
        return False
    a = arguments(node)
    dense = a.get("memory_format") in (None, 0, torch.contiguous_format, torch.preserve_format)
    dense = dense and list(a.get("dim_order") or ()) == sorted(a.get("dim_order") or ())
    dtypes = {v.dtype for n in (node, operand(node)) for v in torch.utils._pytree.tree_leaves(n.meta["val"])}
    return dense and not a.get("train") and len(dtypes) == 1 and not dtypes.pop().is_complex


def is_list_of_slices(node: Node) -> bool:
    """Tells whether the node gives a list of slices of its operand, read through getitem."""
    return isinstance(node.meta.get("val"), list | tuple) and is_movement(node)


def sources(node: Node) -> list[Node]:
    """Returns the tensors that a movement reads, in order; for a getitem the list's own operand."""
    if node.target is operator.getitem:
        return [operand(operand(node))]
    tensors = arguments(node).get("tensors")
    return list(tensors) if tensors else [operand(node)]


def move(g: TensorGraph, node: Node, xs: Sequence[int]) -> int:
    """Adds a movement on operands `xs` and returns its node.

    An op of one operand is run on the numbers of the operand's elements.
    The result is read as a slice, a reversal, a reordering of axes and a repetition.
    Raises ValueError for other movements, and what torch raises for those of other values than numbers.
    """
    kind, out = name(node.target), shape_of(node)
    if kind in _JOINS:
        axis = arguments(node)["dim"] % len(out)
        one = (*out[:axis], 1, *out[axis + 1 :])
        return g.add("concat", [g.add("reshape", (x,), shape=one) for x in xs] if kind == "stack" else xs, axis=axis)
    if kind in _PADS:
        a = arguments(node)
        if a.get("mode", "constant") != "constant":
            raise GraphError(f"{node.name} pads with elements of its operand")
        pads = np.reshape([*a["pad"], *[0] * (2 * len(out) - len(a["pad"]))], (-1, 2))[::-1]  # FX begins with the last
        return g.add("pad", xs, pads=tuple(pads.ravel().tolist()), value=(float(a.get("value") or 0.0),))
    (x,) = xs
    shape = g.nodes[x].shape
    moved = np.arange(prod(shape), dtype=np.int32).reshape(shape)
    index = _run(node, torch.from_numpy(moved)).to(torch.int32).numpy()
    for op, attrs in _steps(index, shape):
        x = g.add_with(op, (x,), attrs)
        moved = evaluate_op(op, attrs, [moved], Type(g.nodes[x].shape, "INT32"))
    if not np.array_equal(moved, index):
        raise GraphError(f"{node.name} is no slice, reversal, reordering or repetition")
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


def _steps(index: Array, shape: Shape) -> Iterator[tuple[str, Any]]:
    """Yields (op, attributes) of ops that may gather the flat indices `index` of a tensor of `shape`."""
    places = np.stack(np.unravel_index(index.reshape(-1), shape)) if shape else np.zeros((0, index.size), np.int64)
    start = places.min(axis=1)
    size = places.max(axis=1) - start + 1
    if tuple(size) != shape:
        yield "slice", attrs_of({"start": tuple(map(int, start)), "size": tuple(map(int, size))})
    places -= start[:, None]
    for axis in np.flatnonzero((places[:, 0] == size - 1) & (size > 1)):
        yield "reverse", attrs_of({"axis": int(axis)})
        places[axis] = size[axis] - 1 - places[axis]
    now = tuple(map(int, size))
    if index.size == prod(now):
        flat = np.ravel_multi_index(tuple(places), now) if now else np.zeros(1, np.int64)
        reordering = Move.of(now, flat.reshape(index.shape))
        yield from shortest(reordering) if reordering else ()
        return
    grown = aligned(now, index.ndim)
    if grown != now:
        yield "reshape", attrs_of({"shape": grown})
    yield "tile", attrs_of({"multiples": tuple(n // d for n, d in zip(index.shape, grown, strict=True))})
