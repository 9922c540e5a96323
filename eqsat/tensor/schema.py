"""The TOSA schema by introspection of the FlatBuffers compiler's modules (`tosa-tools`).

No table or field is named here, so every operator keeps its attributes exactly, even one that eqsat does not model.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import flatbuffers
import numpy as np
from tosa.Attribute import Attribute
from tosa.DType import DType
from tosa.Op import Op

OP_NAME = {v: k for k, v in vars(Op).items() if k.isupper()}
OP_CODE = {k: v for v, k in OP_NAME.items()}
DTYPE_NAME = {v: k for k, v in vars(DType).items() if k.isupper()}
DTYPE_CODE = {k: v for v, k in DTYPE_NAME.items()}
UNION_NAME = {v: k for k, v in vars(Attribute).items() if not k.startswith("_")}
UNION_CODE = {k: v for v, k in UNION_NAME.items()}

_SUFFIXES = ("Length", "AsNumpy", "IsNone", "BufferHasIdentifier")


def snake(name: str) -> str:
    return "".join("_" + c.lower() if c.isupper() and i else c.lower() for i, c in enumerate(name))


@cache
def _table(union: str) -> tuple[Any, Any, dict[str, str]]:
    """Returns (generated module, its class, {snake name: field name}) of an attribute table."""
    module = importlib.import_module(f"tosa.{union}")
    cls = getattr(module, union)
    fields = [
        f
        for f in vars(cls)
        if f[0].isupper() and f != "Init" and not f.startswith("GetRootAs") and not f.endswith(_SUFFIXES)
    ]
    return module, cls, {snake(f): f for f in fields}


@cache
def fields(union: str) -> frozenset[str]:
    return frozenset(_table(union)[2])


@cache
def union_for(op: str) -> str:
    """Returns the name of a TOSA operator's attribute table: `Conv2dAttribute` for CONV2D, "NONE" if it has none."""
    plain = op.replace("_", "").lower() + "attribute"
    return next((u for u in UNION_CODE if u.lower() == plain), "NONE")


class _ElementSize:
    """A builder that only tells the bytes of the elements of a vector."""

    @staticmethod
    def StartVector(size: int, count: int, alignment: int) -> int:  # noqa: N802 - flatbuffers' name
        return size


@cache
def attribute_types(op: str) -> dict[str, type]:
    """Returns {attribute: type} of a TOSA operator as `read_attributes` gives them: int, bool, bytes or tuple."""
    union = union_for(op)
    if union == "NONE":
        return {}
    module, cls, names = _table(union)
    builder = flatbuffers.Builder()
    builder.Finish(write_table(builder, module, {}))
    empty, out = cls.GetRootAs(builder.Output()), dict[str, type]()
    for name, f in names.items():
        start = getattr(module, f"Start{f}Vector", None)
        if start is None:
            default = getattr(empty, f)()
            out[name] = bytes if default is None else type(default)
        else:
            out[name] = bytes if start(_ElementSize, 0) == 1 else tuple
    return out


def read_attributes(union: str, table: Any, spend: Callable[[int], None] = lambda size: None) -> dict[str, Any]:
    """Returns the attributes of one operator: vectors of bytes as bytes, others as tuples, scalars as int or bool.

    spend: called with the bytes of every vector before it is read.
    Raises ValueError if the table is missing.
    """
    if union == "NONE":
        return {}
    if table is None:
        raise ValueError(f"{union} is declared and missing")
    _, cls, names = _table(union)
    view = cls()
    view.Init(table.Bytes, table.Pos)
    out: dict[str, Any] = {}
    for name, f in names.items():
        if hasattr(view, f + "AsNumpy"):
            length = getattr(view, f + "Length")()
            spend(4 * length)
            array = np.atleast_1d(getattr(view, f + "AsNumpy")()) if length else np.zeros(0, np.int32)
            out[name] = array.tobytes() if array.dtype == np.uint8 else tuple(int(v) for v in array)
        else:
            out[name] = getattr(view, f)()
    return out


def write_attributes(builder: flatbuffers.Builder, union: str, values: Mapping[str, Any]) -> int:
    """Writes one attribute table and returns its offset; the inverse of `read_attributes`."""
    module, _, names = _table(union)
    offsets: dict[str, Any] = {}
    for name, f in names.items():
        value = values[name]
        if value is None:  # a string that the file leaves out
            continue
        if isinstance(value, bytes) and hasattr(module, f"Start{f}Vector"):
            offsets[f] = builder.CreateByteVector(value)
        elif isinstance(value, bytes):
            offsets[f] = builder.CreateString(value)
        elif isinstance(value, tuple):
            getattr(module, f"Start{f}Vector")(builder, len(value))
            for v in reversed(value):
                builder.PrependInt32(v)
            offsets[f] = builder.EndVector()
        else:
            offsets[f] = value
    return write_table(builder, module, offsets)


def write_table(builder: flatbuffers.Builder, module: Any, fields: Mapping[str, Any]) -> int:
    """Writes a table of a generated module and returns its offset; fields that are None are left out."""
    module.Start(builder)
    for f, value in fields.items():
        if value is not None:
            getattr(module, f"Add{f}")(builder, value)
    return int(module.End(builder))
