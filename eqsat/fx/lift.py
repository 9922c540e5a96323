"""FX -> TensorGraph, at the level of ATen or of the edge dialect, quantized or float.

A quantized tensor's dtype carries its parameters (`aten.QParams` as text), so data movement keeps them and a concat needs them
equal. `dequantize; op; quantize` is one op on quantized tensors (`eqsat/fx/regions.py`): movement between equal parameters is that
movement of the integers, pointwise ops are `fx`, all others opaque. Ops that the backend computes channels last are
written so, between explicit transposes: that is how the price of a layout knows what the backend will add.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field

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
    reduced_axis,
    shape_of,
)
from eqsat.fx.moves import is_movement, move, sources
from eqsat.fx.program import ProgramError, Source
from eqsat.fx.regions import Regions, Step, is_list
from eqsat.fx.route import channels_first, channels_last
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import GraphError, Shape


@dataclass(frozen=True, slots=True)
class Call:
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

    calls: by the attribute "call" of `fx`, `reduce_fx` and opaque nodes. leaves: input name -> FX node. constants: digest -> (FX node,
    whether it has the constant's shape, or lacks leading ones). outputs: the FX outputs that graph.outputs stand for. annotation:
    the meta entry "custom" that ops inserted among quantized ones get.
    """

    source: Source
    graph: TensorGraph = field(default_factory=TensorGraph)
    calls: list[Call] = field(default_factory=list)
    leaves: dict[str, Node] = field(default_factory=dict)
    constants: dict[str, tuple[Node, bool]] = field(default_factory=dict)
    qparams: dict[str, QParams] = field(default_factory=dict)
    outputs: list[Node] = field(default_factory=list)
    annotation: dict | None = None


def lift(source: Source) -> Lifted:
    """Raises ProgramError if an output is no tensor of the graph or the graph language refuses a value."""
    return _Lifter(source).run()


class _Lifter:
    def __init__(self, source: Source):
        self.source, self.lifted = source, Lifted(source)
        self.graph = self.lifted.graph
        self.values: dict[Node, int] = {}
        self.keys: dict[tuple, int] = {}
        self.order = {n: i for i, n in enumerate(source.graph.nodes)}

    def run(self) -> Lifted:
        self.lifted.annotation = next(
            (n.meta["custom"] for n in self.order if is_movement(n) and n.meta.get("custom")), None
        ) or next((n.meta["custom"] for n in self.order if n.meta.get("custom")), None)
        outputs = list(
            dict.fromkeys(o for o in self.source.outputs if isinstance(o, Node) and not self.source.is_constant(o))
        )
        if any(not isinstance(o.meta.get("val"), torch.Tensor) for o in outputs):
            raise ProgramError("an output is neither a tensor nor a constant")
        regions = Regions(self.source)
        steps: dict[Node, Step] = {}
        demanded = set(outputs)
        for n in sorted(self.order, key=self.order.get, reverse=True):
            if n in demanded:
                steps[n] = regions.step(n)
                demanded.update(steps[n].inputs)
        try:
            for n in sorted(steps, key=self.order.get):
                self.values[n] = self._build(n, steps[n])
            self.lifted.outputs = outputs
            self.graph.outputs = [self.values[o] for o in outputs]
        except GraphError as e:
            raise ProgramError(str(e)) from e
        self.graph.output_names = [f"out{i}" for i in range(len(outputs))]
        return self.lifted

    # ---- building -------------------------------------------------------------------------------

    def _build(self, n: Node, step: Step) -> int:
        if step.kind == "leaf":
            return self._leaf(n)
        if step.kind == "moves":
            mark = len(self.graph.nodes)
            try:
                found = self._moves(step)
                if self.graph.nodes[found].shape == shape_of(n):
                    return found
            except (NotImplementedError, GraphError, KeyError, TypeError):
                pass
            del self.graph.nodes[mark:]
            self.graph._constants = {k: v for k, v in self.graph._constants.items() if v < mark}
            return self._opaque(n, step)
        if step.kind == "item":
            return self.graph.add(
                "item", (self.values[step.inputs[0]],), index=n.args[1], shape=shape_of(n), dtype=self._dtype(n)
            )
        if step.kind == "reduce":
            axis = next(a for m in step.nodes if not is_dequantize(m) and (a := reduced_axis(m)) is not None)
            call = self._call(Call(step.nodes, step.inputs), shared=True)
            return self.graph.add(
                "reduce_fx", (self.values[step.inputs[0]],), axis=axis, call=call, dtype=self._dtype(n)
            )
        if step.kind == "pointwise":
            return self._pointwise(n, step)
        return self._opaque(n, step)

    def _dtype(self, n: Node) -> str:
        q = QParams.of(n) if is_quantize(n) else None
        if q:
            self.lifted.qparams[str(q)] = q
            return str(q)
        dtype = n.meta["val"].dtype if isinstance(n.meta["val"], torch.Tensor) else None
        return DTYPES.get(dtype, str(dtype))

    def _leaf(self, n: Node, rank: int = 0, q: QParams | None = None) -> int:
        """An input or a constant, its shape filled up with leading ones to `rank`; integers within q's range become quantized."""
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

    def _moves(self, step: Step) -> int:
        made: dict[Node, int] = {}

        def operand(s: Node) -> int:
            if s in made or s in self.values:
                return made[s] if s in made else self.values[s]
            return self._quantized(s) if is_dequantize(s) else self._leaf(s)

        for n in step.nodes:
            if is_dequantize(n):
                made[n] = self._quantized(n)
            elif is_quantize(n):
                made[n] = made[n.args[0]]
            elif not is_list(n):
                made[n] = move(self.graph, n, [operand(s) for s in sources(n)])
        return made[step.nodes[-1]]

    def _quantized(self, n: Node) -> int:
        """The operand of a dequantize as a tensor quantized with its parameters. Raises GraphError if it may be out of their range."""
        q, x = QParams.of(n), self._aligned(n.args[0], len(shape_of(n)), QParams.of(n))
        dtype = self.graph.nodes[x].dtype
        self.lifted.qparams[str(q)] = q
        if dtype == str(q):
            return x
        if dtype.startswith("Q:") or not q.is_full:
            raise GraphError(f"{n.name} reads integers that may be out of its range")
        return self.graph.add("fx", (x,), call=-1, dtype=str(q))

    def _pointwise(self, n: Node, step: Step) -> int:
        rank = len(shape_of(n))
        params = {m.args[0]: QParams.of(m) for m in step.nodes if is_dequantize(m)}
        operands = [self._aligned(x, rank, params.get(x)) for x in step.inputs]
        call = self._call(Call(step.nodes, step.inputs), shared=True)
        return self.graph.add("fx", operands, call=call, dtype=self._dtype(n))

    def _opaque(self, n: Node, step: Step) -> int:
        operands = [self.values[x] for x in step.inputs]
        shape = shape_of(n) if isinstance(n.meta.get("val"), torch.Tensor) else ()
        attrs = {"tosa": name(step.nodes[0].target), "dtype": self._dtype(n)}
        rank = self._layout(step)
        call = self._call(Call(step.nodes, step.inputs, rank > 0), shared=False)
        if not rank:
            return self.graph.add("opaque", operands, call=call, shape=shape, **attrs)
        last = channels_last(rank)
        x = self.graph.add("transpose", operands, perms=last)
        y = self.graph.add("opaque", (x,), call=call, shape=tuple(shape[d] for d in last), **attrs)
        return self.graph.add("transpose", (y,), perms=channels_first(rank))

    def _layout(self, step: Step) -> int:
        """The rank of an op that the backend computes channels last, 0 for all others."""
        compute = [m for m in step.nodes if not (is_dequantize(m) or is_quantize(m))]
        ranks = [r for m in compute if (r := anchor_rank(m))]
        others = [m for m in compute if not anchor_rank(m)]
        if (
            len(ranks) != 1
            or len(step.inputs) != 1
            or not all(is_pointwise(m) or is_copy(m) or m.target is operator.getitem for m in others)
        ):
            return 0
        shapes: list[Shape] = [shape_of(step.inputs[0])]
        if not isinstance(step.nodes[-1].meta["val"], torch.Tensor):
            return 0
        shapes.append(shape_of(step.nodes[-1]))
        return ranks[0] if all(len(s) == ranks[0] for s in shapes) else 0

    def _call(self, call: Call, shared: bool) -> int:
        """The number of a call; structurally equal `shared` ones (pure, whatever the shapes) have one number."""
        key = tuple(_key(n, call) for n in call.nodes) if shared else ()
        if shared and key in self.keys:
            return self.keys[key]
        self.lifted.calls.append(call)
        if shared:
            self.keys[key] = len(self.lifted.calls) - 1
        return len(self.lifted.calls) - 1


def _key(n: Node, call: Call) -> tuple:
    def reference(m: Node) -> str:
        if m in call.inputs:
            return f"%in{call.inputs.index(m)}"
        return f"%{call.nodes.index(m)}" if m in call.nodes else f"%const:{m.name}"

    args, kwargs = torch.fx.node.map_arg((n.args, dict(n.kwargs)), lambda m: Symbol(reference(m)))
    return str(n.target), repr(args), repr(kwargs)


@dataclass(frozen=True, slots=True)
class Symbol:
    """Stands for a node in the text of a call."""

    name: str
