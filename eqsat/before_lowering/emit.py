"""TensorGraph -> FX: writes a graph as a program of the signature that `lift` read.

A movement of quantized tensors is written as PT2E does: dequantize, movement, quantize, with the tensor's parameters.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from executorch.exir.dialects._ops import ops as dialects
from torch._guards import detect_fake_mode
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, InputSpec, TensorArgument
from torch.fx import Node
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves

from eqsat.before_lowering import fx
from eqsat.before_lowering.lift import Lifted
from eqsat.executorch.nodes import append, marked, qparams
from eqsat.tensor.graph import Node as TensorNode
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Const, GraphError


def emit(lifted: Lifted, graph: TensorGraph) -> ExportedProgram:
    """Returns the program of a graph whose inputs and outputs are those of `lifted`, whose own program is modified.

    Raises GraphError for what FX cannot express, and what torch raises for operands that do not fit.
    """
    return _Emitter(lifted, graph).run()


class _Emitter:
    """Adds nodes to the program that was lifted; those that the outputs do not need are removed in the end.

    values: {node of the tensor graph: its FX node}.
    """

    def __init__(self, lifted: Lifted, graph: TensorGraph):
        self.lifted, self.graph, self.program = lifted, graph, lifted.program
        self.fx_graph, self.signature = self.program.graph, self.program.graph_signature
        self.fx_graph.inserting_before(self.fx_graph.output_node())
        self.named: dict[str, Node] = {n.name: n for n in self.fx_graph.nodes}
        self.values: dict[int, Node] = {}
        self.params = {fx.quantized(q): q for n in self.fx_graph.nodes if (q := qparams(n))}
        self.edge = self.program.dialect == "EDGE"
        self.dialect: Any = dialects.edge if self.edge else torch.ops

    def run(self) -> ExportedProgram:
        """Writes the live nodes in order and returns the program. Raises GraphError."""
        for n in self.graph.live():
            self.values[n] = self._written(self.graph.nodes[n])
        made = {}
        for old, n in zip(self.lifted.outputs, self.graph.outputs, strict=True):
            found = self.values[n]
            if found.op != "call_function" and old.op == "call_function":
                found = self._moved([found], self.graph.nodes[n].dtype, "alias" if self.edge else "clone")
            made[old] = found
        output = self.fx_graph.output_node()
        output.args = map_arg(output.args, lambda o: made.get(o, o))
        self.fx_graph.eliminate_dead_code(lambda n: n.op in ("placeholder", "output"))
        self.fx_graph.lint()
        for result, value in zip(self.signature.output_specs, tree_leaves(output.args), strict=True):
            if not isinstance(result.arg, ConstantArgument) and isinstance(value, Node):
                result.arg.name = value.name
        return self.program._update(self.program.graph_module, self.signature)

    def _operand(self, n: int) -> Node:
        """Returns the FX node of a pointwise op's operand, which needs no view that only adds leading axes."""
        node = self.graph.nodes[n]
        read = node.inputs[0] if node.op == "reshape" else n
        return self.values[read if fx.aligned(self.graph.nodes[read].shape, len(node.shape)) == node.shape else n]

    def _constant(self, value: Const) -> Node:
        """Returns the node of a constant, which is added before the source's placeholders if the source lacks it."""
        if (origin := self.lifted.constants.get(value.digest)) is not None:
            return origin
        target = f"_eqsat_constant_{value.digest}"
        self.program.constants[target] = tensor = torch.from_numpy(value.data.copy())
        spec = InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(name=f"c_{target}"), target)
        self.signature.input_specs.insert(0, spec)
        with self.fx_graph.inserting_before(next(iter(self.fx_graph.nodes))):
            node: Node = self.fx_graph.placeholder(f"c_{target}")
        # FakeTensor.from_tensor would leave traces of a source in the shape guards.
        mode: Any = detect_fake_mode([n.meta.get("val") for n in self.fx_graph.nodes])
        with mode:
            node.meta["val"] = torch.empty(tensor.shape, dtype=tensor.dtype)
        return node

    def _written(self, node: TensorNode) -> Node:
        """Appends a node as FX ops and returns the last one, or the placeholder of a leaf. Raises GraphError."""
        xs = [self.values[i] for i in node.inputs]
        match node.op:
            case "input":
                return self.named[node.attr("name")]
            case "const":
                return self._constant(node.attr("value"))
            case "fx":
                operands = [self._operand(i) for i in node.inputs]
                is_whole = max(x.meta["val"].ndim for x in operands) == len(node.shape)
                return self._copied(node, operands if is_whole else xs)
            case "reduce_fx" | "opaque":
                return self._copied(node, xs)
            case "item":
                return append(self.fx_graph, operator.getitem, *xs, node.attr("index"))
        if (form := OPS[node.op].aten) is None:
            raise GraphError(f"{node.op} has no form in FX")
        for op, *args in form(dict(node.attrs), self.graph.nodes[node.inputs[0]].shape):
            xs = [self._moved(xs, node.dtype, op, *args)]
        return xs[0]

    def _copied(self, node: TensorNode, operands: Sequence[Node]) -> Node:
        """Appends copies of the FX nodes of a call on new operands, and returns the last one."""
        call = self.lifted.calls[node.attr("call")]
        known = dict(zip(call.inputs, operands, strict=True))
        for n in call.nodes:
            args, kwargs = map_arg((n.args, n.kwargs), lambda m: known.get(m, m))
            if node.op == "reduce_fx" and fx.reduced_axis(n) is not None:
                args = (args[0], [node.attr("axis")], *args[2:])
                kwargs = {k: v for k, v in kwargs.items() if k != "dim"}
            known[n] = append(self.fx_graph, n.target, *args, meta=n.meta, **kwargs)
        return known[call.nodes[-1]]

    def _moved(self, xs: Sequence[Node], dtype: str, op: str, *args: Any) -> Node:
        """Appends a movement, between dequantize and quantize if its tensor is quantized."""
        q, quantizing = self.params.get(dtype), self.dialect.quantized_decomposed
        if q is None:
            return append(self.fx_graph, self._target(op), xs if op == "cat" else xs[0], *args)
        given = [append(self.fx_graph, quantizing.dequantize_per_tensor.default, x, *q) for x in xs]
        y = append(self.fx_graph, self._target(op), given if op == "cat" else given[0], *args, meta=marked({}))
        return append(self.fx_graph, quantizing.quantize_per_tensor.default, y, *q)

    def _target(self, op: str) -> Any:
        """Returns the op of the program's dialect; the edge dialect copies what ATen views."""
        if self.edge:
            op = "view" if op == "reshape" else op
            op = f"{op}_copy" if hasattr(torch.ops.aten, f"{op}_copy") else op
        return getattr(getattr(self.dialect.aten, op), "Tensor" if op.startswith("slice") else "default")
