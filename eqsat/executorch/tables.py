"""Functions of one INT8 tensor that Arm's partitioner leaves to the CPU in floating point, each as one TABLE.

Pointwise operators that Arm's quantizer does not know, such as mish, stay in floating point between a DEQUANTIZE and a
QUANTIZE, and cut a delegate in two. Together they are a function of 256 values, which are computed here as PyTorch
computes them. One operator takes their place, of which Arm's own pass for functions makes a TABLE.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import networkx as nx
import torch
from executorch.backends.arm._passes.insert_table_ops import TableOps
from executorch.backends.arm.constants import MAX_RANK
from executorch.exir.dialects._ops import ops as edge_ops
from executorch.exir.passes.constant_prop_pass import (
    create_constant_nodes_and_return_specs,
    get_constant_placeholder_dict,
)
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.node import map_arg

from eqsat.executorch.nodes import (
    computing,
    is_dequantize,
    is_marked,
    is_pointwise,
    is_quantize,
    mark_quantized,
    name,
    operand,
    qparams,
    shape_of,
)

logger = logging.getLogger(__name__)

#: Operators that make a tensor from numbers; alone they are no reason to compute a subgraph.
_CREATE = frozenset({"full", "zeros", "ones", "arange", "scalar_tensor", "eye", "linspace", "lift_fresh"})
#: An operator that only checks properties of a tensor.
_ASSERT = "_assert_tensor_metadata"


def fold_constants(program: ExportedProgram) -> ExportedProgram:
    """Returns a program in which constant subgraphs that stock ExecuTorch cannot lower as a whole are computed.

    Examples are a position encoding and a mask, whose operators the NPU lacks, or Arm's passes accept and then fail on.
    They are computed as PyTorch computes the quantized program, so its outputs do not change in any bit.
    Subgraphs of quantized operators alone are left to the NPU, which rounds them as without eqsat.
    Returns the program itself if it has none, or if an output is in one; it is not modified.
    """
    if not _find_constants(program):
        return program
    functional = program.run_decompositions({})
    folded = _find_constants(functional)
    results = functional.graph.output_node().all_input_nodes
    if not folded or not folded.isdisjoint(results):
        return program
    functional._state_dict, functional._constants = dict(functional.state_dict), dict(functional.constants)
    for node in list(functional.graph.nodes):
        if name(node.target) == _ASSERT and folded.issuperset(node.all_input_nodes):
            functional.graph.erase_node(node)
    logger.info("%d operators of constants computed before the lowering", len(folded))
    _replace(functional, folded)
    return functional


def _replace(program: ExportedProgram, folded: set[Node]) -> None:
    """Replaces the nodes that others read by constants, before a DEQUANTIZE, so that values stay integers."""
    last = {n for n in folded if _is_dequantize(n) and not folded.issuperset(n.users)}
    computed, constants = folded - last, Constants(program)
    known = computed.union(p for n in computed for p in n.all_input_nodes if p.op == "placeholder")
    values = {n: constants.value(n) for n in program.graph.nodes if n in known}
    specs = {s.arg.name: s for s in program.graph_signature.input_specs}
    specs |= create_constant_nodes_and_return_specs(values, program)
    program.graph_signature.input_specs = [specs[n.name] for n in program.graph.find_nodes(op="placeholder")]
    program.graph.eliminate_dead_code()
    program.graph_module.recompile()


def _find_constants(program: ExportedProgram) -> set[Node]:
    """Returns the nodes of the constant subgraphs with an operator that is not quantized."""
    constant = {n for n in Constants(program).nodes if n.op == "call_function"}
    graph = nx.Graph()
    graph.add_nodes_from(constant)
    graph.add_edges_from((n, operand) for n in constant for operand in n.all_input_nodes if operand in constant)
    return {n for part in nx.connected_components(graph) if any(map(_is_foreign, part)) for n in part}


class Constants:
    """The nodes of a program whose value is the same in every run, with these values; nobody writes what they read."""

    def __init__(self, program: ExportedProgram) -> None:
        self._values: dict[Node, Any] = dict(get_constant_placeholder_dict(program))
        self.nodes = set(self._values)
        for node in program.graph.nodes:
            if node.op == "call_function" and not node.is_impure() and self.nodes.issuperset(node.all_input_nodes):
                self.nodes.add(node)

    def value(self, node: Node) -> Any:
        """Returns the value of one of the nodes, which PyTorch computes when it is first asked for."""
        if node not in self._values:
            self._values[node] = evaluate(node, self.value)
        return self._values[node]


def evaluate(node: Node, value: Callable[[Node], Any]) -> Any:
    """Returns what the operator of a node computes from the values of its operands, contiguous."""
    target: Any = node.target
    args, kwargs = map_arg((node.args, node.kwargs), value)
    with torch.no_grad():
        found = target(*args, **kwargs)
    return found.contiguous() if isinstance(found, torch.Tensor) else found


def _is_foreign(node: Node) -> bool:
    """Whether a constant's operator neither quantizes nor lies between DEQUANTIZE and QUANTIZE, on integers.

    So is one that Arm's quantizer does not know, such as triu, which its partitioner refuses.
    """
    if name(node.target) in _CREATE or "quantize_per" in name(node.target):
        return False
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor) and not value.is_floating_point():
        return True
    return not is_marked(node) or not node.all_input_nodes or not all(_is_dequantize(n) for n in node.all_input_nodes)


def _is_dequantize(node: Node) -> bool:
    """Whether a node dequantizes, per tensor or per channel."""
    return name(node.target).startswith("dequantize_per")


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
