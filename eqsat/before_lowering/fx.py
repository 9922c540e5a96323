"""What an FX node does (`eqsat/executorch/nodes.py` has what it calls).

A node is data movement, pointwise, a reduction along one axis, per-tensor quantize or dequantize, or opaque.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from eqsat.executorch.nodes import is_dequantize, is_quantize, name, overload
from eqsat.target import staging
from eqsat.tensor.graph import Node as TensorNode
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.movement import Move
from eqsat.tensor.ops import evaluate_op
from eqsat.tensor.types import Array, GraphError, Shape, Steps, Type, attrs_of

_REDUCTIONS = ("sum", "mean", "amax", "amin")
#: Pointwise ops that lack PyTorch's tag.
_CASTS, _POINTWISE = ("to", "type_as"), ("hardswish",)
_JOINS, _PADS = ("cat", "concat", "stack"), ("constant_pad_nd", "pad")
#: Ops that copy elements though PyTorch does not declare a view of their operand.
_GATHERS = ("repeat", "tile", "flip", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "native_channel_shuffle")
_COPIES = ("clone", "_clone_dim_order", "dropout", "_unsafe_view", "unsafe_chunk", "unsafe_split", *_CASTS)

#: Arguments of per-tensor quantize and dequantize after the tensor: scale, zero point, limits, dtype.
QParams = tuple[float, int, int, int, torch.dtype]


def dtype_name(dtype: torch.dtype) -> str:
    """Returns the name of a dtype in the tensor language, such as INT8 or FP32."""
    return str(dtype).removeprefix("torch.").upper().replace("FLOAT", "FP")


def arguments(node: Node) -> dict[str, Any]:
    """Returns the arguments by the names of the schema, with defaults."""
    schema = overload(node.target)._schema.arguments
    out = {a.name: a.default_value for a in schema if a.has_default_value()}
    return {**out, **{a.name: v for a, v in zip(schema, node.args, strict=False)}, **node.kwargs}


def operand(node: Node) -> Node:
    """Returns the first argument of a node, which must be a node."""
    found = node.args[0]
    assert isinstance(found, Node), f"the first argument of {node.name} is no value of the graph"
    return found


def shape_of(node: Node) -> Shape:
    """Returns the shape of a node's tensor; () for a list of tensors."""
    val = node.meta["val"]
    return tuple(val.shape) if isinstance(val, torch.Tensor) else ()


def aligned(shape: Shape, rank: int) -> Shape:
    """Returns a shape with leading ones up to `rank`."""
    return (1,) * (rank - len(shape)) + shape


def qparams(node: Node) -> QParams | None:
    """Returns the parameters of a quantize or dequantize, or None if the node has no constant ones."""
    a = arguments(node) if is_quantize(node) or is_dequantize(node) else {}
    numbers: list[Any] = [a.get(k) for k in ("scale", "zero_point", "quant_min", "quant_max")]
    if a.get("out_dtype") not in (None, torch.float32) or not all(isinstance(v, (int, float)) for v in numbers):
        return None
    scale, zero, low, high = numbers
    return float(scale), int(zero), int(low), int(high), a["dtype"]


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


def is_pointwise(node: Node) -> bool:
    """Tells whether each result element depends on the operands' elements at its position alone.

    Operands broadcast.
    """
    op = overload(node.target)
    if is_quantize(node) or is_dequantize(node):
        return qparams(node) is not None
    if op is None or op.namespace != "aten" or not isinstance(node.meta["val"], torch.Tensor):
        return False
    is_cast = name(node.target) in _CASTS and len(node.all_input_nodes) == 1
    return torch.Tag.pointwise in op.tags or name(node.target) in _POINTWISE or is_cast


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

    What an op of one operand moves is not tabulated per op.
    It is run on the numbers of the operand's elements.
    The result is read as a slice, a reversal, a reordering of axes and a repetition.
    Raises GraphError for other movements.
    """
    kind, out = name(node.target), shape_of(node)
    if kind in _JOINS:
        axis = arguments(node)["dim"] % len(out)
        one = (*out[:axis], 1, *out[axis + 1 :])
        return g.add("concat", [g.add("reshape", (x,), shape=one) for x in xs] if kind == "stack" else xs, axis=axis)
    if kind in _PADS:
        return g.add("pad", xs, **_padding(arguments(node), len(out)))
    (x,) = xs
    shape = g.nodes[x].shape
    moved = np.arange(prod(shape), dtype=np.int32).reshape(shape)
    try:
        index = _run(node, torch.from_numpy(moved)).to(torch.int32).numpy()
        steps = list(_steps(index, shape))
    except (RuntimeError, ValueError) as e:
        raise GraphError(f"{node.name} moves no numbers: {e}") from e
    for op, attrs in steps:
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
        yield from _reordering(flat, now, index.shape)
        return
    grown = aligned(now, index.ndim)
    if grown != now:
        yield "reshape", attrs_of({"shape": grown})
    yield "tile", attrs_of({"multiples": tuple(n // d for n, d in zip(index.shape, grown, strict=True))})


def _reordering(flat: Array, shape: Shape, result: Shape) -> Steps:
    """Returns the reshapes and the transpose that give the elements `flat` of a tensor."""
    axes, done = [], 1
    while done < flat.size:
        stride = int(flat[done])
        steps = flat[::done] == np.arange(flat.size // done) * stride
        n = int(steps.argmin()) or steps.size
        axes.append((n, stride))
        done *= n
    if prod(n for n, _ in axes) != flat.size:
        raise GraphError("the elements are in no order of axes")
    return shortest(Move(shape, tuple(result), tuple(reversed(axes))))


def shortest(m: Move) -> Steps:
    """Returns the fewest reshapes and transposes that move as `m` does."""
    if not m.is_view and (direct := m.direct()) is not None:
        return (("transpose", attrs_of({"perms": direct})),)
    return staging.written(m, () if m.is_view else (m.squeezed(),))


def written(node: TensorNode, shape: Shape) -> list[tuple[Any, ...]]:
    """Returns the ATen ops, each with its arguments, that move a tensor of `shape` as a node of the tensor language.

    Raises GraphError for an op that is no movement.
    """
    if node.op not in _WRITTEN:
        raise GraphError(f"{node.op} has no form in FX")
    return _WRITTEN[node.op](node, shape)


def _cuts(node: TensorNode, shape: Shape) -> list[tuple[Any, ...]]:
    """Returns a slice for each axis that a SLICE cuts."""
    parts = zip(node.attr("start"), node.attr("size"), shape, strict=True)
    return [("slice", d, start, start + n) for d, (start, n, whole) in enumerate(parts) if n != whole]


def _repetition(node: TensorNode, shape: Shape) -> list[tuple[Any, ...]]:
    multiples = list(node.attr("multiples"))
    grows = all(1 in pair for pair in zip(multiples, shape, strict=True))
    return [("expand", list(node.shape)) if grows else ("repeat", multiples)]


#: {movement of the tensor language: how ATen writes it, given the node and the shape that it reads}.
_WRITTEN: dict[str, Callable[[TensorNode, Shape], list[tuple[Any, ...]]]] = {
    "identity": lambda node, shape: [],
    "transpose": lambda node, shape: [("permute", list(node.attr("perms")))],
    "reshape": lambda node, shape: [("reshape", list(node.shape))],
    "concat": lambda node, shape: [("cat", node.attr("axis"))],
    "reverse": lambda node, shape: [("flip", [node.attr("axis")])],
    "slice": _cuts,
    "pad": lambda node, shape: [("constant_pad_nd", _last_first(node.attr("pads")), node.attr("value")[0])],
    "tile": _repetition,
}


def _padding(a: dict[str, Any], rank: int) -> dict[str, Any]:
    """Returns the attributes of `pad`. Raises GraphError for padding that cuts or is not constant."""
    given = list(a["pad"])
    if min(given, default=0) < 0 or a.get("mode", "constant") != "constant":
        raise GraphError("a pad that cuts or is not constant")
    given += [0] * (2 * rank - len(given))
    return {"pads": tuple(_last_first(given)), "value": (float(a.get("value") or 0.0),)}


def _last_first(pads: Sequence[int]) -> list[int]:
    """Returns paddings (before, after) of axes in the other order: FX begins with the last axis."""
    return [n for k in reversed(range(0, len(pads), 2)) for n in pads[k : k + 2]]
