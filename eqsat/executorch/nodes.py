"""What the nodes of a program call, at the level of ATen or of ExecuTorch's edge dialect, by the same names."""

from __future__ import annotations

import copy
from collections.abc import Container, Mapping
from typing import Any

import torch
from executorch.backends.arm.common.annotation_meta import ArmAnnotationInfo
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg
from torch.fx.traceback import NodeSource

#: Pointwise operators that lack PyTorch's tag.
_CASTS, _POINTWISE = ("to", "type_as"), ("hardswish", "log_sigmoid", "where")

#: Arguments of per-tensor quantize and dequantize after the tensor: scale, zero point, limits, dtype.
QParams = tuple[float, int, int, int, torch.dtype]


def first_source(node: Node) -> NodeSource | None:
    """Returns the first node of the trace of a lowered program's node, which is that of the exported program.

    A node that a pass made from nothing has a trace that begins with itself, or none.
    """
    trace, first = node.meta.get("from_node") or [], None
    while trace:
        first = trace[-1]
        trace = first.from_node
    return first


def with_own_graph(program: ExportedProgram) -> ExportedProgram:
    """Returns a program with a copy of the graph, its signature and the table of constants, to be modified."""
    graph = copy.deepcopy(program.graph)
    for old, new in zip(program.graph.nodes, graph.nodes, strict=True):
        new.name = old.name  # FX itself would not give some names, such as `input`
    module, signature = GraphModule(program.graph_module, graph), copy.deepcopy(program.graph_signature)
    return program._update(module, signature, constants=dict(program.constants))


def without_mutation(program: ExportedProgram) -> ExportedProgram:
    """Returns a program none of whose operators writes into a tensor: the given one, or an equal one.

    Where an operator writes into a view or a buffer, the nodes that read the tensor later do not tell of it.
    """
    called = [overload(n.target) for n in program.graph.nodes]
    return program.run_decompositions({}) if any(op and op._schema.is_mutable for op in called) else program


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


def operand(node: Node) -> Node:
    """Returns the first argument of a node, which must be a node."""
    found = node.args[0]
    assert isinstance(found, Node), f"the first argument of {node.name} is no value of the graph"
    return found


def shape_of(node: Node) -> tuple[int, ...]:
    """Returns the shape of a node's tensor; () for a list of tensors."""
    val = node.meta["val"]
    return tuple(val.shape) if isinstance(val, torch.Tensor) else ()


def arguments(node: Node) -> dict[str, Any]:
    """Returns the arguments by the names of the schema, in its order, with defaults; {} for what is no operator."""
    op = overload(node.target)
    schema = op._schema.arguments if op else ()
    given = {**{a.name: v for a, v in zip(schema, node.args, strict=False)}, **node.kwargs}
    return {a.name: given.get(a.name, a.default_value) for a in schema}


def qparams(node: Node) -> QParams | None:
    """Returns the parameters of a quantize or dequantize, or None if the node has no constant ones."""
    a = arguments(node) if is_quantize(node) or is_dequantize(node) else {}
    numbers: list[Any] = [a.get(k) for k in ("scale", "zero_point", "quant_min", "quant_max")]
    if a.get("out_dtype") not in (None, torch.float32) or not all(isinstance(v, (int, float)) for v in numbers):
        return None
    scale, zero, low, high = numbers
    return float(scale), int(zero), int(low), int(high), a["dtype"]


def is_pointwise(node: Node) -> bool:
    """Tells whether each result element depends on the (broadcast) operands' elements at its position alone."""
    op = overload(node.target)
    if is_quantize(node) or is_dequantize(node):
        return qparams(node) is not None
    if op is None or op.namespace != "aten" or not isinstance(node.meta["val"], torch.Tensor):
        return False
    is_cast = name(node.target) in _CASTS and len(node.all_input_nodes) == 1
    tagged = torch.Tag.pointwise in op.tags and torch.Tag.nondeterministic_seeded not in op.tags
    return tagged or name(node.target) in _POINTWISE or is_cast


def computing(result: Node, given: Container[Node] = ()) -> list[Node]:
    """Returns the nodes that compute `result` from dequantized tensors, in the program's order.

    They go back to dequantizes, which are among them, to what is no function, and to `given`.
    """
    found, stack = set[Node](), [result]
    while stack:
        n = stack.pop()
        if n.op == "call_function" and n not in found and (is_dequantize(n) or n not in given):
            found.add(n)
            stack += [] if is_dequantize(n) else n.all_input_nodes
    return sorted(found)


def mark_quantized(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a node's metadata with the mark of Arm's quantizer, without which its partitioner refuses operators."""
    mark = {ArmAnnotationInfo.CUSTOM_META_KEY: dict(ArmAnnotationInfo(quantized=True))}
    return {**meta, "custom": {**meta.get("custom", {}), **mark}}


def is_marked(node: Node) -> bool:
    """Whether Arm's quantizer knows an operator."""
    return bool(node.meta.get("custom", {}).get(ArmAnnotationInfo.CUSTOM_META_KEY))


def append(graph: Graph, target: Any, *args: Any, meta: Mapping[str, Any] | None = None, **kwargs: Any) -> Node:
    """Adds a call where the graph inserts, with its fake value and metadata; raises what the operator raises."""
    values, named = map_arg((args, kwargs), lambda n: n.meta["val"])
    node = graph.call_function(target, args, kwargs)
    node.meta = {**(meta or {}), "val": target(*values, **named)}
    return node
