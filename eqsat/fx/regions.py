"""What makes a value of an FX graph: one op, or a region of ops that is one op on quantized tensors.

`dequantize; op; quantize` stays together, so that nothing is ever put between an op and its quantize, where the Arm
backend's folding of parameters (FoldAndAnnotateQParamsPass of executorch 1.5) looks for it.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch.fx import Node

from eqsat.fx.aten import QParams, is_dequantize, is_pointwise, is_quantize, operand, reduced_axis, shape_of
from eqsat.fx.moves import is_movement, sources
from eqsat.fx.program import Source

#: Ops between a dequantize and a quantize that are taken as one; larger regions are float computations, op by op.
_MOST_FUSED = 4
_MOST_OPERANDS = 3


@dataclass(frozen=True, slots=True)
class Definition:
    """How one FX value is made: kind, the FX nodes that make it (in order), and the values that they read."""

    kind: str  # leaf, moves, pointwise, reduce, opaque, item
    nodes: tuple[Node, ...] = ()
    inputs: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class _QuantizedRegion:
    """`dequantizes; compute; quantize`, each in the order of the graph."""

    dequantizes: list[Node]
    compute: list[Node]
    quantize: Node

    @property
    def moves_integers(self) -> bool:
        """True if it is data movement between equal parameters: the same movement of the integers."""
        params = {QParams.of(n) for n in self.dequantizes}
        return all(is_movement(n) for n in self.compute) and params == {QParams.of(self.quantize)}


def is_list(n: Node) -> bool:
    """True if the value is several tensors."""
    return isinstance(n.meta["val"], (list, tuple))


class QuantizedRegions:
    """Answers for one program."""

    def __init__(self, source: Source):
        self.source = source
        self._order = {n: i for i, n in enumerate(source.graph.nodes)}

    def definition(self, n: Node) -> Definition:
        """How the value of `n` is made."""
        if self._is_leaf(n):
            return Definition("leaf")
        if is_quantize(n) and QParams.of(n) and (region := self._region(n)):
            return self._fused(region)
        if is_movement(n) and not is_list(n):
            return Definition("moves", (operand(n), n) if n.target is operator.getitem else (n,), tuple(sources(n)))
        if n.target is operator.getitem:
            return Definition("item", (n,), (operand(n),))
        inputs = tuple(n.all_input_nodes)
        if reduced_axis(n) is not None:
            return Definition("reduce", (n,), inputs)
        if is_pointwise(n) and self._broadcasts(n, inputs):
            return Definition("pointwise", (n,), inputs)
        return Definition("opaque", (n,), tuple(x for x in inputs if not self._is_constant(x)))

    def _is_constant(self, n: Node) -> bool:
        return self.source.is_constant(n) or n.op == "get_attr"

    def _is_leaf(self, n: Node) -> bool:
        if self.source.is_constant(n) or n.op != "call_function":
            return True
        return all(self._is_constant(x) for x in n.all_input_nodes)

    def _region(self, quantize: Node) -> _QuantizedRegion | None:
        """What is computed between `quantize` and the dequantizes before it, if that is little and nobody else reads
        it, else None."""
        found: set[Node] = set()
        stack = [operand(quantize)]
        while stack:
            n = stack.pop()
            if n in found or self._is_constant(n):
                continue
            if n.op != "call_function" or is_dequantize(n) and QParams.of(n) is None:
                return None
            found.add(n)
            if not is_dequantize(n):
                stack.extend(n.all_input_nodes)
        ordered = sorted(found, key=self._order.__getitem__)
        compute = [n for n in ordered if not is_dequantize(n)]
        inside = found | {quantize}
        if len(compute) > _MOST_FUSED or any(not (is_movement(n) or set(n.users) <= inside) for n in compute):
            return None
        return _QuantizedRegion([n for n in ordered if is_dequantize(n)], compute, quantize)

    def _fused(self, region: _QuantizedRegion) -> Definition:
        """A region as one op on quantized tensors."""
        compute, quantize = region.compute, region.quantize
        if region.moves_integers:
            return Definition(
                "moves", (*region.dequantizes, *compute, quantize), _unique(map(operand, region.dequantizes))
            )
        constants = _unique(x for n in compute for x in n.all_input_nodes if self.source.is_constant(x))
        quantized = [x for x in constants if self._is_quantized_constant(x)]
        dequantizes = [*region.dequantizes, *quantized]
        inputs = _unique([*map(operand, dequantizes), *(x for x in constants if x not in quantized)])
        nodes = (*dequantizes, *compute, quantize)
        if all(is_pointwise(n) for n in compute) and self._broadcasts(quantize, inputs):
            return Definition("pointwise", nodes, inputs)
        if len(compute) == 1 and reduced_axis(compute[0]) is not None and len(inputs) == 1:
            return Definition("reduce", nodes, inputs)
        constant = self.source.is_constant
        return Definition(
            "opaque", tuple(n for n in nodes if not constant(n)), tuple(x for x in inputs if not constant(x))
        )

    def _is_quantized_constant(self, x: Node) -> bool:
        return is_dequantize(x) and QParams.of(x) is not None and self.source.is_constant(operand(x))

    def _broadcasts(self, result: Node, inputs: Sequence[Node]) -> bool:
        """True if the result of a pointwise op has the operands' broadcast shape (no rank-0 operand decides its dtype),
        there is a tensor to move, and the operands are few."""
        if not 0 < len(inputs) <= _MOST_OPERANDS:
            return False
        values = [v for x in inputs if isinstance(v := x.meta.get("val"), torch.Tensor)]
        if len(values) < len(inputs):
            return False
        mixed = len({v.dtype for v in values}) > 1
        if mixed and any(v.ndim == 0 for v in values):
            return False
        return max(v.ndim for v in values) == len(shape_of(result))


def _unique(nodes: Iterable[Node]) -> tuple[Node, ...]:
    return tuple(dict.fromkeys(nodes))
