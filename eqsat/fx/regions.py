"""What makes a value of an FX graph: one op, or a region of ops that is one op on quantized tensors.

`dequantize; op; quantize` stays together, so that nothing is ever put between an op and its quantize, where the Arm backend's
folding of parameters (FoldAndAnnotateQParamsPass of executorch 1.5) looks for it.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.fx import Node

from eqsat.fx.aten import QParams, is_dequantize, is_pointwise, is_quantize, reduced_axis, shape_of
from eqsat.fx.moves import is_movement, sources
from eqsat.fx.program import Source

#: Ops between a dequantize and a quantize that are taken as one; larger regions are float computations, op by op.
_MOST_FUSED = 4
_MOST_OPERANDS = 3


@dataclass(frozen=True, slots=True)
class Step:
    """How one FX value is made: kind, the FX nodes that make it (in order), and the values that they read."""

    kind: str  # leaf, moves, pointwise, reduce, opaque, item
    nodes: tuple[Node, ...] = ()
    inputs: tuple[Node, ...] = ()


def is_list(n: Node) -> bool:
    """True if the value is several tensors."""
    return isinstance(n.meta["val"], (list, tuple))


class Regions:
    """Answers for one program."""

    def __init__(self, source: Source):
        self.source = source
        self._order = {n: i for i, n in enumerate(source.graph.nodes)}

    def step(self, n: Node) -> Step:
        """How the value of `n` is made."""
        constant = self.source.is_constant
        if constant(n) or n.op != "call_function" or all(constant(x) or x.op == "get_attr" for x in n.all_input_nodes):
            return Step("leaf")
        if is_quantize(n) and QParams.of(n) and (fused := self._fused(n)):
            return fused
        if is_movement(n) and not is_list(n):
            return Step("moves", (n.args[0], n) if n.target is operator.getitem else (n,), tuple(sources(n)))
        if n.target is operator.getitem:
            return Step("item", (n,), (n.args[0],))
        inputs = tuple(n.all_input_nodes)
        if reduced_axis(n) is not None:
            return Step("reduce", (n,), inputs)
        if is_pointwise(n) and len(inputs) <= _MOST_OPERANDS and self._broadcasts(n, inputs):
            return Step("pointwise", (n,), inputs)
        return Step("opaque", (n,), tuple(x for x in inputs if not constant(x) and x.op != "get_attr"))

    def _fused(self, q: Node) -> Step | None:
        """`dequantize; ops; quantize` as one step, or None if the region is no such thing."""
        constant = self.source.is_constant
        region: set[Node] = set()
        stack = [q.args[0]]
        while stack:
            n = stack.pop()
            if n in region or constant(n) or n.op == "get_attr":
                continue
            if n.op != "call_function":
                return None
            region.add(n)
            if not is_dequantize(n):
                stack.extend(n.all_input_nodes)
            elif QParams.of(n) is None:
                return None
        compute = [n for n in sorted(region, key=self._order.get) if not is_dequantize(n)]
        if len(compute) > _MOST_FUSED or any(not (is_movement(n) or set(n.users) <= region | {q}) for n in compute):
            return None
        ends = [n for n in sorted(region, key=self._order.get) if is_dequantize(n)]
        params = {QParams.of(n) for n in ends}
        if all(is_movement(n) for n in compute) and params == {QParams.of(q)}:
            return Step("moves", (*ends, *compute, q), tuple(dict.fromkeys(n.args[0] for n in ends)))
        constants = list(dict.fromkeys(x for n in compute for x in n.all_input_nodes if constant(x)))
        ends += [x for x in constants if is_dequantize(x) and QParams.of(x) and constant(x.args[0])]
        plain = [x for x in constants if x not in ends]
        inputs = tuple(dict.fromkeys([*(n.args[0] for n in ends), *plain]))
        nodes = (*ends, *compute, q)
        if all(is_pointwise(n) for n in compute) and len(inputs) <= _MOST_OPERANDS and self._broadcasts(q, inputs):
            return Step("pointwise", nodes, inputs)
        if len(compute) == 1 and reduced_axis(compute[0]) is not None and len(inputs) == 1:
            return Step("reduce", nodes, inputs)
        return Step("opaque", tuple(n for n in nodes if not constant(n)), tuple(x for x in inputs if not constant(x)))

    def _broadcasts(self, result: Node, inputs: Sequence[Node]) -> bool:
        """True if the result has the operands' broadcast shape (no rank-0 operand decides its dtype) and there is a tensor to move."""
        if not all(isinstance(x.meta.get("val"), torch.Tensor) for x in inputs) or not inputs:
            return False
        mixed = len({x.meta["val"].dtype for x in inputs}) > 1
        return not (mixed and any(x.meta["val"].ndim == 0 for x in inputs)) and max(
            len(shape_of(x)) for x in inputs
        ) == len(shape_of(result))
