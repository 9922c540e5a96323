"""FX -> TensorGraph, at the level of ATen or of the edge dialect, quantized or float.

A quantized tensor's dtype carries its parameters (`fx.dtype_of`), so that movement keeps them.
`dequantize; op; quantize` is one op on quantized tensors, between which nothing may come, as the Arm backend looks for
parameters there (FoldAndAnnotateQParamsPass of executorch 1.5).
Movement between equal parameters is that movement of the integers.
Pointwise ops are `fx`, reductions `reduce_fx`, and all others opaque.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass

import torch
from executorch.exir.passes.constant_prop_pass import get_constant_placeholder_dict
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves

from eqsat.before_lowering import fx
from eqsat.executorch.constants import Constants
from eqsat.executorch.nodes import (
    computing,
    is_dequantize,
    is_pointwise,
    is_quantize,
    name,
    operand,
    overload,
    qparams,
    shape_of,
)
from eqsat.tensor.dtypes import DTYPES
from eqsat.tensor.graph import TensorGraph

Program = ExportedProgram | GraphModule

#: Ops between dequantize and quantize that become one op, at most; more become float ops.
_MOST_FUSED = 4
#: Operands of a pointwise op, at most.
_MOST_OPERANDS = 3


class ProgramError(ValueError):
    """A program that cannot be rewritten; the message says why."""


def read(program: Program) -> ExportedProgram:
    """Returns a program to lift: a GraphModule is exported, and ops that change tensors are replaced.

    Raises ProgramError for dynamic shapes, side effects, and modules whose inputs' shapes are unknown.
    """
    if isinstance(program, GraphModule):
        given = [n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"]
        if not given or not all(isinstance(v, torch.Tensor) for v in given):
            raise ProgramError(
                "the inputs' shapes are unknown (meta['val']): export the module with torch.export first"
            )
        program = torch.export.export(program, tuple(torch.zeros(v.shape, dtype=v.dtype) for v in given))
        program.example_inputs = None
    if program.range_constraints:
        names = ", ".join(map(str, program.range_constraints))
        raise ProgramError(f"dynamic shapes ({names}): export with fixed shapes")
    if any((op := overload(n.target)) and op._schema.is_mutable for n in program.graph.nodes):
        program = program.run_decompositions({})
    assert isinstance(program, ExportedProgram)
    for n in program.graph.nodes:
        # A disabled dropout is impure, but only moves data.
        if n.op == "call_function" and n.is_impure() and not fx.is_movement(n):
            raise ProgramError(f"{n.name} ({n.target}) has side effects")
    return program


@dataclass(frozen=True, slots=True)
class FxCall:
    """FX nodes that are one op of the tensor language.

    They are copied together, in order, with new values for `inputs`.
    """

    nodes: tuple[Node, ...] = ()
    inputs: tuple[Node, ...] = ()

    @property
    def computing(self) -> list[Node]:
        """The nodes other than quantize and dequantize."""
        return [n for n in self.nodes if not (is_quantize(n) or is_dequantize(n))]

    @property
    def key(self) -> str:
        """Targets and arguments, with nodes by their position; equal for calls that compute the same."""
        place = {n: f"%{k}" for k, n in enumerate((*self.inputs, *self.nodes))}
        return str([(n.target, map_arg((n.args, n.kwargs), lambda m: place.get(m, m))) for n in self.nodes])

    @property
    def moves(self) -> bool:
        """Whether the call only moves data, between equal parameters if it is quantized."""
        params = [qparams(n) for n in self.nodes if is_quantize(n) or is_dequantize(n)]
        return all(map(fx.is_movement, self.computing)) and len(params) != 1 and len(set(params)) <= 1

    @property
    def is_pointwise(self) -> bool:
        """Whether it can be an `fx` node: few tensors broadcast, and none of rank 0 decides the dtype."""
        values = [v for x in self.inputs if isinstance(v := x.meta.get("val"), torch.Tensor)]
        if not all(map(is_pointwise, self.nodes)) or not 0 < len(values) == len(self.inputs) <= _MOST_OPERANDS:
            return False
        mixed = len({v.dtype for v in values}) > 1 and any(v.ndim == 0 for v in values)
        return not mixed and max(v.ndim for v in values) == len(shape_of(self.nodes[-1]))


def _is_array(value: torch.Tensor) -> bool:
    """Whether a tensor has elements, in memory, that the tensor language knows."""
    dense = (value.layout, value.device.type) == (torch.strided, "cpu")
    return dense and value.numel() > 0 and fx.dtype_name(value.dtype) in DTYPES


class Lifted:
    """A program that was read, as a TensorGraph.

    calls: by the attribute "call" of `fx`, `reduce_fx` and opaque nodes; inputs have the names of FX nodes.
    constants: {digest: FX node}.
    outputs: the FX nodes that graph.outputs represent.
    """

    def __init__(self, program: ExportedProgram):
        """Builds the graph.

        Raises ProgramError if an output is not a tensor, GraphError if the tensor language refuses a value.
        """
        self.program, self.graph = program, TensorGraph()
        self.calls: dict[str, FxCall] = {}
        self.constants: dict[str, Node] = {}
        self._values: dict[Node, int] = {}
        self._known = get_constant_placeholder_dict(program)
        self._fixed = Constants(program).nodes
        nodes = dict.fromkeys(tree_leaves(program.graph.output_node().args[0]))
        self.outputs = [n for n in nodes if isinstance(n, Node) and n not in self._fixed]
        if any(not isinstance(o.meta.get("val"), torch.Tensor) for o in self.outputs):
            raise ProgramError("an output is neither a tensor nor a constant")
        for n, call in self._calls():
            self._values[n] = self._build(n, call)
        self.graph.outputs = [self._values[o] for o in self.outputs]
        self.graph.output_names = [f"out{i}" for i in range(len(self.outputs))]

    def _calls(self) -> list[tuple[Node, FxCall]]:
        """Returns (node, call) of all values that the outputs depend on, operands first."""
        found, demanded = [], set(self.outputs)
        for n in reversed(self.program.graph.nodes):
            if n in demanded:
                call = self._call_of(n)
                found.append((n, call))
                demanded.update(call.inputs)
        return found[::-1]

    def _call_of(self, n: Node) -> FxCall:
        """Returns the call that computes a value; it has no nodes for a leaf."""
        if n in self._fixed or n.op != "call_function":
            return FxCall()
        if is_quantize(n) and qparams(n) and (region := self._region(n)):
            return region
        if not fx.is_movement(n):
            return FxCall((n,), tuple(n.all_input_nodes))
        return FxCall((operand(n), n) if n.target is operator.getitem else (n,), tuple(fx.sources(n)))

    def _region(self, quantize: Node) -> FxCall | None:
        """Returns the call from the dequantizes before `quantize` up to it, None if there is none."""
        nodes = computing(quantize, self._fixed)
        inside = set(nodes)
        for n in nodes:
            known = qparams(n) if is_dequantize(n) else (inside | self._fixed).issuperset(n.all_input_nodes)
            if not known:
                return None
        call = FxCall(
            tuple(nodes), tuple(dict.fromkeys(x for n in nodes for x in n.all_input_nodes if x not in inside))
        )
        read = any(not (fx.is_movement(n) or inside.issuperset(n.users)) for n in call.computing)
        return None if read or len(call.computing) > _MOST_FUSED else call

    def _build(self, n: Node, call: FxCall) -> int:
        """Adds the op that computes a value and returns its node. Raises GraphError."""
        if not call.nodes:
            return self._leaf(n)
        if call.moves and not fx.is_list_of_slices(n) and (moved := self._moved(n, call)) is not None:
            return moved
        shape, dtype = shape_of(n), fx.dtype_of(n)
        if n.target is operator.getitem and not fx.is_movement(n):
            x = self._values[operand(n)]
            return self.graph.add("item", (x,), index=n.args[1], shape=shape, dtype=dtype)
        axes = [fx.reduced_axis(m) for m in call.computing]
        reduces = len(axes) == len(call.inputs) == 1 and axes[0] is not None
        if call.is_pointwise or reduces:
            self.calls.setdefault(key := call.key, call)
            operands = [self._aligned(x, len(shape)) for x in call.inputs]
            if reduces:
                return self.graph.add("reduce_fx", operands, axis=axes[0], call=key, dtype=dtype)
            return self.graph.add("fx", operands, call=key, dtype=dtype)
        nodes, inputs = (tuple(m for m in ms if m not in self._fixed) for ms in (call.nodes, call.inputs))
        self.calls[n.name] = FxCall(nodes, inputs)
        operands, kind = [self._values[x] for x in inputs], name(nodes[0].target)
        return self.graph.add("opaque", operands, tosa=kind, call=n.name, shape=shape, dtype=dtype)

    def _leaf(self, n: Node) -> int:
        """Adds an input or a constant and returns its node."""
        value = self._known.get(n)
        if value is None or isinstance(value, FakeTensor) or not _is_array(value):
            return self.graph.add_input(n.name, shape_of(n), fx.dtype_of(n))
        found = self.graph.add_const(value.detach().numpy(), fx.dtype_of(n, value), tuple(value.shape))
        self.constants.setdefault(self.graph.nodes[found].attr("value").digest, n)
        return found

    def _aligned(self, x: Node, rank: int) -> int:
        """Returns the node of a value with leading ones up to `rank`."""
        found = self._values[x]
        shape = self.graph.nodes[found].shape
        return found if len(shape) == rank else self.graph.add("reshape", (found,), shape=fx.aligned(shape, rank))

    def _moved(self, n: Node, call: FxCall) -> int | None:
        """Adds a movement and returns its node; None if the tensor language does not model it."""
        local: dict[Node, int] = {}
        try:
            for m in call.nodes:
                if is_quantize(m):
                    local[m] = local[operand(m)]
                elif q := qparams(m):
                    local[m] = self._values[operand(m)]
                    if self.graph.nodes[local[m]].dtype != fx.quantized(q):
                        return None  # the integers have other parameters
                elif not fx.is_list_of_slices(m):
                    read = [local[s] if s in local else self._values[s] for s in fx.sources(m)]
                    local[m] = fx.move(self.graph, m, read)
        except (RuntimeError, ValueError):
            return None
        return local[n] if self.graph.nodes[local[n]].shape == shape_of(n) else None
