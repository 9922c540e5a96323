"""The program of a .pte file, read by ExecuTorch without the seconds that its import takes.

Its reader needs a few modules of the package `executorch.exir`, whose own import brings PyTorch and its compilers.
So these modules are imported below empty packages of its names, which make room for ExecuTorch's own after each file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

#: The packages whose own imports are left out, the uppermost first, and the module with the reader.
_PACKAGES = ("executorch.exir", "executorch.exir.backend", "executorch.exir._serialize")
_READER = "executorch.exir._serialize._flatbuffer_program"
#: Where the header of a file with segments is, and what it begins with.
_HEADER, _MAGIC = slice(8, 32), b"eh00"


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
