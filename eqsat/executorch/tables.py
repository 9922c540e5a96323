"""Functions of one INT8 tensor that Arm's partitioner leaves to the CPU in floating point, each as one TABLE.

Pointwise operators that Arm's quantizer does not know, such as mish, stay in floating point between a DEQUANTIZE and a
QUANTIZE, and cut a delegate in two. Together they are a function of 256 values, which are computed here as PyTorch
computes them. One operator takes their place, of which Arm's own pass for functions makes a TABLE.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from executorch.backends.arm._passes.insert_table_ops import TableOps
from executorch.backends.arm.constants import MAX_RANK
from executorch.exir.dialects._ops import ops as edge_ops
from torch.fx import Node

from eqsat.executorch.constants import Constants, evaluate
from eqsat.executorch.nodes import (
    computing,
    is_dequantize,
    is_marked,
    is_pointwise,
    is_quantize,
    mark_quantized,
    operand,
    qparams,
    shape_of,
)

#: All values of INT8, and the arguments of a QUANTIZE or DEQUANTIZE to all of them.
_CODES = torch.arange(-128, 128, dtype=torch.int8)
_LIMITS = (-128, 127, torch.int8)


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


def replace_function(quantize: Node, constants: Constants) -> bool:
    """Replaces the operators before a QUANTIZE that are a function of one tensor, if Arm's quantizer left one alone."""
    if not is_quantize(quantize) or (qparams(quantize) or ())[2:] != _LIMITS:
        return False
    result = operand(quantize)
    nodes = [n for n in computing(result, constants.nodes) if n not in constants.nodes]
    sources = [n for n in nodes if is_dequantize(n)]
    operators = [n for n in nodes if n not in sources]
    if result not in operators or all(map(is_marked, operators)) or result.meta["val"].dtype != torch.float32:
        return False
    if len({(operand(n), qparams(n)) for n in sources}) != 1 or (qparams(sources[0]) or ())[2:] != _LIMITS:
        return False
    source = sources[0]
    results = _results(nodes, constants)
    if results is None or shape_of(source) != shape_of(result) or len(shape_of(result)) > MAX_RANK:
        return False
    _register()
    with quantize.graph.inserting_before(quantize):
        made = quantize.graph.call_function(FUNCTION, (source, *(qparams(source) or ())[:2], results))
    made.meta = mark_quantized(result.meta)
    quantize.update_arg(0, made)
    return True


def _results(nodes: Sequence[Node], constants: Constants) -> list[float] | None:
    """Returns the results for all codes of the dequantized tensor, None if the nodes are no function of it alone."""
    values: dict[Node, Any] = {}
    for n in nodes:
        operands = {m: _CODES if is_dequantize(n) else values.get(m) for m in n.all_input_nodes}
        for m in operands:
            if operands[m] is None and m in constants.nodes:
                operands[m] = _number(constants.value(m))
        if not is_pointwise(n) or any(v is None for v in operands.values()):
            return None
        values[n] = evaluate(n, operands.__getitem__)
    found = values[nodes[-1]]
    results: list[float] = found.to(torch.float32).tolist() if found.numel() == len(_CODES) else []
    return results or None


def _number(value: torch.Tensor) -> torch.Tensor | None:
    """Returns the number that all elements of a constant are, None if they differ, as 0.0 and -0.0 do."""
    first = value.reshape(-1)[:1]
    differ = (value != first) | (torch.signbit(value) != torch.signbit(first))
    return None if not value.numel() or differ.any() else first if value.ndim else value
