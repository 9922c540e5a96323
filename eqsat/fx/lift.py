"""FX -> TensorGraph, at the level of ATen or of the edge dialect, quantized or float.

A quantized tensor's dtype carries its parameters (`aten.QParams` as text), so data movement keeps them and a concat
needs them equal. `dequantize; op; quantize` is one op on quantized tensors (`eqsat/fx/regions.py`): movement between
equal parameters is that movement of the integers, pointwise ops are `fx`, all others opaque. Ops that the backend
computes channels last are written so, between explicit transposes: that is how the price of a layout knows what the
backend will add.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node

from eqsat.fx.aten import (
    DTYPES,
    QParams,
    anchor_rank,
    is_copy,
    is_dequantize,
    is_pointwise,
    is_quantize,
    name,
    operand,
    reduced_axis,
    shape_of,
)
from eqsat.fx.moves import is_movement, move, sources
from eqsat.fx.program import ProgramError, Source
from eqsat.fx.regions import Definition, QuantizedRegions, is_list
from eqsat.fx.route import channels_first, channels_last
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import GraphError


@dataclass(frozen=True, slots=True)
class FxCall:
    """FX nodes that are one op of the tensor language: copied together, in order, with new values for `inputs`.

    layout: operand 0 and the result are channels last in the tensor language and channels first in FX.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[Node, ...]
    layout: bool = False

    @property
    def result(self) -> Node:
        return self.nodes[-1]


@dataclass(slots=True)
class Lifted:
    """A program as a TensorGraph.

    calls: by the attribute "call" of `fx`, `reduce_fx` and opaque nodes. leaves: input name -> FX node. constants:
    digest -> (FX node, whether it has the constant's shape, or lacks leading ones). outputs: the FX outputs that
    graph.outputs stand for. annotation:
    the meta entry "custom" that ops inserted among quantized ones get.
    """

    source: Source
    graph: TensorGraph = field(default_factory=TensorGraph)
    calls: list[FxCall] = field(default_factory=list)
    leaves: dict[str, Node] = field(default_factory=dict)
    constants: dict[str, tuple[Node, bool]] = field(default_factory=dict)
    qparams: dict[str, QParams] = field(default_factory=dict)
    outputs: list[Node] = field(default_factory=list)
    annotation: dict[str, Any] | None = None


def lift(source: Source) -> Lifted:
    """Raises ProgramError if an output is no tensor of the graph or the graph language refuses a value."""
    return _Lifter(source).run()


class _Lifter:
    def __init__(self, source: Source):
        self.source, self.lifted = source, Lifted(source)
        self.graph = self.lifted.graph
        self.values: dict[Node, int] = {}
        self.keys: dict[tuple[tuple[str, str], ...], int] = {}

    def run(self) -> Lifted:
        self.lifted.annotation = _annotation(self.source)
        nodes = dict.fromkeys(o for o in self.source.outputs if isinstance(o, Node))
        outputs = [n for n in nodes if not self.source.is_constant(n)]
        if any(not isinstance(o.meta.get("val"), torch.Tensor) for o in outputs):
            raise ProgramError("an output is neither a tensor nor a constant")
        try:
            for n, definition in self._definitions(outputs):
                self.values[n] = self._build(n, definition)
            self.lifted.outputs = outputs
            self.graph.outputs = [self.values[o] for o in outputs]
        except GraphError as e:
            raise ProgramError(str(e)) from e
        self.graph.output_names = [f"out{i}" for i in range(len(outputs))]
        return self.lifted

    def _definitions(self, outputs: list[Node]) -> list[tuple[Node, Definition]]:
        """How the outputs and all that they are made of are made, operands first."""
        regions = QuantizedRegions(self.source)
        found = []
        demanded = set(outputs)
        for n in reversed(self.source.graph.nodes):
            if n in demanded:
                definition = regions.definition(n)
                found.append((n, definition))
                demanded.update(definition.inputs)
        return found[::-1]

    # ---- building -------------------------------------------------------------------------------

    def _build(self, n: Node, made: Definition) -> int:
        match made.kind:
            case "leaf":
                return self._leaf(n)
            case "moves":
                return self._moves(n, made)
            case "item":
                return self._item(n, made)
            case "reduce":
                return self._reduce(n, made)
            case "pointwise":
                return self._pointwise(n, made)
            case "opaque":
                return self._opaque(n, made)
            case kind:
                raise AssertionError(f"no value is made by {kind!r}")

    def _item(self, n: Node, made: Definition) -> int:
        x = self.values[made.inputs[0]]
        return self.graph.add("item", (x,), index=n.args[1], shape=shape_of(n), dtype=self._dtype(n))

    def _reduce(self, n: Node, made: Definition) -> int:
        axis = next(a for m in made.nodes if not is_dequantize(m) and (a := reduced_axis(m)) is not None)
        call = self._call(FxCall(made.nodes, made.inputs), shared=True)
        x = self.values[made.inputs[0]]
        return self.graph.add("reduce_fx", (x,), axis=axis, call=call, dtype=self._dtype(n))

    def _dtype(self, n: Node) -> str:
        q = QParams.of(n) if is_quantize(n) else None
        if q:
            self.lifted.qparams[str(q)] = q
            return str(q)
        if not isinstance(n.meta["val"], torch.Tensor):
            return str(None)
        dtype = n.meta["val"].dtype
        return DTYPES.get(dtype, str(dtype))

    def _leaf(self, n: Node, rank: int = 0, q: QParams | None = None) -> int:
        """An input or a constant, its shape filled up with leading ones to `rank`; integers within q's range become
        quantized."""
        value = self.source.value(n) if self.source.is_constant(n) else None
        if value is None or value.dtype not in DTYPES or not value.numel():
            if n in self.values:
                return self.values[n]
            self.lifted.leaves[n.name] = n
            return self.graph.add_input(n.name, shape_of(n), self._dtype(n))
        shape = (1,) * (rank - value.ndim) + tuple(value.shape)
        dtype = self._dtype(n)
        if (
            q
            and value.dtype == q.dtype
            and not dtype.startswith("Q:")
            and q.low <= int(value.min())
            and int(value.max()) <= q.high
        ):
            dtype = str(q)
            self.lifted.qparams[dtype] = q
        found = self.graph.add_const(value.reshape(shape).numpy(), dtype, shape)
        digest = self.graph.nodes[found].attr("value").digest
        self.lifted.constants.setdefault(digest, (n, shape == tuple(value.shape)))
        return found

    def _aligned(self, x: Node, rank: int, q: QParams | None = None) -> int:
        found = self._leaf(x, rank, q) if self.source.is_constant(x) else self.values[x]
        shape = self.graph.nodes[found].shape
        return (
            found
            if len(shape) == rank
            else self.graph.add("reshape", (found,), shape=(1,) * (rank - len(shape)) + shape)
        )

    def _moves(self, n: Node, made: Definition) -> int:
        """Data movement, or an opaque op where the tensor language does not model it."""
        mark = len(self.graph.nodes)
        try:
            found = self._moved(made.nodes)
            if self.graph.nodes[found].shape == shape_of(n):
                return found
        except (NotImplementedError, GraphError, KeyError, TypeError):
            pass
        del self.graph.nodes[mark:]
        self.graph._constants = {k: v for k, v in self.graph._constants.items() if v < mark}
        return self._opaque(n, made)

    def _moved(self, nodes: Sequence[Node]) -> int:
        local: dict[Node, int] = {}

        def value(s: Node) -> int:
            if s in local or s in self.values:
                return local[s] if s in local else self.values[s]
            return self._quantized(s) if is_dequantize(s) else self._leaf(s)

        for n in nodes:
            if is_dequantize(n):
                local[n] = self._quantized(n)
            elif is_quantize(n):
                local[n] = local[operand(n)]
            elif not is_list(n):
                local[n] = move(self.graph, n, [value(s) for s in sources(n)])
        return local[nodes[-1]]

    def _quantized(self, n: Node) -> int:
        """The operand of a dequantize as a tensor quantized with its parameters. Raises GraphError if it may be out of
        their range."""
        q = QParams.of(n)
        assert q is not None
        x = self._aligned(operand(n), len(shape_of(n)), q)
        dtype = self.graph.nodes[x].dtype
        self.lifted.qparams[str(q)] = q
        if dtype == str(q):
            return x
        if dtype.startswith("Q:") or not q.is_full:
            raise GraphError(f"{n.name} reads integers that may be out of its range")
        return self.graph.add("fx", (x,), call=-1, dtype=str(q))

    def _pointwise(self, n: Node, made: Definition) -> int:
        rank = len(shape_of(n))
        params = {operand(m): QParams.of(m) for m in made.nodes if is_dequantize(m)}
        operands = [self._aligned(x, rank, params.get(x)) for x in made.inputs]
        call = self._call(FxCall(made.nodes, made.inputs), shared=True)
        return self.graph.add("fx", operands, call=call, dtype=self._dtype(n))

    def _opaque(self, n: Node, made: Definition) -> int:
        operands = [self.values[x] for x in made.inputs]
        shape = shape_of(n) if isinstance(n.meta.get("val"), torch.Tensor) else ()
        attrs = {"tosa": name(made.nodes[0].target), "dtype": self._dtype(n)}
        rank = self._layout(made)
        call = self._call(FxCall(made.nodes, made.inputs, rank > 0), shared=False)
        if not rank:
            return self.graph.add("opaque", operands, call=call, shape=shape, **attrs)
        last = channels_last(rank)
        x = self.graph.add("transpose", operands, perms=last)
        y = self.graph.add("opaque", (x,), call=call, shape=tuple(shape[d] for d in last), **attrs)
        return self.graph.add("transpose", (y,), perms=channels_first(rank))

    def _layout(self, made: Definition) -> int:
        """The rank of an op that the backend computes channels last, 0 for all others."""
        compute = [m for m in made.nodes if not (is_dequantize(m) or is_quantize(m))]
        ranks = [r for m in compute if (r := anchor_rank(m))]
        if len(ranks) != 1 or len(made.inputs) != 1 or is_list(made.nodes[-1]):
            return 0
        if not all(anchor_rank(m) or _keeps_layout(m) for m in compute):
            return 0
        ends = made.inputs[0], made.nodes[-1]
        return ranks[0] if all(len(shape_of(n)) == ranks[0] for n in ends) else 0

    def _call(self, call: FxCall, shared: bool) -> int:
        """The number of a call; structurally equal `shared` ones (pure, whatever the shapes) have one number."""
        key = tuple(_key(n, call) for n in call.nodes) if shared else ()
        if shared and key in self.keys:
            return self.keys[key]
        self.lifted.calls.append(call)
        if shared:
            self.keys[key] = len(self.lifted.calls) - 1
        return len(self.lifted.calls) - 1


def _annotation(source: Source) -> dict[str, Any] | None:
    """The meta entry "custom" of a movement if one has it, else of any node."""
    custom = [n for n in source.graph.nodes if n.meta.get("custom")]
    return next((n.meta["custom"] for n in [*filter(is_movement, custom), *custom]), None)


def _keeps_layout(n: Node) -> bool:
    """True for an op between layouts of one rank that does not care which of them it acts on."""
    return is_pointwise(n) or is_copy(n) or n.target is operator.getitem


def _key(n: Node, call: FxCall) -> tuple[str, str]:
    """Target and arguments of a node as text, nodes by their places in the call."""

    def reference(m: Node) -> str:
        if m in call.inputs:
            return f"%in{call.inputs.index(m)}"
        return f"%{call.nodes.index(m)}" if m in call.nodes else f"%const:{m.name}"

    return str(n.target), repr(torch.fx.node.map_arg((n.args, dict(n.kwargs)), reference))
