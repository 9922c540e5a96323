"""TOSA 1.0 flatbuffers <-> TensorGraph.

`loads` folds constant operands (zero points, multipliers, shapes, tables) into attributes.
The op table says which operands are folded.
An operator becomes an `opaque` node if the table lacks it, or if its folded operands are not constant, or are floats
that attributes cannot tell apart (`hides_bits`); `dumps` writes it back as it was.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import flatbuffers
import numpy as np
from tosa import OpLocation, TosaBasicBlock, TosaGraph, TosaOperator, TosaRegion, TosaShape, TosaTensor, Version

from eqsat.ground.files import InputError
from eqsat.tensor import schema
from eqsat.tensor.graph import Node, TensorGraph
from eqsat.tensor.ops import OPS, Op, infer
from eqsat.tensor.types import Array, Const, DType, GraphError, Type, attrs_of, hides_bits

IDENTIFIER = b"TOSA"
_CONSTANTS = ("CONST", "CONST_SHAPE")
_STATEFUL = {"VARIABLE", "VARIABLE_READ", "VARIABLE_WRITE", "COND_IF", "WHILE_LOOP"}
#: Bytes that may be read per byte of the file: parts may be shared, so a small file can describe an endless graph.
_SHARED = 16
#: Bytes that may be read of any file.
_LEAST = 1 << 20
#: Characters of an error, at most, since names come from the file.
_MESSAGE = 500
#: Bytes that reading a string counts for, besides its length.
_STRING = 16
#: What reading a broken file may raise.
_BROKEN = (struct.error, LookupError, TypeError, ValueError, OverflowError, AttributeError, MemoryError, RecursionError)
#: Dtype of shapes, which only constants have; they are written as 64-bit integers.
_SHAPE = DType("SHAPE", "integer", 64, np.int64)


def most_to_read(buffer: bytes) -> int:
    """Returns how many bytes of a file may be read; shared parts count at each read."""
    return max(_LEAST, _SHARED * len(buffer))


class TosaError(InputError):
    """A flatbuffer that cannot be read; the message says what is wrong and the remedy."""


def unpack(raw: Array, dtype: str, shape: Sequence[int]) -> Array:
    """Returns the values of a constant from its little-endian bytes.

    Returns the raw bytes for dtypes that numpy lacks. Raises TosaError if there are too few bytes.
    """
    count = math.prod(shape)
    kind = _dtype(dtype)
    if 8 * raw.size < count * kind.bits:
        raise TosaError(
            f"a {dtype} constant of shape {tuple(shape)} has only {raw.size} bytes: the file is truncated; write it again"
        )
    if kind.carried:
        return raw
    size = np.dtype(kind.storage).itemsize
    if kind.bits == 8 * size:
        return raw[: count * size].view(kind.storage).reshape(shape)
    bits = np.unpackbits(raw, count=count * kind.bits, bitorder="little").reshape(count, kind.bits)
    wide = np.pad(bits, ((0, 0), (0, 8 * size - kind.bits)), mode="edge")  # with the sign
    return np.packbits(wide, axis=1, bitorder="little").view(kind.storage).reshape(shape)


def pack(data: Array, dtype: str) -> Array:
    """Returns the little-endian bytes of a constant; the inverse of `unpack`."""
    kind = _dtype(dtype)
    if kind.carried:
        return data
    raw = np.ascontiguousarray(data, kind.storage).reshape(-1).view(np.uint8)
    size = np.dtype(kind.storage).itemsize
    if kind.bits == 8 * size:
        return raw
    bits = np.unpackbits(raw, bitorder="little").reshape(-1, 8 * size)[:, : kind.bits]
    return np.packbits(bits, bitorder="little")


def _dtype(name: str) -> DType:
    return _SHAPE if name == "SHAPE" else DType.of(name)


def _get_folded_dtypes(spec: Op, operands: Sequence[str], result: str, attrs: Mapping[str, Any]) -> list[str]:
    """Returns the dtypes of an operator's folded operands (`Op.folded`), for those of its tensors."""
    if not spec.folded:
        return []
    known = {
        "in0": operands[0],
        "in1": operands[min(1, len(operands) - 1)],
        "out": result,
        "table": lookup.dtype if (lookup := DType.of(operands[0]).lookup) else "table",
        "scale": "INT32" if attrs.get("scale32", True) else "INT16",
    }
    return [known.get(dtype, dtype) for _, dtype in spec.folded]


# ---- reading ------------------------------------------------------------------------------------


def loads(buffer: bytes, name: str = "the TOSA buffer") -> TensorGraph:
    """Reads a flatbuffer. Raises TosaError, naming `name`, for unreadable files, state and control flow."""
    if len(buffer) < 8 or buffer[4:8] != IDENTIFIER:
        raise TosaError(f"{name} is no TOSA flatbuffer (identifier 'TOSA' missing): give a .tosa file of TOSA 1.0")
    try:
        return _Reader(bytes(buffer), name).graph.prune()
    except (TosaError, GraphError) as e:
        text = str(e) if len(str(e)) <= _MESSAGE else f"{str(e)[:_MESSAGE]}..."
        raise TosaError(text if text.startswith(name) else f"{name}: {text}") from e
    except _BROKEN as e:
        raise TosaError(f"{name} is truncated or corrupted ({type(e).__name__}: {e}): write it again") from e


def load_named(buffer: bytes) -> tuple[TensorGraph, dict[str, int]]:
    """Returns (`loads(buffer)`, {tensor: its node there}), for a buffer that `loads` reads."""
    reader = _Reader(bytes(buffer), "the TOSA buffer")
    place = {n: i for i, n in enumerate(reader.graph.live())}
    return reader.graph.prune(), {name: place[n] for name, n in reader.number.items() if n in place}


def tensor_names(buffer: bytes) -> dict[str, int]:
    """Returns {tensor: its node in `loads(buffer)`}, for a buffer that `loads` reads."""
    return load_named(buffer)[1]


class _Reader:
    def __init__(self, buffer: bytes, name: str):
        root = TosaGraph.TosaGraph.GetRootAs(buffer, 0)
        version = root.Version()
        if version is None or version._Major() != 1:
            raise TosaError(f"{name} is not TOSA 1.x: convert it to TOSA 1.0")
        if root.RegionsLength() != 1 or root.Regions(0).BlocksLength() != 1:
            raise TosaError(
                f"{name} has {root.RegionsLength()} regions: control flow is not supported; inline it before"
            )
        self.block = root.Regions(0).Blocks(0)
        self.name = name
        self.left = most_to_read(buffer)
        self.graph = TensorGraph()
        self.number: dict[str, int] = {}  # tensor name -> node
        self.constant: dict[str, Array] = {}  # name -> value of constants and shapes
        self.tensors: dict[str, tuple[Type, Any]] = {}
        for i in range(self.block.TensorsLength()):
            t = self.block.Tensors(i)
            label = self._text(t.Name())
            if label in self.tensors:
                raise TosaError(f"tensor {label!r} is declared twice: give every tensor a name of its own")
            self._spend(4 * t.ShapeLength())
            shape = tuple(int(d) for d in np.atleast_1d(t.ShapeAsNumpy())) if t.ShapeLength() else ()
            if any(d < 1 for d in shape):
                raise TosaError(
                    f"{name}: tensor {label!r} has a dim below 1 in {shape}: give every dim a fixed, positive size"
                )
            dtype = schema.DTYPE_NAME[t.Type()]
            if dtype in ("UNKNOWN", "SHAPE"):
                raise TosaError(
                    f"{name}: tensor {label!r} has elements of the type {dtype}: the file is inconsistent; write it again"
                )
            self.tensors[label] = (Type(shape, dtype), t)
        for i in range(self.block.ShapesLength()):
            s = self.block.Shapes(i)
            self.constant[self._text(s.Name())] = unpack(self._data(s), "SHAPE", (s.Rank(),))
        for i in range(self.block.InputsLength()):
            t = self._text(self.block.Inputs(i))
            self._fresh(t)
            self.number[t] = self.graph.add_input(t, self.tensors[t][0].shape, self.tensors[t][0].dtype)
        for i in range(self.block.OperatorsLength()):
            self._operator(self.block.Operators(i))
        for i in range(self.block.OutputsLength()):
            t = self._text(self.block.Outputs(i))
            self.graph.outputs.append(self._node(t))
            self.graph.output_names.append(t)

    def _spend(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise TosaError(
                f"{self.name} shares its parts so often that it is much larger than its bytes: it is corrupted or made to do harm"
            )

    def _text(self, raw: bytes | None) -> str:
        if raw is None:
            raise TosaError(f"{self.name} has a part without a name: it is corrupted; write it again")
        self._spend(_STRING + len(raw))
        return raw.decode()

    def _data(self, table: Any) -> Array:
        """Returns the bytes of a tensor or shape."""
        self._spend(table.DataLength())
        return np.atleast_1d(table.DataAsNumpy()) if table.DataLength() else np.zeros(0, np.uint8)

    def _is_tensor(self, name: str) -> bool:
        return name in self.number or name in self.tensors and name in self.constant

    def _node(self, name: str) -> int:
        """Returns the node of a tensor; a constant gets one when it is first read, since most are only folded."""
        if name not in self.number and self._is_tensor(name):
            t = self.tensors[name][0]
            self.number[name] = self.graph.add_const(self.constant[name], t.dtype, t.shape)
        if name not in self.number:
            raise TosaError(f"tensor {name!r} is read before it is written: the operators are not in order")
        return self.number[name]

    def _fresh(self, name: str) -> None:
        if name in self.number or name in self.constant:
            raise TosaError(f"tensor {name!r} is written twice: give every result a name of its own")

    def _operator(self, op: Any) -> None:
        """Adds one operator of the file, opaque if the op table lacks it. Raises TosaError."""
        code = schema.OP_NAME[op.Op()]
        ins = [self._text(op.Inputs(i)) for i in range(op.InputsLength())]
        outs = [self._text(op.Outputs(i)) for i in range(op.OutputsLength())]
        if code == "UNKNOWN":
            raise TosaError(f"the operator that makes {outs} has no kind: the file is inconsistent; write it again")
        if code in _STATEFUL:
            raise TosaError(f"operator {code} (state or control flow) is not supported: remove it from the graph")
        if code.endswith("_SHAPE") and code != "CONST_SHAPE" or code == "DIM":
            raise TosaError(
                f"operator {code} computes a shape at run time, which is not supported: make all shapes constant"
            )
        if code == "CONST_SHAPE":
            if outs[0] not in self.constant:
                raise TosaError(f"shape {outs[0]!r} has no value: the file is inconsistent; write it again")
            return
        for o in outs:
            self._fresh(o)
        if len(set(outs)) < max(1, len(outs)):
            raise TosaError(f"{code} has the results {outs}: give it at least one, and every result a name of its own")
        if code == "CONST":
            t, table = self.tensors[outs[0]]
            self.constant[outs[0]] = unpack(self._data(table), t.dtype, t.shape)
            return
        union, expected = schema.UNION_NAME[op.AttributeType()], schema.union_for(code)
        if union != expected and (union != "NONE" or schema.fields(expected)):
            raise TosaError(
                f"{code} {outs} has attributes of the kind {union}, expected {expected}: the file is inconsistent"
            )
        attrs = schema.read_attributes(union, op.Attribute(), self._spend)
        if len(outs) != 1 or not self._model(code.lower(), ins, outs[0], attrs):
            self._opaque(code, ins, outs, attrs)

    def _model(self, op: str, ins: list[str], out: str, attrs: dict[str, Any]) -> bool:
        """Adds an operator of the op table and returns True; False if its form is not modelled."""
        spec = OPS.get(op)
        if spec is None or not spec.tosa:
            return False
        n = len(ins) if spec.operands < 0 else spec.operands
        folded = ins[n:]
        if (
            len(folded) != len(spec.folded)
            or any(f not in self.constant for f in folded)
            or not all(map(self._is_tensor, ins[:n]))
        ):
            return False
        attrs, want = dict(attrs), self.tensors[out][0]
        expected = _get_folded_dtypes(spec, [self.tensors[i][0].dtype for i in ins[:n]], want.dtype, attrs)
        if expected != [self.tensors[f][0].dtype if f in self.tensors else "SHAPE" for f in folded]:
            return False  # `dumps` would write other dtypes, and so another meaning
        for (attr, _), f in zip(spec.folded, folded, strict=True):
            attrs[attr] = tuple(v.item() for v in self.constant[f].reshape(-1))
            if any(map(hides_bits, attrs[attr])):
                return False
        if spec.declared:
            attrs["dtype"] = want.dtype
        operands = [self._node(i) for i in ins[:n]]
        if any(DType.of(t.dtype).carried for t in (want, *map(self.graph.type, operands))):
            return False
        got = infer(op, attrs_of(attrs), [self.graph.type(i) for i in operands])
        if got != want:
            raise TosaError(f"{op} {out!r} is declared {want} but its operands give {got}: the file is inconsistent")
        self.number[out] = self.graph.add_with(op, operands, attrs_of(attrs))
        return True

    def _opaque(self, code: str, ins: list[str], outs: list[str], attrs: dict[str, Any]) -> None:
        """Adds an opaque operator; its results after the first are `item` nodes."""
        types = [self.tensors[o][0] for o in outs]
        operands: list[int] = []
        shapes: list[tuple[int, ...] | None] = []
        for i in ins:  # shape operands travel in an attribute, None marks a tensor operand
            if self._is_tensor(i):
                operands.append(self._node(i))
                shapes.append(None)
            elif i in self.constant:
                shapes.append(tuple(int(v) for v in self.constant[i]))
            else:
                self._node(i)
        n = self.graph.add(
            "opaque",
            operands,
            tosa=code,
            fields=attrs_of(attrs),
            shape_operands=tuple(shapes),
            shape=types[0].shape,
            dtype=types[0].dtype,
            results=tuple(types),
        )
        self.number[outs[0]] = n
        for k, (o, t) in enumerate(zip(outs, types, strict=True)):
            if k:
                self.number[o] = self.graph.add("item", (n,), index=k, shape=t.shape, dtype=t.dtype)


# ---- writing ------------------------------------------------------------------------------------


def dumps(graph: TensorGraph, locations: Mapping[int, str] | None = None) -> bytes:
    """Writes a flatbuffer.

    locations: texts by node (`eqsat.tosa.locations`).
    Inputs keep their names and order. An output's tensor has the name of its slot.
    Other tensors are named `n<node>`; more n precede the number if the graph has such names.
    Vela needs distinct output tensors. So a value in several output slots gets an IDENTITY for each further slot, and
    an input or constant that is an output gets one, too.
    """
    return _Writer(graph, locations or {}).buffer


class _Names:
    """The names of a graph's tensors in its flatbuffer (see `dumps`); identities: (node, name) of each IDENTITY."""

    def __init__(self, graph: TensorGraph):
        self.graph = graph
        self.inputs = [graph.nodes[i].attr("name") for i in graph.inputs]
        self.outputs: list[str] = []
        self.identities: list[tuple[int, str]] = []
        self._named = {(i, 0): name for i, name in zip(graph.inputs, self.inputs, strict=True)}
        taken = set(self.inputs)
        for slot, n in enumerate(graph.outputs):
            name = graph.output_names[slot] if slot < len(graph.output_names) else f"output_{slot}"
            if name in taken:
                name = f"{name}_{slot}"
            while name in taken:
                name += "_"
            taken.add(name)
            self.outputs.append(name)
            if self._value(n) in self._named or graph.nodes[n].op == "const":
                self.identities.append((n, name))
            else:
                self._named[self._value(n)] = name
        self.prefix = "n"  # of the names that are made up here
        while any(re.match(rf"{self.prefix}c?\d", t) for t in taken):
            self.prefix += "n"

    def _value(self, n: int) -> tuple[int, int]:
        """Returns (node, number of its result) for a node, which may be an `item`."""
        node = self.graph.nodes[n]
        return (node.inputs[0], node.attr("index")) if node.op == "item" else (n, 0)

    def of(self, n: int) -> str:
        return self.of_result(*self._value(n))

    def of_result(self, n: int, k: int) -> str:
        return self._named.get((n, k), f"{self.prefix}{n}_{k}" if k else f"{self.prefix}{n}")


def list_names(graph: TensorGraph) -> dict[int, str]:
    """Returns {live node: the name that `dumps` gives its tensor}."""
    names = _Names(graph)
    return {n: names.of(n) for n in graph.live()}


class _Writer:
    """Writes one graph; equal names, shapes and attributes are written once."""

    def __init__(self, graph: TensorGraph, locations: Mapping[int, str]):
        self.graph = graph
        self.location = ""  # of the operators that are being written
        self.b = flatbuffers.Builder(1 << 16)
        self.tensors: list[int] = []
        self.shapes: list[int] = []
        self.operators: list[int] = []
        self.seen: dict[tuple[Any, ...], str] = {}
        self._shape_at: dict[tuple[int, ...], int] = {}
        self._attributes_at: dict[tuple[Any, ...], int] = {}
        self.names = _Names(graph)
        for n in graph.live():
            self.location = locations.get(n, "")
            self._node(n, graph.nodes[n])
        for n, name in self.names.identities:
            self.location = locations.get(n, "")
            self._tensor(name, graph.type(n))
            self._operator("IDENTITY", [self.names.of(n)], [name], {})
        self.buffer = self._finish(self.names.inputs, self.names.outputs)

    # -- pieces
    def _table(self, module: Any, **fields: Any) -> int:
        return schema.write_table(self.b, module, fields)

    def _strings(self, values: Sequence[str], start: Callable[..., Any]) -> int:
        return self._offsets([self.b.CreateSharedString(v) for v in values], start)

    def _offsets(self, offsets: Sequence[int], start: Callable[..., Any]) -> int:
        start(self.b, len(offsets))
        for o in reversed(offsets):
            self.b.PrependUOffsetTRelative(o)
        return self.b.EndVector()

    def _bytes(self, raw: Array) -> int:
        self.b.StartVector(1, raw.size, 8)  # 8-byte aligned, as the TOSA serializer does
        self.b.head = self.b.head - raw.size
        self.b.Bytes[self.b.head : self.b.head + raw.size] = raw.tobytes()
        return self.b.EndVector()

    def _tensor(self, name: str, t: Type, raw: Array | None = None) -> None:
        data = self._bytes(raw) if raw is not None and raw.size else None
        label, shape = self.b.CreateSharedString(name), self._shape(t.shape)
        self.tensors.append(
            self._table(TosaTensor, Name=label, Shape=shape, Type=schema.DTYPE_CODE[t.dtype], Data=data)
        )

    def _shape(self, shape: tuple[int, ...]) -> int:
        if shape not in self._shape_at:
            TosaTensor.StartShapeVector(self.b, len(shape))
            for d in reversed(shape):
                self.b.PrependInt32(d)
            self._shape_at[shape] = self.b.EndVector()
        return self._shape_at[shape]

    def _attributes(self, union: str, fields: Mapping[str, Any]) -> int:
        key = union, *sorted(fields.items())
        if key not in self._attributes_at:
            self._attributes_at[key] = schema.write_attributes(self.b, union, fields)
        return self._attributes_at[key]

    def _operator(self, code: str, ins: Sequence[str], outs: Sequence[str], fields: dict[str, Any]) -> None:
        union = schema.union_for(code)
        kind, attribute = (
            (schema.UNION_CODE[union], self._attributes(union, fields)) if union != "NONE" else (None, None)
        )
        i = self._strings(ins, TosaOperator.StartInputsVector)
        o = self._strings(outs, TosaOperator.StartOutputsVector)
        location = None if code in _CONSTANTS else self._location()
        made = {"AttributeType": kind, "Attribute": attribute, "Inputs": i, "Outputs": o, "Location": location}
        self.operators.append(self._table(TosaOperator, Op=schema.OP_CODE[code], **made))

    def _location(self) -> int | None:
        if not self.location:
            return None
        return self._table(OpLocation, Text=self.b.CreateSharedString(self.location))

    def _small(self, values: Sequence[int], dtype: str) -> str:
        """Returns the name of a constant operand, which is shared between equal ones."""
        key = (dtype, tuple(values))
        if key not in self.seen:
            name = self.seen[key] = f"{self.names.prefix}c{len(self.seen)}"
            if dtype == "SHAPE":
                raw = self._bytes(pack(np.asarray(values, np.int64), "SHAPE")) if values else None
                label = self.b.CreateString(name)
                self.shapes.append(self._table(TosaShape, Name=label, Rank=len(values), Data=raw))
                self._operator("CONST_SHAPE", [], [name], {})
            else:
                self._tensor(name, Type((len(values),), dtype), pack(np.asarray(values), dtype))
                self._operator("CONST", [], [name], {})
        return self.seen[key]

    def _node(self, n: int, node: Node) -> None:
        name, t = self.names.of(n), Type(node.shape, node.dtype)
        if node.op == "input":
            self._tensor(name, t)
            return
        if node.op == "const":
            value: Const = node.attr("value")
            self._tensor(name, t, pack(value.data, node.dtype))
            self._operator("CONST", [], [name], {})
            return
        if node.op == "item":
            return  # written with its opaque op
        if node.op == "opaque":
            self._opaque(n, node)
            return
        attrs = dict(node.attrs)
        spec = OPS[node.op]
        code = node.op.upper()
        dtypes = _get_folded_dtypes(spec, [self.graph.nodes[i].dtype for i in node.inputs], node.dtype, attrs)
        ins = [self.names.of(i) for i in node.inputs]
        ins += [self._small(attrs[a], dtype) for (a, _), dtype in zip(spec.folded, dtypes, strict=True)]
        self._tensor(name, t)
        self._operator(code, ins, [name], {f: attrs[f] for f in schema.fields(schema.union_for(code))})

    def _opaque(self, n: int, node: Node) -> None:
        operands = iter(node.inputs)
        ins = [
            self.names.of(next(operands)) if s is None else self._small(s, "SHAPE") for s in node.attr("shape_operands")
        ]
        types = node.attr("results")
        outs = [self.names.of_result(n, k) for k in range(len(types))]
        for name, t in zip(outs, types, strict=True):
            self._tensor(name, t)
        self._operator(node.attr("tosa"), ins, outs, dict(node.attr("fields")))

    def _finish(self, inputs: list[str], outputs: list[str]) -> bytes:
        b = self.b
        block_name = b.CreateString("main")
        operators = self._offsets(self.operators, TosaBasicBlock.StartOperatorsVector)
        tensors = self._offsets(self.tensors, TosaBasicBlock.StartTensorsVector)
        shapes = self._offsets(self.shapes, TosaBasicBlock.StartShapesVector)
        ins = self._strings(inputs, TosaBasicBlock.StartInputsVector)
        outs = self._strings(outputs, TosaBasicBlock.StartOutputsVector)
        parts = {"Operators": operators, "Tensors": tensors, "Shapes": shapes, "Inputs": ins, "Outputs": outs}
        block = self._table(TosaBasicBlock, Name=block_name, **parts)
        region_name = b.CreateString("main")
        blocks = self._offsets([block], TosaRegion.StartBlocksVector)
        region = self._table(TosaRegion, Name=region_name, Blocks=blocks)
        regions = self._offsets([region], TosaGraph.StartRegionsVector)
        version = self._table(Version, _Major=1, _Minor=0, _Patch=0, _Draft=False)
        b.Finish(self._table(TosaGraph, Version=version, Regions=regions), IDENTIFIER)
        return bytes(b.Output())
