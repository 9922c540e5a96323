"""TensorGraph -> FX: writes a graph as a program of the kind and signature that `lift` read.

Each node of the tensor language is one op of FX.
A movement of quantized tensors is written as dequantize, movement, quantize.
These have the tensor's own parameters. PT2E writes it so, and backends expect it so.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from executorch.exir.dialects._ops import ops as dialects
from torch.fx import Node

from eqsat.before_lowering.lift import FxCall, Lifted
from eqsat.before_lowering.program import Program, ProgramError, Rewriting
from eqsat.before_lowering.vocabulary import QParams, aligned, reduced_axis, shape_of
from eqsat.tensor.graph import Node as TensorNode
from eqsat.tensor.graph import TensorGraph

#: {op: (name in ATen, name in the edge dialect, overload)}.
_OPS = {
    "permute": ("permute", "permute_copy", "default"),
    "view": ("view", "view_copy", "default"),
    "reshape": ("reshape", "view_copy", "default"),
    "cat": ("cat", "cat", "default"),
    "slice": ("slice", "slice_copy", "Tensor"),
    "pad": ("constant_pad_nd", "constant_pad_nd", "default"),
    "flip": ("flip", "flip", "default"),
    "expand": ("expand", "expand_copy", "default"),
    "repeat": ("repeat", "repeat", "default"),
    "clone": ("clone", "alias_copy", "default"),
}


def emit(lifted: Lifted, graph: TensorGraph) -> Program:
    """Returns the program of a graph whose inputs and outputs are those of `lifted`.

    Raises ProgramError for what FX cannot express.
    """
    try:
        return _Emitter(lifted, graph).run()
    except (ValueError, RuntimeError, NotImplementedError) as e:
        raise ProgramError(f"the rewritten graph cannot be written: {type(e).__name__}: {e}") from e


class _Emitter:
    def __init__(self, lifted: Lifted, graph: TensorGraph):
        self.lifted, self.graph = lifted, graph
        self.new = Rewriting(lifted.source)
        self.values: dict[int, Node] = {}
        #: {node: tensor} of constants and of movements of constants.
        self.data: dict[int, torch.Tensor] = {}
        self.edge = any(type(n.target).__name__ == "EdgeOpOverload" for n in lifted.source.graph.nodes)
        self.dialect: Any = dialects.edge if self.edge else torch.ops

    def run(self) -> Program:
        """Writes the live nodes in order and returns the program. Raises ProgramError."""
        for n in self.graph.live():
            node = self.graph.nodes[n]
            if node.op == "input":
                self.values[n] = self.new.nodes[self.lifted.leaves[node.attr("name")]]
            elif node.op == "const":
                self.data[n] = torch.from_numpy(node.attr("value").data.copy())
            elif node.op in ("transpose", "reshape") and node.inputs[0] in self.data:
                x = self.data[node.inputs[0]]
                self.data[n] = x.permute(node.attr("perms")) if node.op == "transpose" else x.reshape(node.shape)
            else:
                self.values[n] = self._written(node)
        made = {}
        for old, n in zip(self.lifted.outputs, self.graph.outputs, strict=True):
            found = self._value(n)
            if found.op != "call_function" and old.op == "call_function":
                found = self._movement("clone", [found], self.graph.nodes[n].dtype)
            made[old] = found
        outputs = self.lifted.source.outputs
        return self.new.finish([made.get(o) or (self.new.nodes[o] if isinstance(o, Node) else o) for o in outputs])

    def _value(self, n: int) -> Node:
        """Returns the FX node of a value; constants are added when they are first read."""
        if n not in self.values:
            node = self.graph.nodes[n]
            origin = self._origin(node)
            same = origin is not None and shape_of(origin) == node.shape
            value = self.data[n].contiguous()
            self.values[n] = self.new.nodes[origin] if origin and same else self.new.new_constant(value)
        return self.values[n]

    def _origin(self, node: TensorNode) -> Node | None:
        """Returns the source's node of a constant."""
        return self.lifted.constants.get(node.attr("value").digest) if node.op == "const" else None

    def _operand(self, n: int) -> Node:
        """Returns the FX node of a pointwise op's operand; leading unit axes may be missing."""
        node = self.graph.nodes[n]
        origin, rank = self._origin(node), len(node.shape)
        if origin and aligned(shape_of(origin), rank) == node.shape:
            return self.new.nodes[origin]
        read = node.inputs[0] if node.op == "reshape" and n in self.values else n
        return self._value(read if aligned(self.graph.nodes[read].shape, rank) == node.shape else n)

    def _written(self, node: TensorNode) -> Node:
        """Appends a node as FX ops and returns the last one."""
        match node.op:
            case "fx" if node.attr("call") < 0:
                # The integers are equal and only the dtype of the tensor language differs.
                return self._value(node.inputs[0])
            case "fx":
                operands = [self._operand(i) for i in node.inputs]
                if max(x.meta["val"].ndim for x in operands) < len(node.shape):
                    operands = [self._value(i) for i in node.inputs]
                return self._copied(node, operands)
            case "reduce_fx" | "opaque":
                return self._copied(node, [self._value(i) for i in node.inputs])
            case "item":
                return self.new.call(operator.getitem, self._value(node.inputs[0]), node.attr("index"))
        xs = [self._value(i) for i in node.inputs]
        for op, *args in _movements(node, self.graph.nodes[node.inputs[0]].shape):
            xs = [self._movement(op, xs, node.dtype, *args)]
        return xs[0]

    def _copied(self, node: TensorNode, operands: Sequence[Node]) -> Node:
        """Appends copies of the FX nodes of a call on new operands, and returns the last one."""
        call: FxCall = self.lifted.calls[node.attr("call")]
        known = dict(zip(call.inputs, operands, strict=True))
        for n in call.nodes:
            reduces = node.op == "reduce_fx" and reduced_axis(n) is not None
            changed = {"dim": [node.attr("axis")]} if reduces else {}
            known[n] = self.new.copy(n, known, **changed)
        return known[call.nodes[-1]]

    def _movement(self, op: str, xs: Sequence[Node], dtype: str, *args: Any) -> Node:
        """Appends a movement, between dequantize and quantize if its tensor is quantized."""
        q = QParams.parse(dtype)
        meta = {"custom": self.lifted.annotation} if q and self.lifted.annotation else {}
        given = [self.new.call(self._quantizing("dequantize"), x, *q.args) for x in xs] if q else list(xs)
        first = given if op == "cat" else given[0]
        try:
            y = self.new.call(self._target(op), first, *args, meta=meta)
        except (RuntimeError, ValueError):
            if op != "view":
                raise
            # `view` needs a contiguous tensor, `reshape` does not.
            y = self.new.call(self._target("reshape"), first, *args, meta=meta)
        return self.new.call(self._quantizing("quantize"), y, *q.args) if q else y

    def _quantizing(self, op: str) -> Any:
        return getattr(self.dialect.quantized_decomposed, f"{op}_per_tensor").default

    def _target(self, op: str) -> Any:
        aten, edge, overload = _OPS[op]
        return getattr(getattr(self.dialect.aten, edge if self.edge else aten), overload)


def _movements(node: TensorNode, shape: Sequence[int]) -> list[tuple[Any, ...]]:
    """Returns the FX ops, with their arguments, for a movement of tensors of `shape`."""
    match node.op:
        case "identity":
            return []
        case "transpose":
            return [("permute", list(node.attr("perms")))]
        case "reshape":
            return [("view", list(node.shape))]
        case "concat":
            return [("cat", node.attr("axis"))]
        case "reverse":
            return [("flip", [node.attr("axis")])]
        case "slice":
            windows = zip(node.attr("start"), node.attr("size"), shape, strict=True)
            return [("slice", d, s, s + n) for d, (s, n, whole) in enumerate(windows) if n != whole]
        case "pad":
            pads = node.attr("pads")
            ends = [n for d in reversed(range(len(shape))) for n in pads[2 * d : 2 * d + 2]]
            return [("pad", ends, node.attr("value")[0])]
        case "tile":
            multiples = list(node.attr("multiples"))
            grows = all(m == 1 or n == 1 for m, n in zip(multiples, shape, strict=True))
            return [("expand", list(node.shape)) if grows else ("repeat", multiples)]
        case op:
            raise ProgramError(f"{op} has no form in FX")
