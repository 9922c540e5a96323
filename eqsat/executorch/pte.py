"""The Ethos-U delegates of a .pte file, with what the program around them knows of their tensors."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from flatbuffers import packer
from flatbuffers.encode import Get as get
from flatbuffers.table import Table as FlatbufferTable
from numpy.typing import NDArray

from eqsat.ground.files import InputError

# ExecuTorch's files as flatbuffers: bundled programs and .ptd files.
#
# Fields are known by their places in the schemas, which stay the same, as ExecuTorch reads files of earlier versions.
# Its own readers need PyTorch, whose import takes seconds, and it only writes bundled programs.

#: The type of a test case's value that is a tensor, in the schema's union.
_TENSOR_CASE = 1
#: numpy's types of the scalar types that test cases have here. Source: schema/scalar_type.fbs of executorch 1.5.
_SCALARS = {0: "u1", 1: "i1", 2: "<i2", 3: "<i4", 4: "<i8", 6: "<f4", 7: "<f8", 11: "?"}
#: The identifier of a .ptd file, and what the header behind it begins with.
_EXTERNAL_MAGIC = b"FT01FH01"


def is_bundled(buffer: bytes) -> bool:
    """Whether a file is a bundled program (.bpte), by its identifier."""
    return buffer[4:6] == b"BP"


@dataclass(frozen=True, slots=True)
class TestCase:
    """A test case of a bundled program: tensors by their places among the program's inputs and outputs."""

    __test__ = False  # no test of pytest's

    method: str
    inputs: dict[int, NDArray[Any]]
    outputs: dict[int, NDArray[Any]]


def read_bundle(buffer: bytes) -> tuple[bytes, list[TestCase]]:
    """Returns (the .pte, the test cases) of a bundled program. Raises InputError for a file that is none.

    Source: executorch 1.5, devtools/bundled_program/serialize/bundled_program_schema.fbs.
    """
    with input_errors("no bundled program"):
        bundle = Table.root(buffer)
        cases = [
            TestCase(suite.text(0), _tensors(case.tables(0)), _tensors(case.tables(1)))
            for suite in bundle.tables(1)
            for case in suite.tables(1)
        ]
        return bundle.data(2).tobytes(), cases


def read_external_data(buffer: bytes, name: str) -> dict[str, bytes]:
    """Returns {key: data} of a .ptd file. Raises InputError, which names the file, for one that is none.

    Source: executorch 1.5, extension/flat_tensor/serialize/flat_tensor.fbs and flat_tensor_header.cpp.
    """
    with input_errors(f"{name}: no .ptd file"):
        if buffer[4:12] != _EXTERNAL_MAGIC:
            raise ValueError(f"it does not have {_EXTERNAL_MAGIC.decode()} at its beginning")
        base = int.from_bytes(buffer[32:40], "little")
        content = Table.root(buffer)
        segments = [segment_at(buffer, base + s.number(0, "<u8"), s.number(1, "<u8")) for s in content.tables(1)]
        return {entry.text(0): segments[entry.number(1, "<u4")] for entry in content.tables(2)}


def segment_at(buffer: bytes, offset: int, size: int) -> bytes:
    """Returns `size` bytes of a buffer. Raises ValueError if it has fewer from there on."""
    segment = buffer[offset : offset + size]
    if len(segment) < size:
        raise ValueError(f"a segment of {size} bytes ends beyond the file")
    return segment


@contextmanager
def input_errors(what: str) -> Iterator[None]:
    """Within it, whatever a damaged file raises becomes an InputError that begins with `what`."""
    try:
        yield
    except Exception as e:  # noqa: BLE001
        raise InputError(f"{what}: {type(e).__name__}: {' '.join(str(e).split())[:200]}") from e


class Table:
    """A table of a flatbuffer, whose fields are known by their places in the schema."""

    def __init__(self, buffer: bytes, position: int) -> None:
        self._table = FlatbufferTable(buffer, position)

    @classmethod
    def root(cls, buffer: bytes) -> Table:
        return cls(buffer, int(get(packer.uoffset, buffer, 0)))

    def _offset(self, field: int) -> int:
        """Returns where a field is, from the table's position; 0 for one that is absent."""
        return int(self._table.Offset(4 + 2 * field))

    def number(self, field: int, dtype: str = "u1") -> Any:
        """Returns a number; 0 if the field is absent."""
        offset = self._offset(field)
        return np.frombuffer(self._table.Bytes, dtype, 1, self._table.Pos + offset)[0].item() if offset else 0

    def data(self, field: int, dtype: str = "u1") -> NDArray[Any]:
        """Returns a vector of numbers, or the bytes of a string."""
        offset = self._offset(field)
        if not offset:
            return np.empty(0, dtype)
        return np.frombuffer(self._table.Bytes, dtype, self._table.VectorLen(offset), self._table.Vector(offset))

    def text(self, field: int) -> str:
        return self.data(field).tobytes().decode()

    def table(self, field: int) -> Table:
        """Returns a table. Raises ValueError if the field is absent."""
        if not self._offset(field):
            raise ValueError(f"field {field} of a table is absent")
        return Table(self._table.Bytes, self._table.Indirect(self._table.Pos + self._offset(field)))

    def tables(self, field: int) -> list[Table]:
        offset = self._offset(field)
        if not offset:
            return []
        first, count = self._table.Vector(offset), self._table.VectorLen(offset)
        return [Table(self._table.Bytes, self._table.Indirect(first + 4 * k)) for k in range(count)]


def _tensors(values: Sequence[Table]) -> dict[int, NDArray[Any]]:
    """Returns the tensors among values, by their places."""
    found = {}
    for k, value in enumerate(values):
        if value.number(0) == _TENSOR_CASE:
            tensor = value.table(1)
            sizes, order = tensor.data(1, "<i4"), tensor.data(3)
            data = tensor.data(2).view(_SCALARS[tensor.number(0)])
            found[k] = data.reshape([int(sizes[d]) for d in order]).transpose(np.argsort(order))
    return found


#: Places of fields in a program and in a method, which is an execution plan, and types of its calls and values.
#: Source: schema/program.fbs of executorch 1.5.
_METHODS, _INLINE, _SEGMENTS = 1, 3, 4
_NAME, _TREES, _VALUES, _INPUTS, _OUTPUTS, _CHAINS, _OPERATORS, _DELEGATES = range(8)
_KERNEL_CALL, _DELEGATE_CALL, _TENSOR = 1, 2, 5
#: What the header of a file with segments begins with, and where it has their place.
_HEADER, _BASE = b"eh00", slice(24, 32)
#: The backend's name in a .pte.
_BACKEND = "EthosUBackend"
#: Operators at the border: PyTorch's, and those that Cortex-M's `ReplaceQuantNodesPass` puts in their place.
_LIBRARIES = ("quantized_decomposed", "cortex_m")
_QUANTIZE, _DEQUANTIZE = ({f"{library}::{w}quantize_per_tensor" for library in _LIBRARIES} for w in ("", "de"))


@dataclass(frozen=True, slots=True)
class Quantization:
    """The quantization of a tensor by the program: a value is `scale * (q - zero_point)`, with limits of q."""

    scale: float
    zero_point: int
    lowest: int
    highest: int

    def quantize(self, values: NDArray[Any], element: int) -> NDArray[Any]:
        """Returns integers of `element` bytes, as ExecuTorch's kernel computes them in float32."""
        steps = np.rint(np.float32(1) / np.float32(self.scale) * values.astype(np.float32))
        return np.clip(steps + self.zero_point, self.lowest, self.highest).astype(f"int{8 * element}")

    def dequantize(self, values: NDArray[Any]) -> NDArray[np.float32]:
        return (values.astype(np.int64) - self.zero_point).astype(np.float32) * np.float32(self.scale)

    def __str__(self) -> str:
        return f"scale {self.scale:.6g}, zero point {self.zero_point}"


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of a delegate, as the program has it.

    name: the keys of the program's input or output that it is; "" if the program has none for it.
    A .pte has no names of parameters that are given by position.
    position: its place among the program's inputs, or among its outputs; None if it is neither.
    shape: its shape; () if it is no tensor.
    order: its axes in memory, the innermost last.
    quantization: how the program makes it, or reads it; None if it does neither by one scale.
    """

    name: str = ""
    position: int | None = None
    shape: tuple[int, ...] = ()
    order: tuple[int, ...] = ()
    quantization: Quantization | None = None

    def to_memory(self, values: NDArray[Any]) -> NDArray[Any]:
        """Returns values with their axes as they lie in memory; as they are if they have another shape."""
        return np.ascontiguousarray(values.transpose(self.order)) if values.shape == self.shape != () else values

    def from_memory(self, values: NDArray[Any]) -> NDArray[Any]:
        """Returns values in the program's shape; as they are if they have another number of elements."""
        if not self.shape or values.size != prod(self.shape):
            return values
        return values.reshape([self.shape[d] for d in self.order]).transpose(np.argsort(self.order))


@dataclass(frozen=True, slots=True)
class EmbeddedDelegate:
    """An Ethos-U delegate of a program, `method/index`, with its inputs and then its outputs.

    payload: the bytes that the backend receives at run time.
    outside: operators of the program outside all delegates.
    """

    name: str
    payload: bytes
    ports: tuple[Port, ...]
    outside: tuple[str, ...]


def delegates(buffer: bytes) -> list[EmbeddedDelegate]:
    """Returns the delegates of the Ethos-U backend, in their order. Raises InputError."""
    with input_errors("no .pte file that ExecuTorch reads"):
        program = Table.root(buffer)
        methods = program.tables(_METHODS)
        found = [d for method in methods for d in _of_method(method, program, buffer)]
    if not methods:
        raise InputError("no .pte file that ExecuTorch reads: it has no execution plan")
    return found


def _of_method(method: Table, program: Table, buffer: bytes) -> list[EmbeddedDelegate]:
    """Returns the delegates of one method, in their order."""
    kernels: list[tuple[str, list[int]]] = []
    ours: list[tuple[Table, list[int]]] = []
    operators, delegates = method.tables(_OPERATORS), method.tables(_DELEGATES)
    for instruction in (i for chain in method.tables(_CHAINS) for i in chain.tables(2)):
        kind, call = instruction.number(0), instruction.table(1)
        if kind not in (_KERNEL_CALL, _DELEGATE_CALL):
            continue
        callee, values = call.number(0, "<i4"), call.data(1, "<i4").tolist()
        if kind == _KERNEL_CALL:
            kernels.append((operators[callee].text(0), values))
        elif delegates[callee].text(0) == _BACKEND:
            ours.append((delegates[callee], values))
    known, outside = _Known(method, kernels), tuple(name for name, _ in kernels)
    return [
        EmbeddedDelegate(
            f"{method.text(_NAME)}/{k}", _payload(d.table(1), program, buffer), tuple(map(known.port, values)), outside
        )
        for k, (d, values) in enumerate(ours)
    ]


def _payload(reference: Table, program: Table, buffer: bytes) -> bytes:
    """Returns the bytes to which a delegate refers, which are in the program or in a segment behind it."""
    place = reference.number(1, "<u4")
    if not reference.number(0):
        return program.tables(_INLINE)[place].data(0).tobytes()
    segment = program.tables(_SEGMENTS)[place]
    base = int.from_bytes(buffer[_BASE], "little") if buffer[8:12] == _HEADER else len(buffer)
    return segment_at(buffer, base + segment.number(0, "<u8"), segment.number(1, "<u8"))


class _Known:
    """Names, places, quantizations and layouts of a method's tensors, by the numbers of their values.

    calls: (operator, values that it takes and makes) of the operators outside delegates.
    """

    def __init__(self, method: Table, calls: Sequence[tuple[str, Sequence[int]]]) -> None:
        inputs, outputs = (method.data(field, "<i4").tolist() for field in (_INPUTS, _OUTPUTS))
        trees = method.table(_TREES)
        self._values = method.tables(_VALUES)
        self._positions = {v: k for values in (inputs, outputs) for k, v in enumerate(values)}
        self._names = {**_names(inputs, trees.text(0)), **_names(outputs, trees.text(1))}
        self._outside: dict[int, tuple[int, Quantization]] = {}
        for name, values in calls:
            if name in _QUANTIZE:
                self._outside[values[-1]] = values[0], self._quantization(values)
            elif name in _DEQUANTIZE:
                known = self._outside.get(values[0])
                if known is None or known[0] not in outputs:
                    self._outside[values[0]] = values[-1], self._quantization(values)

    def _quantization(self, values: Sequence[int]) -> Quantization:
        scale, *integers = (self._values[i].table(1) for i in values[1:5])
        return Quantization(scale.number(0, "<f8"), *(v.number(0, "<i8") for v in integers))

    def port(self, value: int) -> Port:
        outer, quantization = self._outside.get(value, (value, None))
        name, position = self._names.get(outer, ""), self._positions.get(outer)
        if self._values[value].number(0) != _TENSOR:
            return Port(name, position, quantization=quantization)
        tensor = self._values[value].table(1)
        return Port(name, position, tuple(tensor.data(2, "<i4").tolist()), tuple(tensor.data(3).tolist()), quantization)


def _names(values: Sequence[int], spec: str) -> dict[int, str]:
    """Returns {value: its keys in PyTorch's description of a tree, with dots between}, if they are its own."""
    try:
        found = list(_leaves(json.loads(spec)[1]))
    except (LookupError, TypeError, ValueError, RecursionError):
        return {}
    counts = Counter(found)
    return {v: name for v, name in zip(values, found) if name and counts[name] == 1}


def _leaves(tree: Any, path: str = "") -> Iterator[str]:
    if tree["type"] is None:
        yield path
        return
    keys = json.loads(tree["context"]) if str(tree["type"]).endswith("dict") else []
    for k, part in enumerate(tree["children_spec"]):
        yield from _leaves(part, ".".join(filter(None, (path, *map(str, keys[k : k + 1])))))
