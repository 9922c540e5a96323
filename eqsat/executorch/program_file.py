"""The program of a .pte file, read by ExecuTorch without the seconds that its import takes, and what belongs to it.

Its reader needs a few modules of the package `executorch.exir`, whose own import brings PyTorch and its compilers.
So these modules are imported below empty packages of its names, which make room for ExecuTorch's own after each file.
Bundled programs and .ptd files are read without ExecuTorch.
It only writes the former, and needs PyTorch to read the latter.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from flatbuffers import packer
from flatbuffers.encode import Get as get
from flatbuffers.table import Table
from numpy.typing import NDArray

from eqsat.ground.files import InputError

#: The packages whose own imports are left out, the uppermost first, and the module with the reader.
_PACKAGES = ("executorch.exir", "executorch.exir.backend", "executorch.exir._serialize")
_READER = "executorch.exir._serialize._flatbuffer_program"
#: The type of a value that is a tensor, in the schema's union.
_TENSOR = 1
#: numpy's types of the scalar types that test cases have here. Source: schema/scalar_type.fbs of executorch 1.5.
_SCALARS = {0: "u1", 1: "i1", 2: "<i2", 3: "<i4", 4: "<i8", 6: "<f4", 7: "<f8", 11: "?"}
#: Where the header of a file with segments is, and what it begins with.
_HEADER, _MAGIC = slice(8, 32), b"eh00"
#: The identifier of a .ptd file, and what the header behind it begins with.
_EXTERNAL_MAGIC = b"FT01FH01"


def read_program(buffer: bytes) -> tuple[Any, bytes]:
    """Returns (the `Program` of executorch.exir.schema, the bytes of all segments).

    No other thread may import ExecuTorch at the same time.
    Raises what ExecuTorch raises for a file that is none.

    Source: executorch 1.5, schema/extended_header.cpp.
    """
    head = buffer[_HEADER]
    segmented = head.startswith(_MAGIC)
    size, base = (int.from_bytes(head[k : k + 8], "little") if segmented else 0 for k in (8, 16))
    with _light():
        program = import_module(_READER)._flatbuffer_to_program(buffer[:size] if segmented else buffer)
    return program, buffer[base:] if base else b""


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

    The classes that ExecuTorch generates for this format only write it: those for reading do not run.
    Raises InputError for a file that is none.

    Source: executorch 1.5, devtools/bundled_program/serialize/bundled_program_schema.fbs.
    """
    with input_errors("no bundled program"):
        bundle = _Table.root(buffer)
        cases = [
            TestCase(suite.data(0).tobytes().decode(), _tensors(case.tables(0)), _tensors(case.tables(1)))
            for suite in bundle.tables(1)
            for case in suite.tables(1)
        ]
        return bundle.data(2).tobytes(), cases


def read_external_data(buffer: bytes, name: str) -> dict[str, bytes]:
    """Returns {key: data} of a .ptd file.

    Raises InputError, which names the file, for one that is none.

    Source: executorch 1.5, extension/flat_tensor/serialize/flat_tensor.fbs and flat_tensor_header.cpp.
    """
    with input_errors(f"{name}: no .ptd file"):
        if buffer[4:12] != _EXTERNAL_MAGIC:
            raise ValueError(f"it does not have {_EXTERNAL_MAGIC.decode()} at its beginning")
        base = int.from_bytes(buffer[32:40], "little")
        content = _Table.root(buffer)
        segments = [segment_at(buffer, base + s.integer(0, 8), s.integer(1, 8)) for s in content.tables(1)]
        return {entry.data(0).tobytes().decode(): segments[entry.integer(1, 4)] for entry in content.tables(2)}


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

    def integer(self, field: int, size: int = 1) -> int:
        """Returns an unsigned integer of `size` bytes; 0 if the field is absent."""
        offset, start = self._offset(field), self._table.Pos
        return int.from_bytes(self._table.Bytes[start + offset : start + offset + size], "little") if offset else 0

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
        if value.integer(0) == _TENSOR:
            tensor = value.table(1)
            sizes, order = tensor.data(1, "<i4"), tensor.data(3)
            data = tensor.data(2).view(_SCALARS[tensor.integer(0)])
            found[k] = data.reshape([int(sizes[d]) for d in order]).transpose(np.argsort(order))
    return found


@contextmanager
def _light() -> Iterator[None]:
    """Has modules of ExecuTorch imported below empty packages, unless ExecuTorch is there already."""
    if _PACKAGES[0] in sys.modules:
        yield
        return
    modules = _modules()
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name in [n for n in sys.modules if n.startswith(_PACKAGES[0])]:
            modules[name] = sys.modules.pop(name)


@cache
def _modules() -> dict[str, ModuleType]:
    """Returns {name: module}, the empty packages at first."""
    found = find_spec("executorch")
    assert found and found.submodule_search_locations, "a dependency of eqsat"
    place = Path(found.submodule_search_locations[0])
    empty = {name: ModuleType(name) for name in _PACKAGES}
    for name, module in empty.items():
        module.__path__ = [str(place.joinpath(*name.split(".")[1:]))]
    return empty
