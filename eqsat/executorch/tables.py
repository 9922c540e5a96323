"""Functions of one INT8 tensor that Arm's partitioner leaves to the CPU in floating point, each as one TABLE.

Arm's quantizer does not know every pointwise operator, such as mish, softplus or a hand-written h-swish.
Such operators stay in floating point between a DEQUANTIZE and a QUANTIZE, and cut a delegate in two.
Together they are a function of 256 values, so their results are computed here, as PyTorch computes them.
One operator takes their place, of which Arm's own pass for functions makes a TABLE.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from executorch.backends.arm._passes.insert_table_ops import TableOps
from executorch.backends.arm.common.annotation_meta import ArmAnnotationInfo
from executorch.backends.arm.constants import MAX_RANK
from executorch.exir.dialects._ops import ops as edge_ops
from executorch.exir.passes.constant_prop_pass import get_constant_placeholder_dict
from torch.export import ExportedProgram
from torch.fx import Node
from torch.utils._pytree import tree_map_only

from eqsat.executorch.nodes import is_dequantize, is_quantize, name

logger = logging.getLogger(__name__)

#: All values of INT8, and the arguments of a QUANTIZE or DEQUANTIZE to all of them.
_CODES = torch.arange(-128, 128, dtype=torch.int8)
_LIMITS = (-128, 127, torch.int8)
#: Operators that make a tensor from a number.
_CREATE = ("full", "scalar_tensor")


@torch.library.custom_op("eqsat::function", mutates_args=())
def function(x: torch.Tensor, scale: float, zero_point: int, results: list[float]) -> torch.Tensor:
    """Returns the result of each value (code - zero_point) * scale of x, for codes from -128 to 127."""
    codes = torch.round(x / scale).to(torch.int64) + zero_point
    return torch.tensor(results, dtype=x.dtype)[codes.clamp(-128, 127) + 128]


@function.register_fake
def _(x: torch.Tensor, scale: float, zero_point: int, results: list[float]) -> torch.Tensor:
    return torch.empty_like(x)


FUNCTION = torch.ops.eqsat.function.default


def _register() -> None:
    """Tells Arm's pass that makes TABLEs of operators about `FUNCTION`, once."""
    in_edge_dialect = edge_ops.edge.eqsat.function.default
    if in_edge_dialect in TableOps.special_table_ops:
        return
    TableOps.special_table_ops.add(in_edge_dialect)
    known = TableOps.__getitem__

    def found(self: TableOps, node: Node) -> Any:
        return known(self, node) if node.target != in_edge_dialect else lambda x: torch.tensor(node.args[3])

    TableOps.__getitem__ = found


def replace_functions(program: ExportedProgram) -> ExportedProgram:
    """Replaces functions with an operator that Arm's quantizer left alone; returns the program, which is modified."""
    constants = get_constant_placeholder_dict(program)
    found = sum(is_quantize(n) and _replace(n, constants) for n in list(program.graph.nodes))
    if found:
        logger.info("%d functions of one tensor as TABLEs", found)
        _register()
        program.graph.eliminate_dead_code()
        program.graph_module.recompile()
    return program


def _replace(quantize: Node, constants: Mapping[Node, Any]) -> bool:
    """Replaces the operators before a QUANTIZE, and returns whether it did."""
    result: Any = quantize.args[0]
    nodes = list(_cone(result)) if _arguments(quantize)[3:6] == _LIMITS else []
    operators = [n for n in nodes if not is_dequantize(n)]
    if result not in operators or all(map(_is_quantized, operators)):
        return False
    values = [n for n in nodes if is_dequantize(n) and _arguments(n)[0] not in constants]
    if len({n.args[:3] for n in values}) != 1 or result.meta["val"].dtype != torch.float32:
        return False
    source = values[0]
    computed = _computed(nodes, source, constants)
    if computed is None or source.meta["val"].shape != result.meta["val"].shape or result.meta["val"].dim() > MAX_RANK:
        return False
    with quantize.graph.inserting_before(quantize):
        made = quantize.graph.call_function(FUNCTION, (source, *source.args[1:3], computed))
    quantized = {ArmAnnotationInfo.CUSTOM_META_KEY: dict(ArmAnnotationInfo(quantized=True))}
    made.meta = {**result.meta, "custom": {**result.meta.get("custom", {}), **quantized}}
    quantize.update_arg(0, made)
    return True


def _arguments(node: Node) -> tuple[Any, ...]:
    return node.args


def _is_quantized(node: Node) -> bool:
    """Whether Arm's quantizer knows an operator, or it only makes a constant."""
    return name(node.target) in _CREATE or bool(node.meta.get("custom", {}).get(ArmAnnotationInfo.CUSTOM_META_KEY))


def _cone(node: Any, seen: set[Node] | None = None) -> Iterator[Node]:
    """Yields what a node is computed from, back to DEQUANTIZEs, operands first; a node that is no function ends it."""
    seen = set() if seen is None else seen
    if node in seen or not isinstance(node, Node) or node.op != "call_function":
        return
    seen.add(node)
    if not is_dequantize(node):
        for operand in node.all_input_nodes:
            yield from _cone(operand, seen)
    yield node


def _computed(nodes: Sequence[Node], source: Node, constants: Mapping[Node, Any]) -> list[float] | None:
    """Returns the results for all codes of the source, None if the nodes are no function of one tensor."""
    values: dict[Node, Any] = {}
    for n in nodes:
        target: Any = n.target
        args, kwargs = _arguments(n), n.kwargs
        if is_dequantize(n):
            codes = _CODES if args[0] is source.args[0] else constants.get(args[0])
            if codes is None or args[3:6] != _LIMITS or codes is not _CODES and codes.numel() != 1:
                return None
            values[n] = (codes.reshape(-1).to(torch.float32) - args[2]) * args[1]
            continue
        tags = getattr(target, "tags", ())
        is_pointwise = torch.Tag.pointwise in tags and torch.Tag.nondeterministic_seeded not in tags
        if not (name(target) in _CREATE or is_pointwise) or not values.keys() >= set(n.all_input_nodes):
            return None
        args, kwargs = tree_map_only(Node, values.__getitem__, (args, kwargs))
        with torch.no_grad():
            values[n] = target(*([(1,), *args[1:]] if name(target) == "full" else args), **kwargs)
    found = values[nodes[-1]]
    results: list[float] = found.to(torch.float32).tolist() if found.numel() == len(_CODES) else []
    return results or None
