"""ExecuTorch's files as flatbuffers: bundled programs and .ptd files; `pte.py` reads programs.

Fields are known by their places in the schemas, which stay the same, as ExecuTorch reads files of earlier versions.
Its own readers need PyTorch, whose import takes seconds, and it only writes bundled programs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from flatbuffers import packer
from flatbuffers.encode import Get as get
from flatbuffers.table import Table as FlatbufferTable
from numpy.typing import NDArray

from eqsat.ground.files import InputError

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
