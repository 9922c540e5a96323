"""TensorGraph: a small typed tensor language at the level of TOSA 1.0.

A graph is a list of immutable nodes in topological order; operands are node numbers.
`OPS` is the one table of truth: every operator states there its tensor operands, the constant
operands that are folded into attributes, how it infers shape and dtype, its numpy semantics
on integers and how it treats axes. Readers, writers, rules and checkers look it up.

Operator names are TOSA's in lower case, attribute names are those of the TOSA schema in snake case.

>>> g = TensorGraph()
>>> x = g.add_input("x", (1, 2, 2, 3), "INT8")
>>> g.outputs.append(g.add("transpose", (x,), perms=(0, 3, 1, 2)))
>>> g.nodes[g.outputs[0]].shape
(1, 3, 2, 2)

Source of the semantics: TOSA specification 1.0, chapter "Operators".
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eqsat.tensor import numerics

Shape = tuple[int, ...]

#: dtype -> numpy storage. INT48 lives in int64.
STORAGE: dict[str, type] = {
    "BOOL": np.bool_,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT48": np.int64,
    "FP32": np.float32,
    "FP16": np.float16,
}
#: dtype -> bytes per element as Vela stores it.
BYTES = {"BOOL": 1, "INT4": 1, "INT8": 1, "INT16": 2, "INT32": 4, "INT48": 8, "FP32": 4, "FP16": 2, "BF16": 2}


class GraphError(ValueError):
    """A graph that breaks a rule of the language; the message names the node and the remedy."""


class Const:
    """An immutable array with value equality by content hash.

    `data` is a read-only numpy array in the dtype's storage, or raw bytes (uint8) for dtypes that
    numpy cannot hold (`INT4`, `BF16`, the 8-bit floats): those are carried, never computed with.
    """

    __slots__ = ("data", "digest")

    def __init__(self, data: np.ndarray, dtype: str, shape: Sequence[int] | None = None):
        data = np.array(data, order="C") if data.flags.writeable else np.ascontiguousarray(data).reshape(data.shape)
        data.setflags(write=False)
        self.data = data
        key = f"{dtype}|{tuple(data.shape if shape is None else shape)}|".encode()
        self.digest = hashlib.blake2b(key + data.tobytes(), digest_size=16).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Const({self.digest[:8]})"


Attrs = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Node:
    """One operator instance: `attrs` is a sorted tuple of (name, hashable value)."""

    op: str
    inputs: tuple[int, ...]
    attrs: Attrs
    shape: Shape
    dtype: str

    def attr(self, name: str) -> Any:
        for k, v in self.attrs:
            if k == name:
                return v
        raise KeyError(f"{self.op} has no attribute {name!r}")


@dataclass(frozen=True, slots=True)
class Type:
    """Shape and dtype of a tensor."""

    shape: Shape
    dtype: str

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements * BYTES.get(self.dtype, 4)


def attrs_of(values: Mapping[str, Any]) -> Attrs:
    """Normal form of an attribute mapping: sorted, lists and arrays as tuples."""
    return tuple(sorted((k, tuple(v) if isinstance(v, list) else v) for k, v in values.items()))


Infer = Callable[[Mapping[str, Any], Sequence[Type]], Type]
Evaluate = Callable[[Mapping[str, Any], Sequence[np.ndarray], Type], np.ndarray]


@dataclass(frozen=True, slots=True)
class Op:
    """One line of the op table.

    operands: number of tensor operands (-1: any number).
    folded: constant operands behind them, as (attribute, dtype). The dtype is a TOSA name, "in<k>" for
        operand k's, or "out" for the result's; a rescale's multiplier is "scale".
    kind: how the op treats axes, which decides by which rules data movement crosses it:
        leaf, move, pointwise, axial (acts along some axes, pointwise in the others), concat, mac, opaque.
    """

    name: str
    operands: int
    kind: str
    infer: Infer
    evaluate: Evaluate | None
    folded: tuple[tuple[str, str], ...] = ()


OPS: dict[str, Op] = {}


def _op(name: str, operands: int, kind: str, infer: Infer, evaluate: Evaluate | None, *folded: tuple[str, str]) -> None:
    OPS[name] = Op(name, operands, kind, infer, evaluate, folded)


# ---- shape and dtype inference ------------------------------------------------------------------


def broadcast(shapes: Iterable[Shape]) -> Shape:
    """TOSA broadcasting: equal ranks, each dim equal or 1."""
    shapes = list(shapes)
    if len({len(s) for s in shapes}) > 1:
        raise GraphError(f"operands of different ranks {shapes}: TOSA broadcasts equal ranks only; reshape first")
    out = []
    for dims in zip(*shapes, strict=True):
        size = max(dims)
        if any(d not in (1, size) for d in dims):
            raise GraphError(f"shapes {shapes} do not broadcast")
        out.append(size)
    return tuple(out)


def _same(attrs: Mapping, xs: Sequence[Type]) -> Type:
    return xs[0]


def _axis(attrs: Mapping, rank: int) -> int:
    axis = attrs["axis"]
    if not 0 <= axis < rank:
        raise GraphError(f"axis {axis} is none of the {rank} axes")
    return axis


def _alike(xs: Sequence[Type]) -> None:
    if len({x.dtype for x in xs}) != 1:
        raise GraphError(f"operands of different dtypes {[x.dtype for x in xs]}: cast or rescale first")


def _pointwise(dtype: str | None = None) -> Infer:
    def infer(attrs: Mapping, xs: Sequence[Type]) -> Type:
        _alike(xs[-2:])  # the condition of a select is BOOL
        if len(xs) == 3 and xs[0].dtype != "BOOL":
            raise GraphError(f"the condition is {xs[0].dtype}, not BOOL")
        return Type(broadcast(x.shape for x in xs), dtype or xs[-1].dtype)

    return infer


def _with_dtype(attrs: Mapping, xs: Sequence[Type]) -> Type:
    return Type(xs[0].shape, attrs["dtype"])


def _rescale(attrs: Mapping, xs: Sequence[Type]) -> Type:
    channels = xs[0].shape[-1] if attrs["per_channel"] else 1
    if not len(attrs["multiplier"]) == len(attrs["shift"]) == channels:
        raise GraphError(
            f"{len(attrs['multiplier'])} multipliers and {len(attrs['shift'])} shifts for {channels} channels"
        )
    return _with_dtype(attrs, xs)


def _mul(attrs: Mapping, xs: Sequence[Type]) -> Type:
    _alike(xs)
    integer = xs[0].dtype.startswith("INT")
    return Type(broadcast(x.shape for x in xs), "INT32" if integer else xs[0].dtype)


def _table(attrs: Mapping, xs: Sequence[Type]) -> Type:
    entries, dtype = {"INT8": (256, "INT8"), "INT16": (513, "INT32")}[xs[0].dtype]
    if len(attrs["table"]) != entries:
        raise GraphError(f"a table of {len(attrs['table'])} entries for {xs[0].dtype}, expected {entries}")
    return Type(xs[0].shape, dtype)


def _transpose(attrs: Mapping, xs: Sequence[Type]) -> Type:
    perm, shape = attrs["perms"], xs[0].shape
    if sorted(perm) != list(range(len(shape))):
        raise GraphError(f"perms {perm} is no permutation of the {len(shape)} axes of {shape}")
    return Type(tuple(shape[p] for p in perm), xs[0].dtype)


def _reshape(attrs: Mapping, xs: Sequence[Type]) -> Type:
    if any(d < 1 for d in attrs["shape"]) or math.prod(attrs["shape"]) != xs[0].elements:
        raise GraphError(f"cannot reshape {xs[0].shape} to {attrs['shape']}: different numbers of elements")
    return Type(tuple(attrs["shape"]), xs[0].dtype)


def _concat(attrs: Mapping, xs: Sequence[Type]) -> Type:
    axis = _axis(attrs, min(len(x.shape) for x in xs))
    _alike(xs)
    rest = {x.shape[:axis] + x.shape[axis + 1 :] for x in xs}
    if len(rest) != 1:
        raise GraphError(f"cannot concatenate {[x.shape for x in xs]} along axis {axis}")
    shape = list(xs[0].shape)
    shape[axis] = sum(x.shape[axis] for x in xs)
    return Type(tuple(shape), xs[0].dtype)


def _slice(attrs: Mapping, xs: Sequence[Type]) -> Type:
    for d, start, size in zip(xs[0].shape, attrs["start"], attrs["size"], strict=True):
        if start < 0 or size < 1 or start + size > d:
            raise GraphError(f"slice start {attrs['start']} size {attrs['size']} leaves the tensor {xs[0].shape}")
    return Type(tuple(attrs["size"]), xs[0].dtype)


def _pad(attrs: Mapping, xs: Sequence[Type]) -> Type:
    p = attrs["pads"]
    if len(p) != 2 * len(xs[0].shape) or min(p, default=0) < 0:
        raise GraphError(f"pads {p} for the shape {xs[0].shape}: give two numbers, not below 0, per axis")
    return Type(tuple(d + p[2 * i] + p[2 * i + 1] for i, d in enumerate(xs[0].shape)), xs[0].dtype)


def _tile(attrs: Mapping, xs: Sequence[Type]) -> Type:
    if min(attrs["multiples"], default=1) < 1:
        raise GraphError(f"multiples {attrs['multiples']} below 1")
    return Type(tuple(d * m for d, m in zip(xs[0].shape, attrs["multiples"], strict=True)), xs[0].dtype)


def _reverse(attrs: Mapping, xs: Sequence[Type]) -> Type:
    _axis(attrs, len(xs[0].shape))
    return xs[0]


def _reduce(attrs: Mapping, xs: Sequence[Type]) -> Type:
    shape = list(xs[0].shape)
    shape[_axis(attrs, len(shape))] = 1
    return Type(tuple(shape), xs[0].dtype)


def _argmax(attrs: Mapping, xs: Sequence[Type]) -> Type:
    a = _axis(attrs, len(xs[0].shape))
    return Type(xs[0].shape[:a] + xs[0].shape[a + 1 :], "INT32")


def _window(size: int, before: int, after: int, kernel: int, stride: int, dilation: int = 1) -> int:
    if min(kernel, stride, dilation) < 1 or min(before, after) < 0:
        raise GraphError(
            f"a window of {kernel} with stride {stride}, dilation {dilation} and pads {before}, {after}: pads are at least 0, the others 1"
        )
    return (size - 1 + before + after - (kernel - 1) * dilation) // stride + 1


def _accumulator(attrs: Mapping, xs: Sequence[Type]) -> str:
    return {"INT8": "INT32", "INT16": "INT48", "INT4": "INT32"}.get(xs[0].dtype, xs[0].dtype)


def _channels(x: int, weights: int, bias: Shape, out: int) -> None:
    if x != weights or bias not in ((out,), (1,)):
        raise GraphError(
            f"{x} channels meet weights for {weights}; the bias of shape {bias} is for {out} output channels"
        )


def _conv(kh_axis: int, channels: Callable[[Shape], int]) -> Infer:
    def infer(attrs: Mapping, xs: Sequence[Type]) -> Type:
        (n, h, w, c), k = xs[0].shape, xs[1].shape
        _channels(c, k[-1 if kh_axis else 2], xs[2].shape, channels(k))
        top, bottom, left, right = attrs["pad"]
        (sy, sx), (dy, dx) = attrs["stride"], attrs["dilation"]
        return Type(
            (
                n,
                _window(h, top, bottom, k[kh_axis], sy, dy),
                _window(w, left, right, k[kh_axis + 1], sx, dx),
                channels(k),
            ),
            _accumulator(attrs, xs),
        )

    return infer


def _transpose_conv(attrs: Mapping, xs: Sequence[Type]) -> Type:
    (n, h, w, c), (oc, kh, kw, ic) = xs[0].shape, xs[1].shape
    _channels(c, ic, xs[2].shape, oc)
    top, bottom, left, right = attrs["out_pad"]
    sy, sx = attrs["stride"]
    if min(sy, sx) < 1:
        raise GraphError(f"strides {sy}, {sx} below 1")
    return Type((n, (h - 1) * sy + top + bottom + kh, (w - 1) * sx + left + right + kw, oc), _accumulator(attrs, xs))


def _matmul(attrs: Mapping, xs: Sequence[Type]) -> Type:
    (n, h, c), (m, d, w) = xs[0].shape, xs[1].shape
    if (n, c) != (m, d):
        raise GraphError(f"cannot multiply {xs[0].shape} by {xs[1].shape}")
    return Type((n, h, w), _accumulator(attrs, xs))


def _pool(attrs: Mapping, xs: Sequence[Type]) -> Type:
    n, h, w, c = xs[0].shape
    top, bottom, left, right = attrs["pad"]
    (ky, kx), (sy, sx) = attrs["kernel"], attrs["stride"]
    return Type((n, _window(h, top, bottom, ky, sy), _window(w, left, right, kx, sx), c), xs[0].dtype)


def _declared(attrs: Mapping, xs: Sequence[Type]) -> Type:
    return Type(attrs["shape"], attrs["dtype"])


def _fx(attrs: Mapping, xs: Sequence[Type]) -> Type:
    return Type(broadcast(x.shape for x in xs), attrs["dtype"])


def _reduce_fx(attrs: Mapping, xs: Sequence[Type]) -> Type:
    return Type(_reduce(attrs, xs).shape, attrs["dtype"])


def _no_infer(attrs: Mapping, xs: Sequence[Type]) -> Type:
    raise GraphError("a leaf has no inferred type")


# ---- the table ----------------------------------------------------------------------------------

_ZP = (("in_zp", "in0"), ("out_zp", "out"))

_op("input", 0, "leaf", _no_infer, None)
_op("const", 0, "leaf", _no_infer, None)
_op("item", 1, "opaque", _declared, None)  # one result of an opaque op with several
_op("opaque", -1, "opaque", _declared, None)

_op("fx", -1, "pointwise", _fx, None)  # FX ops above TOSA's level, by the attribute "call" (eqsat/fx/lift.py)
_op("reduce_fx", 1, "axial", _reduce_fx, None)

_op("transpose", 1, "move", _transpose, numerics.transpose)
_op("reshape", 1, "move", _reshape, numerics.reshape, ("shape", "SHAPE"))
_op("identity", 1, "pointwise", _same, numerics.identity)

for _name in ("abs", "bitwise_not", "clz", "logical_not"):
    _op(_name, 1, "pointwise", _same, numerics.UNARY[_name])
_op("negate", 1, "pointwise", _same, numerics.negate, *_ZP)
_op("clamp", 1, "pointwise", _same, numerics.clamp)
_op("table", 1, "pointwise", _table, numerics.table, ("table", "table"))
_op("cast", 1, "pointwise", _with_dtype, numerics.cast)
_op("rescale", 1, "pointwise", _rescale, numerics.rescale, ("multiplier", "scale"), ("shift", "INT8"), *_ZP)

for _name in (
    "add",
    "sub",
    "maximum",
    "minimum",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "logical_and",
    "logical_or",
    "logical_xor",
    "arithmetic_right_shift",
    "logical_left_shift",
    "logical_right_shift",
    "intdiv",
):
    _op(_name, 2, "pointwise", _pointwise(), numerics.BINARY[_name])
_op("mul", 2, "pointwise", _mul, numerics.mul, ("shift", "INT8"))
for _name in ("equal", "greater", "greater_equal"):
    _op(_name, 2, "pointwise", _pointwise("BOOL"), numerics.BINARY[_name])
_op("select", 3, "pointwise", _pointwise(), numerics.select)

_op("concat", -1, "concat", _concat, numerics.concat)
_op("slice", 1, "axial", _slice, numerics.slice_, ("start", "SHAPE"), ("size", "SHAPE"))
_op("pad", 1, "axial", _pad, numerics.pad, ("pads", "SHAPE"), ("value", "in0"))
_op("tile", 1, "axial", _tile, numerics.tile, ("multiples", "SHAPE"))
_op("reverse", 1, "axial", _reverse, numerics.reverse)
for _name in ("reduce_sum", "reduce_max", "reduce_min", "reduce_any", "reduce_all", "reduce_product"):
    _op(_name, 1, "axial", _reduce, numerics.REDUCE.get(_name))
_op("argmax", 1, "opaque", _argmax, numerics.argmax)

_op("conv2d", 3, "mac", _conv(1, lambda k: k[0]), numerics.conv2d, ("in_zp", "in0"), ("w_zp", "in1"))
_op(
    "depthwise_conv2d",
    3,
    "mac",
    _conv(0, lambda k: k[2] * k[3]),
    numerics.depthwise_conv2d,
    ("in_zp", "in0"),
    ("w_zp", "in1"),
)
_op("transpose_conv2d", 3, "mac", _transpose_conv, numerics.transpose_conv2d, ("in_zp", "in0"), ("w_zp", "in1"))
_op("matmul", 2, "mac", _matmul, numerics.matmul, ("in_zp", "in0"), ("w_zp", "in1"))
_op("max_pool2d", 1, "mac", _pool, numerics.max_pool2d)
_op("avg_pool2d", 1, "mac", _pool, numerics.avg_pool2d, *_ZP)


def infer(op: str, attrs: Attrs, operands: Sequence[Type]) -> Type:
    """Shape and dtype of `op` on `operands`. Raises GraphError for operands that do not fit."""
    spec = OPS[op]
    if spec.operands >= 0 and len(operands) != spec.operands:
        raise GraphError(f"{op} takes {spec.operands} tensor operands, got {len(operands)}")
    try:
        return spec.infer(dict(attrs), operands)
    except (IndexError, KeyError, TypeError, ValueError) as e:
        raise GraphError(f"{op}: {e}") from e


#: Ops that give elements as they are, floats too.
_MOVING = frozenset({"transpose", "reshape", "identity", "select", "concat", "slice", "pad", "tile", "reverse"})


def evaluate_op(op: str, attrs: Attrs, operands: Sequence[np.ndarray], result: Type) -> np.ndarray:
    """Value of one op in numpy, exactly as TOSA defines it. Raises GraphError for ops without semantics here: opaque ones,
    arithmetic on floats and a RESCALE that may round inexactly, whose results TOSA leaves open."""
    fn = OPS[op].evaluate
    floats = result.dtype.startswith("FP") or any(x.dtype.kind == "f" for x in operands)
    if fn is None or floats and op not in _MOVING or ("rounding_mode", numerics.INEXACT_ROUND) in attrs:
        raise GraphError(f"{op} cannot be evaluated in numpy; use the reference model")
    out = fn(dict(attrs), operands, result)
    return np.asarray(out).astype(STORAGE[result.dtype], order="C", copy=False)


# ---- graphs -------------------------------------------------------------------------------------


@dataclass(slots=True)
class TensorGraph:
    """A DAG of nodes in topological order. Equal constants are one node; equal ops stay distinct (a RESCALE may
    have to be materialised once per reader), merging them is the e-graph's work.

    `outputs` may name one node several times: each slot stays distinct on the way out.
    """

    nodes: list[Node] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    output_names: list[str] = field(default_factory=list)
    _constants: dict[Node, int] = field(default_factory=dict, repr=False)
    _names: set[str] = field(default_factory=set, repr=False, compare=False)

    def _put(self, node: Node) -> int:
        if node.op == "const" and node in self._constants:
            return self._constants[node]
        self.nodes.append(node)
        if node.op == "const":
            self._constants[node] = len(self.nodes) - 1
        return len(self.nodes) - 1

    def add_input(self, name: str, shape: Sequence[int], dtype: str) -> int:
        """A graph input; names are unique. Zero-size dims are refused (they crash Vela)."""
        if any(d < 1 for d in shape):
            raise GraphError(f"input {name!r} has a dim below 1 in {tuple(shape)}: give every dim a positive size")
        if len(self._names) != len(self.inputs):
            self._names = {self.nodes[i].attr("name") for i in self.inputs}
        if name in self._names:
            raise GraphError(f"two inputs are named {name!r}")
        n = self._put(Node("input", (), attrs_of({"name": name}), tuple(shape), dtype))
        self.inputs.append(n)
        self._names.add(name)
        return n

    def add_const(self, data: np.ndarray, dtype: str, shape: Sequence[int] | None = None) -> int:
        """A constant; `shape` is given only with raw bytes."""
        shape = tuple(data.shape if shape is None else shape)
        if dtype in STORAGE:
            data = np.asarray(data, STORAGE[dtype]).reshape(shape)
        return self._put(Node("const", (), attrs_of({"value": Const(data, dtype, shape)}), shape, dtype))

    def add(self, op: str, inputs: Sequence[int], **attrs: Any) -> int:
        """An op node; type inferred from the op table. Raises GraphError."""
        return self.add_with(op, inputs, attrs_of(attrs))

    def add_with(self, op: str, inputs: Sequence[int], attrs: Attrs) -> int:
        t = infer(op, attrs, [self.type(i) for i in inputs])
        if any(d < 1 for d in t.shape):
            raise GraphError(f"{op} yields the zero-size shape {t.shape}; Vela cannot compile it")
        return self._put(Node(op, tuple(inputs), attrs, t.shape, t.dtype))

    def type(self, n: int) -> Type:
        node = self.nodes[n]
        return Type(node.shape, node.dtype)

    def live(self) -> list[int]:
        """Numbers of the nodes that the outputs depend on, inputs included, in topological order."""
        seen = set(self.inputs)
        stack = list(self.outputs)
        while stack:
            n = stack.pop()
            if n not in seen:
                seen.add(n)
                stack.extend(self.nodes[n].inputs)
        return sorted(seen)

    def readers(self) -> dict[int, list[int]]:
        """Live readers of every live node (once per operand slot); graph outputs are not readers."""
        out: dict[int, list[int]] = {n: [] for n in self.live()}
        for n in out:
            for i in self.nodes[n].inputs:
                out[i].append(n)
        return out

    def pruned(self) -> TensorGraph:
        """A copy with live nodes only."""
        g = TensorGraph(output_names=list(self.output_names))
        number: dict[int, int] = {}
        for n in self.live():
            node = self.nodes[n]
            number[n] = g._put(Node(node.op, tuple(number[i] for i in node.inputs), node.attrs, node.shape, node.dtype))
        g.inputs = [number[i] for i in self.inputs]
        g.outputs = [number[o] for o in self.outputs]
        return g

    def signature(self) -> tuple[list[Type], list[Type]]:
        """Types of the inputs and of the output slots."""
        return [self.type(i) for i in self.inputs], [self.type(o) for o in self.outputs]

    def op_counts(self) -> dict[str, int]:
        """Live ops by name, leaves left out; opaque ops count under their TOSA name."""
        counts: dict[str, int] = {}
        for n in self.live():
            node = self.nodes[n]
            if OPS[node.op].kind != "leaf" and node.op != "item":
                name = node.attr("tosa").lower() if node.op == "opaque" else node.op
                counts[name] = counts.get(name, 0) + 1
        return dict(sorted(counts.items()))

    def evaluate(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Outputs for `inputs` (in the order of `self.inputs`) by the numpy semantics of the op table."""
        for i, x in zip(self.inputs, inputs, strict=True):
            if tuple(x.shape) != self.nodes[i].shape:
                raise GraphError(
                    f"input {self.nodes[i].attr('name')!r} has shape {x.shape}, expected {self.nodes[i].shape}"
                )
        values: dict[int, np.ndarray] = dict(zip(self.inputs, inputs, strict=True))
        for n in self.live():
            node = self.nodes[n]
            if node.op == "const":
                values[n] = node.attr("value").data
            elif node.op != "input":
                values[n] = evaluate_op(node.op, node.attrs, [values[i] for i in node.inputs], self.type(n))
        return [values[o] for o in self.outputs]
