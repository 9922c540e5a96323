"""TensorGraph -> FX: writes a graph as a program of the signature that `lift` read.

Each node of the tensor language is one op of FX.
A movement of quantized tensors is written as dequantize, movement, quantize.
These have the tensor's own parameters. PT2E writes it so, and backends expect it so.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from executorch.exir.dialects._ops import ops as dialects
from torch._guards import detect_fake_mode
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, InputSpec, TensorArgument
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves

from eqsat.before_lowering import fx
from eqsat.before_lowering.lift import Lifted
from eqsat.tensor.graph import Node as TensorNode
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import Const


def emit(lifted: Lifted, graph: TensorGraph) -> ExportedProgram:
    """Returns the program of a graph whose inputs and outputs are those of `lifted`.

    Raises GraphError for what FX cannot express, and what torch raises for operands that do not fit.
    """
    return _Emitter(lifted, graph).run()


class _Emitter:
    """Adds nodes to a copy of the source's graph; those that the outputs do not need are removed in the end.

    copies: {node of the source: its copy}; named: the copies by their names.
    values: {node of the tensor graph: its FX node}.
    constants: those that the source does not have, by their target.
    """

    def __init__(self, lifted: Lifted, graph: TensorGraph):
        self.lifted, self.graph, self.program = lifted, graph, lifted.program
        self.new = copy.deepcopy(self.program.graph)
        self.copies = dict(zip(self.program.graph.nodes, self.new.nodes, strict=True))
        for old, new in self.copies.items():
            # FX itself would not give some names, such as `input`.
            new.name = old.name
        self.named = {new.name: new for new in self.new.nodes}
        self.new.inserting_before(self.new.output_node())
        self.values: dict[int, Node] = {}
        self.constants: dict[str, torch.Tensor] = {}
        self.params = {fx.quantized(q): q for n in self.copies if (q := fx.qparams(n))}
        # The Arm partitioner refuses ops without its quantizer's mark.
        marked = sorted((n for n in self.copies if n.meta.get("custom")), key=fx.is_movement)
        self.mark = {"custom": marked[-1].meta["custom"]} if marked else {}
        self.fake_mode: Any = detect_fake_mode([n.meta.get("val") for n in self.copies])
        self.edge = any(type(n.target).__name__ == "EdgeOpOverload" for n in self.copies)
        self.dialect: Any = dialects.edge if self.edge else torch.ops

    def run(self) -> ExportedProgram:
        """Writes the live nodes in order and returns the program. Raises GraphError."""
        for n in self.graph.live():
            node = self.graph.nodes[n]
            if node.op == "input":
                self.values[n] = self.named[node.attr("name")]
            elif node.op == "const":
                self.values[n] = self._constant(node.attr("value"))
            else:
                self.values[n] = self._written(node)
        made = {}
        for old, n in zip(self.lifted.outputs, self.graph.outputs, strict=True):
            found = self.values[n]
            if found.op != "call_function" and old.op == "call_function":
                found = self._moved([found], self.graph.nodes[n].dtype, "alias" if self.edge else "clone")
            made[self.copies[old]] = found
        output = self.new.output_node()
        output.args = map_arg(output.args, lambda o: made.get(o, o))
        return self._program(tree_leaves(output.args))

    def _operand(self, n: int) -> Node:
        """Returns the FX node of a pointwise op's operand, which needs no view that only adds leading axes."""
        node = self.graph.nodes[n]
        read = node.inputs[0] if node.op == "reshape" else n
        return self.values[read if fx.aligned(self.graph.nodes[read].shape, len(node.shape)) == node.shape else n]

    def _constant(self, value: Const) -> Node:
        """Returns the node of a constant, which is added before the source's placeholders if the source lacks it."""
        if value.digest in self.lifted.constants:
            return self.copies[self.lifted.constants[value.digest]]
        target = f"_eqsat_constant_{len(self.constants)}"
        self.constants[target] = tensor = torch.from_numpy(value.data.copy())
        with self.new.inserting_before(next(iter(self.new.nodes))):
            node: Node = self.new.placeholder(f"c_{target}")
        # FakeTensor.from_tensor would leave traces of a source in the shape guards.
        with self.fake_mode:
            node.meta["val"] = torch.empty(tensor.shape, dtype=tensor.dtype)
        return node

    def _written(self, node: TensorNode) -> Node:
        """Appends a node as FX ops and returns the last one. Raises GraphError."""
        match node.op:
            case "fx":
                operands = [self._operand(i) for i in node.inputs]
                if max(x.meta["val"].ndim for x in operands) < len(node.shape):
                    operands = [self.values[i] for i in node.inputs]
                return self._copied(node, operands)
            case "reduce_fx" | "opaque":
                return self._copied(node, [self.values[i] for i in node.inputs])
            case "item":
                return self._call(operator.getitem, self.values[node.inputs[0]], node.attr("index"))
        xs = [self.values[i] for i in node.inputs]
        for op, *args in fx.written(node, self.graph.nodes[node.inputs[0]].shape):
            xs = [self._moved(xs, node.dtype, op, *args)]
        return xs[0]

    def _call(self, target: Any, *args: Any, meta: Mapping[str, Any] | None = None, **kwargs: Any) -> Node:
        """Appends an op and returns it with its fake value. Raises what the op raises on operands that do not fit."""
        values, named = map_arg((args, kwargs), lambda n: n.meta["val"])
        with self.fake_mode:
            val = target(*values, **named)
        node: Node = self.new.call_function(target, args, kwargs)
        node.meta.update({**(meta or {}), "val": val})
        return node

    def _copied(self, node: TensorNode, operands: Sequence[Node]) -> Node:
        """Appends copies of the FX nodes of a call on new operands, and returns the last one."""
        call = self.lifted.calls[node.attr("call")]
        known: dict[Node, Node] = {**self.copies, **dict(zip(call.inputs, operands, strict=True))}
        for n in call.nodes:
            args, kwargs = map_arg((n.args, n.kwargs), known.__getitem__)
            if node.op == "reduce_fx" and fx.reduced_axis(n) is not None:
                args = (args[0], [node.attr("axis")], *args[2:])
                kwargs = {k: v for k, v in kwargs.items() if k != "dim"}
            known[n] = self._call(n.target, *args, meta=n.meta, **kwargs)
        return known[call.nodes[-1]]

    def _moved(self, xs: Sequence[Node], dtype: str, op: str, *args: Any) -> Node:
        """Appends a movement, between dequantize and quantize if its tensor is quantized."""
        q, quantizing = self.params.get(dtype), self.dialect.quantized_decomposed
        given = [self._call(quantizing.dequantize_per_tensor.default, x, *q) for x in xs] if q else list(xs)
        y = self._call(self._target(op), given if op == "cat" else given[0], *args, meta=self.mark if q else {})
        return self._call(quantizing.quantize_per_tensor.default, y, *q) if q else y

    def _target(self, op: str) -> Any:
        """Returns the op of the program's dialect; the edge dialect copies what ATen views."""
        if self.edge:
            op = "view" if op == "reshape" else op
            op = f"{op}_copy" if hasattr(torch.ops.aten, f"{op}_copy") else op
        return getattr(getattr(self.dialect.aten, op), "Tensor" if op.startswith("slice") else "default")

    def _program(self, outputs: Sequence[Any]) -> ExportedProgram:
        """Returns the program of the new graph."""
        self.new.eliminate_dead_code(lambda n: n.op in ("placeholder", "output"))
        self.new.lint()
        signature = copy.deepcopy(self.program.graph_signature)
        for target in self.constants:
            spec = InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(name=f"c_{target}"), target)
            signature.input_specs.insert(0, spec)
        for result, node in zip(signature.output_specs, outputs, strict=True):
            if not isinstance(result.arg, ConstantArgument) and isinstance(node, Node):
                result.arg.name = node.name
        constants = {**self.program.constants, **self.constants}
        return self.program._update(GraphModule(self.program.graph_module, self.new), signature, constants=constants)
