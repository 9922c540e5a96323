"""What the nodes of a program call, at the level of ATen or of ExecuTorch's edge dialect.

Both dialects share a name.
`permute` is aten.permute.default and edge's aten.permute_copy.default.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node


def overload(target: Any) -> Any:
    """Returns the ATen overload of a target, which an edge op wraps; None for anything else."""
    found = target if isinstance(target, torch._ops.OpOverload) else getattr(target, "_op", None)
    return found if isinstance(found, torch._ops.OpOverload) else None


def name(target: Any) -> str:
    """Returns ATen's name without namespace, overload and `_copy`."""
    op = overload(target)
    return op._schema.name.split("::")[1].removesuffix("_copy") if op else getattr(target, "__name__", str(target))


def is_quantize(node: Node) -> bool:
    """Tells whether the node is a per-tensor quantize."""
    return str(overload(node.target)) == "quantized_decomposed.quantize_per_tensor.default"


def is_dequantize(node: Node) -> bool:
    """Tells whether the node is a per-tensor dequantize."""
    return str(overload(node.target)) == "quantized_decomposed.dequantize_per_tensor.default"
