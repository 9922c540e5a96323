"""Functions of one INT8 tensor that Arm's partitioner leaves to the CPU in floating point, each as one TABLE.

Arm's quantizer does not know every pointwise operator, such as mish, softplus or a hand-written h-swish.
Such operators stay in floating point between a DEQUANTIZE and a QUANTIZE, and cut a delegate in two.
Together they are a function of 256 values, so their results are computed here, as PyTorch computes them.
One operator takes their place, of which Arm's own pass for functions makes a TABLE.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from executorch.backends.arm._passes.insert_table_ops import TableOps
from executorch.backends.arm.constants import MAX_RANK
from executorch.exir.dialects._ops import ops as edge_ops
from executorch.exir.passes.constant_prop_pass import get_constant_placeholder_dict
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.node import map_arg

from eqsat.executorch.nodes import (
    computing,
    is_dequantize,
    is_marked,
    is_pointwise,
    is_quantize,
    marked,
    name,
    operand,
    qparams,
    shape_of,
)

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
    constants = _constants(program)
    found = sum(is_quantize(n) and _replace(n, constants) for n in list(program.graph.nodes))
    if found:
        logger.info("%d functions of one tensor as TABLEs", found)
        _register()
        program.graph.eliminate_dead_code()
        program.graph_module.recompile()
    return program


def _constants(program: ExportedProgram) -> dict[Node, Any]:
    """Returns the values of constant placeholders, and of numbers that Arm's quantizer quantizes."""
    found: dict[Node, Any] = dict(get_constant_placeholder_dict(program))
    for n in program.graph.nodes:
        if is_quantize(n) and name((made := operand(n)).target) in _CREATE and not made.all_input_nodes:
            target: Any = n.target
            found[n] = target(_created(made), *n.args[1:], **n.kwargs)
    return found


def _created(node: Node) -> torch.Tensor:
    """Returns the tensor that an operator makes from a number; of many elements one suffices."""
    target: Any = node.target
    args = [(1,), *node.args[1:]] if name(target) == "full" else node.args
    made: torch.Tensor = target(*args, **node.kwargs)
    return made


def _replace(quantize: Node, constants: Mapping[Node, Any]) -> bool:
    """Replaces the operators before a QUANTIZE, and returns whether it did."""
    result = operand(quantize)
    nodes = computing(result) if (qparams(quantize) or ())[2:] == _LIMITS else []
    operators = [n for n in nodes if not is_dequantize(n)]
    if result not in operators or all(map(_is_quantized, operators)):
        return False
    values = [n for n in nodes if is_dequantize(n) and operand(n) not in constants]
    if len({(operand(n), qparams(n)) for n in values}) != 1 or result.meta["val"].dtype != torch.float32:
        return False
    source = values[0]
    computed = _computed(nodes, source, constants)
    if computed is None or shape_of(source) != shape_of(result) or len(shape_of(result)) > MAX_RANK:
        return False
    with quantize.graph.inserting_before(quantize):
        made = quantize.graph.call_function(FUNCTION, (source, *(qparams(source) or ())[:2], computed))
    made.meta = marked(result.meta)
    quantize.update_arg(0, made)
    return True


def _is_quantized(node: Node) -> bool:
    """Whether Arm's quantizer knows an operator, or it only makes a constant."""
    return name(node.target) in _CREATE or is_marked(node)


def _computed(nodes: Sequence[Node], source: Node, constants: Mapping[Node, Any]) -> list[float] | None:
    """Returns the results for all codes of the source, None if the nodes are no function of one tensor."""
    values: dict[Node, Any] = {}
    for n in nodes:
        target: Any = n.target
        if is_dequantize(n):
            codes, q = _CODES if operand(n) is operand(source) else constants.get(operand(n)), qparams(n)
            if codes is None or q is None or q[2:] != _LIMITS or codes is not _CODES and codes.numel() != 1:
                return None
            values[n] = (codes.reshape(-1).to(torch.float32) - q[1]) * q[0]
            continue
        if name(target) in _CREATE and not n.all_input_nodes:
            values[n] = _created(n)
            continue
        if not is_pointwise(n) or not values.keys() >= set(n.all_input_nodes):
            return None
        args, kwargs = map_arg((n.args, n.kwargs), values.__getitem__)
        with torch.no_grad():
            values[n] = target(*args, **kwargs)
    found = values[nodes[-1]]
    results: list[float] = found.to(torch.float32).tolist() if found.numel() == len(_CODES) else []
    return results or None
