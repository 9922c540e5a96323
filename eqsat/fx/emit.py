"""TensorGraph -> FX: writes a graph that `eqsat.fx.lift` read, or one equal to it, as a program of the same kind and
signature.

Every value is kept as a base and a pending Move. Channels-last layouts that only stand for what the backend will do
stay pending through pointwise ops, concats, slices and pads, and vanish where an op takes them back; what remains is
written by `eqsat.fx.route`.
On quantized tensors each movement is written as dequantize, movement, quantize with the tensor's own parameters, the
form in which PT2E writes it and backends expect it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch.fx import Node

from eqsat.fx.aten import arguments, overload, reduced_axis
from eqsat.fx.lift import FxCall, Lifted
from eqsat.fx.program import Program, ProgramBuilder, ProgramError
from eqsat.fx.route import channels_first, channels_last, plain, staged, to_last
from eqsat.target import Family
from eqsat.tensor.graph import Node as TensorNode
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.movement import Move
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Shape

#: Forms of ops in FX that act on channels first as well as on channels last.
_EITHER_LAYOUT = ("call", "reduction", "axial", "concat")


@dataclass(frozen=True, slots=True)
class PendingValue:
    """`pending` of an FX node, or of a constant (`data`) whose FX node, if it has one, may lack leading unit dims."""

    base: Node | None
    pending: Move
    data: torch.Tensor | None = None

    @property
    def node(self) -> Node:
        """The FX node of a value that is no constant."""
        assert self.base is not None
        return self.base


def emit(lifted: Lifted, graph: TensorGraph, family: Family) -> Program:
    """The program of `graph`, whose inputs and outputs are those of `lifted`, for a family of NPUs. Raises ProgramError
    for what FX cannot express."""
    try:
        return _Emitter(lifted, graph, family).run()
    except (ValueError, RuntimeError, NotImplementedError) as e:
        raise ProgramError(f"the rewritten graph cannot be written: {type(e).__name__}: {e}") from e


class _Emitter:
    def __init__(self, lifted: Lifted, graph: TensorGraph, family: Family):
        self.lifted, self.graph, self.family = lifted, graph, family
        self.builder = ProgramBuilder(lifted.source)
        self.values: dict[int, PendingValue] = {}
        self.written: dict[tuple[Any, ...], Node] = {}
        edge = any(type(n.target).__name__ == "EdgeOpOverload" for n in lifted.source.graph.nodes)
        self.ops = _edge_ops() if edge else _aten_ops()
        #: Ops of one operand that act axis by axis: (node, operand, where FX has the node's axes) -> result.
        self.axial: dict[str, Callable[[TensorNode, Node, Sequence[int]], Node]] = {
            "reduce_fx": self._reduce,
            "slice": self._slice,
            "pad": self._pad,
            "tile": self._tile,
            "reverse": self._reverse,
        }
        #: By the form that an op has in FX.
        self.write: dict[str, Callable[[TensorNode, list[PendingValue]], PendingValue]] = {
            "move": self._move,
            "call": self._fx,
            "reduction": self._axial,
            "axial": self._axial,
            "concat": self._concat,
            "opaque": self._opaque,
            "item": self._item,
        }
        self.wanted = self._before_layout()
        self.channels_first: set[Node] = set()  # FX nodes that the backend has channels last

    def run(self) -> Program:
        """Writes the live nodes in order and finishes the program. Raises ProgramError."""
        for i in self.graph.inputs:
            leaf = self.lifted.leaves[self.graph.nodes[i].attr("name")]
            self.values[i] = self._plain(
                self.builder.nodes[leaf] if leaf in self.builder.nodes else self.builder.constant(leaf),
                self.graph.nodes[i].shape,
            )
        for n in self.graph.live():
            node = self.graph.nodes[n]
            if node.op == "const":
                self.values[n] = self._constant(node)
            elif node.op != "input":
                form = OPS[node.op].fx
                if form not in self.write:
                    raise ProgramError(f"{node.op} has no form in FX")
                self.at = n
                self.values[n] = self.write[form](node, [self.values[i] for i in node.inputs])
        made = {}
        for old, n in zip(self.lifted.outputs, self.graph.outputs, strict=True):
            found = self._settled(self.values[n], self.graph.nodes[n].dtype)
            if found.op != "call_function" and old.op == "call_function":
                found = self._apply("clone", [found], self.graph.nodes[n].dtype)
            made[old] = found
        outputs = [
            made.get(o) or (self.builder.constant(o) if isinstance(o, Node) else o) for o in self.lifted.source.outputs
        ]
        return self.builder.finish(outputs)

    # ---- values -----------------------------------------------------------------------------------

    def _plain(self, node: Node, shape: Shape) -> PendingValue:
        return PendingValue(node, Move.reshape(shape, shape))

    def _constant(self, node: TensorNode) -> PendingValue:
        value = node.attr("value")
        origin, _ = self.lifted.constants.get(value.digest, (None, False))
        base = self.builder.constant(origin) if origin is not None else None
        return PendingValue(base, Move.reshape(node.shape, node.shape), torch.from_numpy(value.data.copy()))

    def _settled(self, v: PendingValue, dtype: str, first: bool = False) -> Node:
        """The FX node that has the value, its pending movement written. first: it is channels first for an op with a
        layout."""
        key: tuple[Any, ...]
        if v.data is None:
            if v.pending.is_identity:
                return v.node
            key = v.node, v.pending, dtype, first
            if key not in self.written:
                self.written[key] = self._moved(v.node, v.pending, dtype, first)
            return self.written[key]
        if v.pending.is_identity and v.base is not None and tuple(v.base.meta["val"].shape) == v.pending.out_shape:
            return v.base
        moved = v.data.reshape(-1)[torch.from_numpy(v.pending.indices())]
        key = moved.dtype, tuple(moved.shape), moved.numpy().tobytes()
        if key not in self.written:
            self.written[key] = self.builder.new_constant(moved)
        return self.written[key]

    def _broadcast(self, v: PendingValue, dtype: str, first: bool) -> Node:
        """As `_settled` for an operand of a pointwise op, where leading unit dims need not be written."""
        rank = len(v.pending.out_shape)
        if v.base is not None and v.pending.is_view:
            shape = tuple(v.base.meta["val"].shape)
            if (1,) * (rank - len(shape)) + shape == v.pending.out_shape:
                return v.base
        return self._settled(v, dtype, first)

    def _moved(self, x: Node, m: Move, dtype: str, first: bool) -> Node:
        q = self.lifted.qparams.get(dtype)
        if q is None:
            route, cancels = plain(m), False
        else:
            route, cancels = staged(m, q.dtype.itemsize, self.family, x in self.channels_first, first)
        for op, values in route:
            x = self._apply(op, [x], dtype, values)
        if cancels:
            self.channels_first.add(x)
        return x

    def _apply(self, op: str, xs: Sequence[Node], dtype: str, *args: Any) -> Node:
        """Appends a movement; on a quantized tensor between its dequantize and quantize."""
        q = self.lifted.qparams.get(dtype)
        meta = {"custom": self.lifted.annotation} if q and self.lifted.annotation else {}
        given = [self.builder.call(self.ops["dequantize"], x, *q.args) for x in xs] if q else list(xs)
        first = given if op == "cat" else given[0]
        try:
            y = self.builder.call(self.ops[op], first, *args, meta=meta)
        except (RuntimeError, ValueError):
            if op != "view":
                raise
            y = self.builder.call(self.ops["reshape"], first, *args, meta=meta)  # of a tensor that is not contiguous
        return self.builder.call(self.ops["quantize"], y, *q.args) if q else y

    # ---- layouts that stay pending ----------------------------------------------------------------

    def _before_layout(self) -> set[int]:
        """Nodes whose result an op takes back to channels first, directly or through ops that can act on either
        layout."""
        wanted: set[int] = set()
        readers = self.graph.readers()
        for n in reversed(self.graph.live()):
            node = self.graph.nodes[n]
            for r in readers[n]:
                reader = self.graph.nodes[r]
                form = OPS[reader.op].fx
                passes = form == "move" or form in _EITHER_LAYOUT and len(reader.shape) == len(node.shape)
                if passes and r in wanted or reader.op == "opaque" and self.lifted.calls[reader.attr("call")].layout:
                    wanted.add(n)
        return wanted

    @staticmethod
    def _turned(v: PendingValue) -> PendingValue | None:
        """The value channels first, if that is expressible as one movement."""
        rank = len(v.pending.out_shape)
        m = v.pending.then(Move.transpose(v.pending.out_shape, channels_first(rank)))
        return None if m is None else PendingValue(v.base, m, v.data)

    def _waiting(self, node: Node) -> PendingValue:
        self.channels_first.add(node)
        return PendingValue(node, to_last(tuple(node.meta["val"].shape)))

    # ---- ops --------------------------------------------------------------------------------------

    def _move(self, node: TensorNode, xs: list[PendingValue]) -> PendingValue:
        (v,) = xs
        before = v.pending.out_shape
        m = Move.transpose(before, node.attr("perms")) if node.op == "transpose" else Move.reshape(before, node.shape)
        joined = v.pending.then(m)
        if joined is not None:
            return PendingValue(v.base, joined, v.data)
        return PendingValue(self._settled(v, node.dtype), m)

    def _operands(self, node: TensorNode, xs: list[PendingValue]) -> tuple[list[PendingValue], bool]:
        """Operands as FX will read them, and whether they are channels first while the node is channels last: whichever
        moves less."""
        if len(node.shape) < 3 or any(len(v.pending.out_shape) != len(node.shape) for v in xs):
            return xs, False
        turned = [t for v in xs if (t := self._turned(v)) is not None]
        if len(turned) < len(xs):
            return xs, False
        last, first = (_work(vs) for vs in (xs, turned))
        # a movement left pending by a dequantize would be done on floats, outside the NPU
        inside = len({t in self.lifted.qparams for t in (node.dtype, *self._dtypes(node))}) == 1
        waits = inside and first[0] < last[0] or self.at in self.wanted and first <= last
        return (turned, True) if waits else (xs, False)

    def _dtypes(self, node: TensorNode) -> list[str]:
        return [self.graph.nodes[i].dtype for i in node.inputs]

    def _result(self, made: Node, node: TensorNode, waits: bool) -> PendingValue:
        return self._waiting(made) if waits else self._plain(made, node.shape)

    def _fx(self, node: TensorNode, xs: list[PendingValue]) -> PendingValue:
        if node.attr("call") < 0:
            return xs[0]  # the same integers under another name
        xs, waits = self._operands(node, xs)
        operands = [self._broadcast(v, t, waits) for v, t in zip(xs, self._dtypes(node), strict=True)]
        call = self.lifted.calls[node.attr("call")]
        rank = len(node.shape)
        if max(len(x.meta["val"].shape) for x in operands) < rank:
            operands = [self._settled(v, t, waits) for v, t in zip(xs, self._dtypes(node), strict=True)]
        return self._result(self._copied(call, operands), node, waits)

    def _copied(self, call: FxCall, operands: Sequence[Node], axis: int | None = None) -> Node:
        known = dict(zip(call.inputs, operands, strict=True))
        for n in call.nodes:
            new = (
                self.builder.copy(n, known)
                if axis is None or reduced_axis(n) is None
                else self._reduced(n, known, axis)
            )
            known[n] = new
        return known[call.result]

    def _reduced(self, n: Node, known: Mapping[Node, Node], axis: int) -> Node:
        given = {**arguments(n), "dim": [axis]}
        schema = overload(n.target)._schema.arguments
        args = tuple(given[a.name] for a in schema if not a.kwarg_only)
        kwargs = {a.name: given[a.name] for a in schema if a.kwarg_only and given[a.name] is not None}
        args = torch.fx.node.map_arg(args, lambda m: known[m])
        return self.builder.call(n.target, *args, meta=dict(n.meta), **kwargs)

    def _axial(self, node: TensorNode, xs: list[PendingValue]) -> PendingValue:
        xs, waits = self._operands(node, xs)
        rank = len(node.shape)
        axes = channels_last(rank) if waits else tuple(range(rank))
        x = self._settled(xs[0], self._dtypes(node)[0], waits)
        return self._result(self.axial[node.op](node, x, axes), node, waits)

    def _reduce(self, node: TensorNode, x: Node, axes: Sequence[int]) -> Node:
        return self._copied(self.lifted.calls[node.attr("call")], [x], axes[node.attr("axis")])

    def _slice(self, node: TensorNode, x: Node, axes: Sequence[int]) -> Node:
        shape = tuple(x.meta["val"].shape)
        windows = _placed(list(zip(node.attr("start"), node.attr("size"), strict=True)), axes)
        for d, (start, size) in enumerate(windows):
            if size != shape[d]:
                x = self._apply("slice", [x], node.dtype, d, start, start + size)
        return x

    def _pad(self, node: TensorNode, x: Node, axes: Sequence[int]) -> Node:
        pads = _placed(list(zip(node.attr("pads")[::2], node.attr("pads")[1::2], strict=True)), axes)
        while pads and pads[0] == (0, 0):
            pads.pop(0)
        return self._apply("pad", [x], node.dtype, [n for pair in reversed(pads) for n in pair], node.attr("value")[0])

    def _reverse(self, node: TensorNode, x: Node, axes: Sequence[int]) -> Node:
        return self._apply("flip", [x], node.dtype, [axes[node.attr("axis")]])

    def _tile(self, node: TensorNode, x: Node, axes: Sequence[int]) -> Node:
        multiples, shape = _placed(node.attr("multiples"), axes), tuple(x.meta["val"].shape)
        if all(m == 1 or n == 1 for m, n in zip(multiples, shape, strict=True)):
            return self._apply("expand", [x], node.dtype, [m * n for m, n in zip(multiples, shape, strict=True)])
        return self._apply("repeat", [x], node.dtype, multiples)

    def _concat(self, node: TensorNode, xs: list[PendingValue]) -> PendingValue:
        xs, waits = self._operands(node, xs)
        axis = channels_last(len(node.shape))[node.attr("axis")] if waits else node.attr("axis")
        operands = [self._settled(v, node.dtype, waits) for v in xs]
        return self._result(self._apply("cat", operands, node.dtype, axis), node, waits)

    def _opaque(self, node: TensorNode, xs: list[PendingValue]) -> PendingValue:
        call = self.lifted.calls[node.attr("call")]
        if not call.layout:
            return self._plain(
                self._copied(call, [self._settled(v, t) for v, t in zip(xs, self._dtypes(node), strict=True)]),
                node.shape,
            )
        dtype, v = self._dtypes(node)[0], self._turned(xs[0])
        if v is None:
            settled = self._settled(xs[0], dtype)
            shape = tuple(settled.meta["val"].shape)
            v = PendingValue(settled, Move.transpose(shape, channels_first(len(shape))))
        return self._waiting(self._copied(call, [self._settled(v, dtype, True)]))

    def _item(self, node: TensorNode, xs: list[PendingValue]) -> PendingValue:
        made = self.builder.call(operator.getitem, xs[0].node, node.attr("index"))
        return self._plain(made, node.shape)


def _placed(values: Sequence[Any], axes: Sequence[int]) -> list[Any]:
    """Values by axis of the node as values by axis of FX."""
    out = list(values)
    for axis, v in zip(axes, values, strict=True):
        out[axis] = v
    return out


def _work(operands: Sequence[PendingValue]) -> tuple[int, int]:
    """What it takes to settle operands: elements that move, and among how many atomic axes."""
    moving = [v.pending for v in operands if v.data is None and not v.pending.is_view]
    return sum(prod(m.out_shape) for m in moving), sum(len(m.axes) for m in moving)


def _aten_ops() -> dict[str, Any]:
    aten, qd = torch.ops.aten, torch.ops.quantized_decomposed
    return {
        "permute": aten.permute.default,
        "view": aten.view.default,
        "reshape": aten.reshape.default,
        "cat": aten.cat.default,
        "slice": aten.slice.Tensor,
        "pad": aten.constant_pad_nd.default,
        "flip": aten.flip.default,
        "expand": aten.expand.default,
        "repeat": aten.repeat.default,
        "clone": aten.clone.default,
        "quantize": qd.quantize_per_tensor.default,
        "dequantize": qd.dequantize_per_tensor.default,
    }


def _edge_ops() -> dict[str, Any]:
    from executorch.exir.dialects._ops import ops

    aten, qd = ops.edge.aten, ops.edge.quantized_decomposed
    return {
        "permute": aten.permute_copy.default,
        "view": aten.view_copy.default,
        "reshape": aten.view_copy.default,
        "cat": aten.cat.default,
        "slice": aten.slice_copy.Tensor,
        "pad": aten.constant_pad_nd.default,
        "flip": aten.flip.default,
        "expand": aten.expand_copy.default,
        "repeat": aten.repeat.default,
        "clone": aten.alias_copy.default,
        "quantize": qd.quantize_per_tensor.default,
        "dequantize": qd.dequantize_per_tensor.default,
    }
