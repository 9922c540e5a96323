"""FX -> TensorGraph, at the level of ATen or of the edge dialect, quantized or float.

A quantized tensor's dtype carries its parameters (`QParams` as text).
So data movement keeps them, and a concat needs them to be equal.
`dequantize; op; quantize` is one op on quantized tensors.
Nothing may come between an op and its quantize, where the Arm backend looks for parameters.
Source: FoldAndAnnotateQParamsPass of executorch 1.5.
Movement between equal parameters is that movement of the integers.
Pointwise ops are `fx`, reductions `reduce_fx`, and all others opaque.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node

from eqsat.before_lowering.movement import is_list_of_slices, is_movement, move, sources
from eqsat.before_lowering.program import ProgramError, Source
from eqsat.before_lowering.vocabulary import (
    DTYPES,
    QParams,
    aligned,
    is_dequantize,
    is_pointwise,
    is_quantize,
    name,
    operand,
    reduced_axis,
    shape_of,
)
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import GraphError

#: Ops between dequantize and quantize that become one op, at most; more become float ops.
_MOST_FUSED = 4
#: Operands of a pointwise op, at most.
_MOST_OPERANDS = 3


@dataclass(frozen=True, slots=True)
class FxCall:
    """FX nodes that are one op of the tensor language.

    They are copied together, in order, with new values for `inputs`.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[Node, ...]

    @property
    def computing(self) -> list[Node]:
        """The nodes other than quantize and dequantize."""
        return [n for n in self.nodes if not (is_quantize(n) or is_dequantize(n))]

    @property
    def moves(self) -> bool:
        """Whether the call only moves data, between equal parameters if it is quantized."""
        params = [QParams.of(n) for n in self.nodes if is_quantize(n) or is_dequantize(n)]
        return all(map(is_movement, self.computing)) and len(params) != 1 and len(set(params)) <= 1


@dataclass(slots=True)
class Lifted:
    """A program as a TensorGraph.

    calls: by the attribute "call" of `fx`, `reduce_fx` and opaque nodes.
    The attribute is -1 if the integers stay as they are and only the dtype changes.
    leaves: {input name: FX node}.
    constants: {digest: FX node}.
    outputs: the FX nodes that graph.outputs represent.
    annotation: the meta entry "custom" of ops that are inserted among quantized ones.
    """

    source: Source
    graph: TensorGraph = field(default_factory=TensorGraph)
    calls: list[FxCall] = field(default_factory=list)
    leaves: dict[str, Node] = field(default_factory=dict)
    constants: dict[str, Node] = field(default_factory=dict)
    outputs: list[Node] = field(default_factory=list)
    annotation: dict[str, Any] | None = None


def lift(source: Source) -> Lifted:
    """Returns a program as a TensorGraph.

    Raises ProgramError if an output is not a tensor, or if the tensor language refuses a value.
    """
    return _Lifter(source).run()


class _Lifter:
    def __init__(self, source: Source):
        self.source, self.lifted = source, Lifted(source)
        self.graph = self.lifted.graph
        self.values: dict[Node, int] = {}
        self.keys: dict[tuple[tuple[str, str], ...], int] = {}
        self.order = {n: i for i, n in enumerate(source.graph.nodes)}

    def run(self) -> Lifted:
        nodes = dict.fromkeys(o for o in self.source.outputs if isinstance(o, Node))
        outputs = [n for n in nodes if not self.source.is_constant(n)]
        if any(not isinstance(o.meta.get("val"), torch.Tensor) for o in outputs):
            raise ProgramError("an output is neither a tensor nor a constant")
        custom = [n for n in self.order if n.meta.get("custom")]
        marked = next(iter([*filter(is_movement, custom), *custom]), None)
        self.lifted.annotation = marked.meta["custom"] if marked else None
        try:
            for n, call in self._calls(outputs):
                self.values[n] = self._build(n, call)
            self.graph.outputs = [self.values[o] for o in outputs]
        except GraphError as e:
            raise ProgramError(str(e)) from e
        self.lifted.outputs = outputs
        self.graph.output_names = [f"out{i}" for i in range(len(outputs))]
        return self.lifted

    # ---- what makes a value ---------------------------------------------------------------------

    def _calls(self, outputs: list[Node]) -> list[tuple[Node, FxCall]]:
        """Returns (node, call) of all values that the outputs depend on, operands first."""
        found, demanded = [], set(outputs)
        for n in reversed(self.source.graph.nodes):
            if n in demanded:
                call = self._call_of(n)
                found.append((n, call))
                demanded.update(call.inputs)
        return found[::-1]

    def _call_of(self, n: Node) -> FxCall:
        """Returns the call that computes a value; it has no nodes for a leaf."""
        if self.source.is_constant(n) or n.op != "call_function" or all(map(self._is_constant, n.all_input_nodes)):
            return FxCall((), ())
        if is_quantize(n) and QParams.of(n) and (region := self._region(n)):
            return region
        nodes = (operand(n), n) if n.target is operator.getitem and is_movement(n) else (n,)
        return FxCall(nodes, tuple(sources(n)) if is_movement(n) else tuple(n.all_input_nodes))

    def _is_constant(self, n: Node) -> bool:
        return self.source.is_constant(n) or n.op == "get_attr"

    def _region(self, quantize: Node) -> FxCall | None:
        """Returns the call from the dequantizes before `quantize` up to it, None if there is none."""
        found: set[Node] = set()
        stack = [operand(quantize)]
        while stack:
            n = stack.pop()
            constant = self._is_constant(n)
            dequantizes = is_dequantize(n) and QParams.of(n) is not None
            if n in found or constant and not (dequantizes and self.source.is_constant(operand(n))):
                continue
            if n.op != "call_function" or is_dequantize(n) and not dequantizes:
                return None
            found.add(n)
            if not is_dequantize(n):
                stack.extend(n.all_input_nodes)
        inside = found | {quantize}
        compute = [n for n in found if not is_dequantize(n)]
        if len(compute) > _MOST_FUSED or any(not (is_movement(n) or set(n.users) <= inside) for n in compute):
            return None
        nodes = sorted(inside, key=self.order.__getitem__)
        inputs = dict.fromkeys(x for n in nodes for x in n.all_input_nodes if x not in inside)
        return FxCall(tuple(nodes), tuple(inputs))

    # ---- building -------------------------------------------------------------------------------

    def _build(self, n: Node, call: FxCall) -> int:
        if not call.nodes:
            return self._leaf(n)
        if call.moves and not isinstance(n.meta["val"], list | tuple) and (moved := self._moves(n, call)) is not None:
            return moved
        if n.target is operator.getitem and not is_list_of_slices(operand(n)):
            x = self.values[operand(n)]
            return self.graph.add("item", (x,), index=n.args[1], shape=shape_of(n), dtype=self._dtype(n))
        if all(map(is_pointwise, call.nodes)) and _broadcasts(n, call.inputs):
            params = {operand(m): QParams.of(m) for m in call.nodes if is_dequantize(m)}
            operands = [self._aligned(x, len(shape_of(n)), params.get(x)) for x in call.inputs]
            return self.graph.add("fx", operands, call=self._number(call), dtype=self._dtype(n))
        axes = [reduced_axis(m) for m in call.computing]
        if len(axes) == len(call.inputs) == 1 and axes[0] is not None:
            x = self.values[call.inputs[0]]
            return self.graph.add("reduce_fx", (x,), axis=axes[0], call=self._number(call), dtype=self._dtype(n))
        return self._opaque(n, call)

    def _dtype(self, n: Node) -> str:
        q = QParams.of(n)
        if q and is_quantize(n):
            return str(q)
        if not isinstance(n.meta["val"], torch.Tensor):
            return str(None)
        return DTYPES.get(n.meta["val"].dtype, str(n.meta["val"].dtype))

    def _leaf(self, n: Node, rank: int = 0, q: QParams | None = None) -> int:
        """Returns the node of an input or a constant.

        rank: its shape gets leading ones up to this rank.
        q: integers within its range become quantized.
        """
        value = self.source.value(n) if self.source.is_constant(n) else None
        if value is None or value.dtype not in DTYPES or not value.numel():
            if n not in self.values:
                self.lifted.leaves[n.name] = n
                return self.graph.add_input(n.name, shape_of(n), self._dtype(n))
            return self.values[n]
        dtype = self._dtype(n)
        within = q and value.dtype == q.dtype and q.low <= int(value.min()) and int(value.max()) <= q.high
        if q and within and not dtype.startswith("Q:"):
            dtype = str(q)
        shape = aligned(tuple(value.shape), rank)
        found = self.graph.add_const(value.reshape(shape).numpy(), dtype, shape)
        self.lifted.constants.setdefault(self.graph.nodes[found].attr("value").digest, n)
        return found

    def _aligned(self, x: Node, rank: int, q: QParams | None = None) -> int:
        """Returns the node of a value with leading ones up to `rank`."""
        found = self._leaf(x, rank, q) if self.source.is_constant(x) else self.values[x]
        shape = self.graph.nodes[found].shape
        if len(shape) == rank:
            return found
        return self.graph.add("reshape", (found,), shape=aligned(shape, rank))

    def _moves(self, n: Node, call: FxCall) -> int | None:
        """Adds a movement and returns its node; None if the tensor language does not model it."""
        mark = len(self.graph.nodes)
        try:
            found = self._moved(call.nodes)
            if self.graph.nodes[found].shape == shape_of(n):
                return found
        except (NotImplementedError, GraphError, RuntimeError):
            pass
        del self.graph.nodes[mark:]
        self.graph._constants = {k: v for k, v in self.graph._constants.items() if v < mark}
        return None

    def _moved(self, nodes: Sequence[Node]) -> int:
        local: dict[Node, int] = {}
        constant = self.source.is_constant

        def value(s: Node) -> int:
            if s not in local:
                quantized = is_dequantize(s) and s in nodes
                local[s] = self._quantized(s) if quantized else self._leaf(s) if constant(s) else self.values[s]
            return local[s]

        for n in nodes:
            if is_quantize(n):
                local[n] = local[operand(n)]
            elif not is_dequantize(n) and not is_list_of_slices(n):
                local[n] = move(self.graph, n, [value(s) for s in sources(n)])
        return local[nodes[-1]]

    def _quantized(self, n: Node) -> int:
        """Returns the operand of a dequantize as a tensor quantized with its parameters."""
        q = QParams.of(n)
        assert q is not None
        x = self._aligned(operand(n), len(shape_of(n)), q)
        dtype = self.graph.nodes[x].dtype
        if dtype == str(q):
            return x
        if dtype.startswith("Q:") or not q.is_full:
            raise GraphError(f"{n.name} reads integers that may be out of its range")
        return self.graph.add("fx", (x,), call=-1, dtype=str(q))

    def _opaque(self, n: Node, call: FxCall) -> int:
        constant = self.source.is_constant
        call = FxCall(
            tuple(m for m in call.nodes if not constant(m)),
            tuple(x for x in call.inputs if not self._is_constant(x)),
        )
        self.lifted.calls.append(call)
        return self.graph.add(
            "opaque",
            [self.values[x] for x in call.inputs],
            tosa=name(call.nodes[0].target),
            call=len(self.lifted.calls) - 1,
            shape=shape_of(n),
            dtype=self._dtype(n),
        )

    def _number(self, call: FxCall) -> int:
        """Returns the number of a call of pure ops, which is one for structurally equal calls."""
        key = tuple(_key(n, call) for n in call.nodes)
        if key not in self.keys:
            self.keys[key] = len(self.lifted.calls)
            self.lifted.calls.append(call)
        return self.keys[key]


def _broadcasts(result: Node, inputs: Sequence[Node]) -> bool:
    """Tells whether a pointwise op can be an `fx` node: few tensors broadcast, and none of rank 0 decides the dtype."""
    values = [v for x in inputs if isinstance(v := x.meta.get("val"), torch.Tensor)]
    if not 0 < len(values) == len(inputs) <= _MOST_OPERANDS:
        return False
    mixed = len({v.dtype for v in values}) > 1
    if mixed and any(v.ndim == 0 for v in values):
        return False
    return max(v.ndim for v in values) == len(shape_of(result))


def _key(n: Node, call: FxCall) -> tuple[str, str]:
    """Returns target and arguments of a node as text, with nodes by their position in the call."""

    def reference(m: Node) -> str:
        if m in call.inputs:
            return f"%in{call.inputs.index(m)}"
        return f"%{call.nodes.index(m)}" if m in call.nodes else f"%const:{m.name}"

    return str(n.target), repr(torch.fx.node.map_arg((n.args, dict(n.kwargs)), reference))
