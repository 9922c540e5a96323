"""Bundled programs (.bpte): a .pte with test cases.

The classes that ExecuTorch generates for this format only write it: those for reading do not run.
Its own reader, flatc, goes beyond the end of a file that is cut off.
Source: executorch 1.5, devtools/bundled_program/serialize/bundled_program_schema.fbs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flatbuffers import packer
from flatbuffers.encode import Get as get
from flatbuffers.table import Table
from numpy.typing import NDArray

from eqsat.ground.files import InputError

#: The type of a value that is a tensor, in the schema's union.
_TENSOR = 1
#: numpy's types of the scalar types that test cases have here. Source: schema/scalar_type.fbs of executorch 1.5.
_SCALARS = {0: "u1", 1: "i1", 2: "<i2", 3: "<i4", 4: "<i8", 6: "<f4", 7: "<f8", 11: "?"}


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
    """Returns (the .pte, the test cases) of a bundled program.

    Raises InputError for a file that is none.
    """
    try:
        bundle = _Table.root(buffer)
        cases = [
            TestCase(suite.data(0).tobytes().decode(), _tensors(case.tables(0)), _tensors(case.tables(1)))
            for suite in bundle.tables(1)
            for case in suite.tables(1)
        ]
        return bundle.data(2).tobytes(), cases
    except Exception as e:  # noqa: BLE001 - whatever a damaged file raises
        raise InputError(f"no bundled program: {type(e).__name__}: {' '.join(str(e).split())[:200]}") from e


class _Table:
    """A table of a flatbuffer, whose fields are known by their places in the schema."""

    def __init__(self, buffer: bytes, position: int) -> None:
        self._table = Table(buffer, position)

    @classmethod
    def root(cls, buffer: bytes) -> _Table:
        return cls(buffer, int(get(packer.uoffset, buffer, 0)))

    def _offset(self, field: int) -> int:
        """Returns where a field is, from the table's position; 0 for one that is absent."""
        return int(self._table.Offset(4 + 2 * field))

    def byte(self, field: int) -> int:
        offset = self._offset(field)
        return int(self._table.Bytes[self._table.Pos + offset]) if offset else 0

    def data(self, field: int, dtype: str = "u1") -> NDArray[Any]:
        """Returns a vector of numbers, or the bytes of a string."""
        offset = self._offset(field)
        if not offset:
            return np.empty(0, dtype)
        return np.frombuffer(self._table.Bytes, dtype, self._table.VectorLen(offset), self._table.Vector(offset))

    def table(self, field: int) -> _Table:
        return _Table(self._table.Bytes, self._table.Indirect(self._table.Pos + self._offset(field)))

    def tables(self, field: int) -> list[_Table]:
        offset = self._offset(field)
        if not offset:
            return []
        first, count = self._table.Vector(offset), self._table.VectorLen(offset)
        return [_Table(self._table.Bytes, self._table.Indirect(first + 4 * k)) for k in range(count)]


def _tensors(values: Sequence[_Table]) -> dict[int, NDArray[Any]]:
    """Returns the tensors among values, by their places."""
    found = {}
    for k, value in enumerate(values):
        if value.byte(0) == _TENSOR:
            tensor = value.table(1)
            sizes, order = tensor.data(1, "<i4"), tensor.data(3)
            data = tensor.data(2).view(_SCALARS[tensor.byte(0)])
            found[k] = data.reshape([int(sizes[d]) for d in order]).transpose(np.argsort(order))
    return found
