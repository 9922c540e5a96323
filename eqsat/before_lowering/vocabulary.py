"""The vocabulary of ATen and of ExecuTorch's edge dialect: the kinds of FX nodes.

Both dialects share a name.
`permute` is aten.permute.default and edge's aten.permute_copy.default.
A node is data movement (`movement.py`), pointwise, a reduction along one axis, per-tensor
quantize or dequantize, or opaque.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from eqsat.tensor.types import Shape

#: {torch dtype: dtype of the tensor language}; other dtypes have their torch name.
DTYPES = {
    torch.bool: "BOOL",
    torch.int8: "INT8",
    torch.int16: "INT16",
    torch.int32: "INT32",
    torch.float32: "FP32",
    torch.float16: "FP16",
}
_REDUCTIONS = ("sum", "mean", "amax", "amin")
_CASTS = ("to", "_to_copy", "type_as")
#: Pointwise ops that lack PyTorch's tag.
_POINTWISE = ("hardswish",)
_COPIES = ("alias", "detach", "contiguous", "clone", "lift_fresh", "_clone_dim_order", "dropout", "identity")


def overload(target: Any) -> Any:
    """Returns the ATen overload of a target, which an edge op wraps; None for anything else."""
    found = target if isinstance(target, torch._ops.OpOverload) else getattr(target, "_op", None)
    return found if isinstance(found, torch._ops.OpOverload) else None


def name(target: Any) -> str:
    """Returns ATen's name without namespace, overload, `_copy` and an in-place op's underscore."""
    op = overload(target)
    if op is None:
        return getattr(target, "__name__", str(target))
    plain: str = op._schema.name.split("::")[1].removesuffix("_copy")
    return plain[:-1] if is_inplace(target) else plain


def is_inplace(target: Any) -> bool:
    """Tells whether the target changes its operand."""
    op = overload(target)
    return op is not None and torch.Tag.inplace in op.tags


def functional(target: Any) -> Any:
    """Returns the functional overload of an in-place one, or None if there is none.

    Other targets are returned as they are.
    """
    if not is_inplace(target):
        return target
    op = overload(target)
    packet = getattr(torch.ops.aten, op._schema.name.split("::")[1].removesuffix("_"), None)
    return getattr(packet, op._overloadname or "default", None)


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


@dataclass(frozen=True, slots=True)
class QParams:
    """Parameters of a per-tensor quantize or dequantize; `str(q)` is the tensor's dtype."""

    dtype: torch.dtype
    scale: float
    zero_point: int
    low: int
    high: int

    @staticmethod
    def of(node: Node) -> QParams | None:
        """Returns a node's parameters, or None if it has no constant per-tensor parameters."""
        if not (is_quantize(node) or is_dequantize(node)):
            return None
        a = arguments(node)
        numbers = a["scale"], a["zero_point"], a["quant_min"], a["quant_max"]
        if a.get("out_dtype") not in (None, torch.float32) or not all(isinstance(v, (int, float)) for v in numbers):
            return None
        return QParams(a["dtype"], float(numbers[0]), *map(int, numbers[1:]))

    @staticmethod
    def parse(dtype: str) -> QParams | None:
        """Returns the parameters that are a tensor's dtype, or None if the tensor is not quantized."""
        if not dtype.startswith("Q:"):
            return None
        _, integers, scale, *others = dtype.split(":")
        return QParams(getattr(torch, integers), float(scale), *map(int, others))

    @property
    def args(self) -> tuple[Any, ...]:
        """The arguments of quantize and dequantize after the tensor."""
        return self.scale, self.zero_point, self.low, self.high, self.dtype

    @property
    def is_full(self) -> bool:
        """Whether every value of the dtype is in range."""
        limits = torch.iinfo(self.dtype)
        return self.low <= limits.min and self.high >= limits.max

    def __str__(self) -> str:
        return f"Q:{str(self.dtype).removeprefix('torch.')}:{self.scale!r}:{self.zero_point}:{self.low}:{self.high}"


def _is(node: Node, op: str) -> bool:
    return node.op == "call_function" and str(overload(node.target)) == f"quantized_decomposed.{op}.default"


def is_quantize(node: Node) -> bool:
    """Tells whether the node is a per-tensor quantize."""
    return _is(node, "quantize_per_tensor")


def is_dequantize(node: Node) -> bool:
    """Tells whether the node is a per-tensor dequantize."""
    return _is(node, "dequantize_per_tensor")


def is_pointwise(node: Node) -> bool:
    """Tells whether each result element depends on the operands' elements at its position alone.

    Operands broadcast.
    """
    op = overload(node.target)
    if is_quantize(node) or is_dequantize(node):
        return QParams.of(node) is not None
    if op is None or op.namespace != "aten" or not isinstance(node.meta["val"], torch.Tensor):
        return False
    is_cast = name(node.target) in _CASTS and len(node.all_input_nodes) == 1
    return torch.Tag.pointwise in op.tags or name(node.target) in _POINTWISE or is_cast


def reduced_axis(node: Node) -> int | None:
    """Returns the axis of a reduction along one axis with keepdim, else None."""
    if name(node.target) not in _REDUCTIONS:
        return None
    a = arguments(node)
    dims = a.get("dim")
    dims = [dims] if isinstance(dims, int) else dims
    if not dims or len(dims) != 1 or not a.get("keepdim"):
        return None
    return int(dims[0]) % len(shape_of(a["self"]))


def is_copy(node: Node) -> bool:
    """Tells whether the result equals the operand, element by element and in dtype."""
    if overload(node.target) is None or name(node.target) not in (*_COPIES, *_CASTS):
        return False
    a = arguments(node)
    if a.get("train") or a.get("memory_format") not in (None, 0, torch.contiguous_format, torch.preserve_format):
        return False
    order = a.get("dim_order")
    if order and list(order) != sorted(order):
        return False
    inputs = node.all_input_nodes
    return len(inputs) == 1 and inputs[0].meta["val"].dtype == node.meta["val"].dtype
