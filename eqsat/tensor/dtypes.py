"""Element types of tensors, which `Type.dtype` and `Node.dtype` name as TOSA does.

>>> DType.of("INT16").limits, DType.of("INT16").accumulator
((-32768, 32767), 'INT48')

Source: TOSA specification 1.0, chapter "Operators".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np


@dataclass(frozen=True, slots=True)
class LookupTable:
    """The table of a TABLE operator.

    entries: number of entries; fewer entries than values are interpolated.
    dtype, result: of an entry, and of the result.
    """

    entries: int
    dtype: str
    result: str


@dataclass(frozen=True, slots=True)
class DType:
    """An element type.

    bits: of an element in a TOSA file.
    storage: the numpy type that holds it (INT48 is in int64); uint8, raw bytes, if carried.
    sums: the dtype of sums of its products (None: its own).
    lookup: the table of a TABLE operator on it, None if it has none.
    only_rescaled: only a RESCALE reads it.
    """

    name: str
    kind: Literal["boolean", "integer", "float", "other"]
    bits: int
    storage: type[np.generic] = np.uint8
    sums: str | None = None
    lookup: LookupTable | None = None
    only_rescaled: bool = False

    @staticmethod
    def of(name: str) -> DType:
        """Returns the dtype of a name; one that TOSA does not have is carried, with elements of 4 bytes."""
        return DTYPES.get(name) or DType(name, "other", 32)

    @property
    def carried(self) -> bool:
        """Whether numpy lacks it: constants keep the file's bytes, and are never computed with."""
        return self.storage is np.uint8

    @property
    def size(self) -> int:
        """Bytes of an element as Vela stores it."""
        return -(-self.bits // 8) if self.carried else np.dtype(self.storage).itemsize

    @property
    def is_integral(self) -> bool:
        """Whether it has `limits`: the integers that numpy holds, and BOOL."""
        return self.kind in ("boolean", "integer") and not self.carried

    @property
    def limits(self) -> tuple[int, int]:
        """The lowest and highest value, or raises ValueError."""
        if not self.is_integral:
            raise ValueError(f"{self.name} has no limits here: only BOOL and integers that numpy holds do")
        return (0, 1) if self.kind == "boolean" else (-(1 << self.bits - 1), (1 << self.bits - 1) - 1)

    @property
    def accumulator(self) -> str:
        """The name of the dtype in which its products are summed."""
        return self.sums or self.name

    @property
    def is_activation(self) -> bool:
        """Whether feature maps of quantized networks have it, which CLAMP, TABLE and the poolings read."""
        return self.lookup is not None

    def to_bytes(self, value: int) -> bytes:
        """Returns a value as bytes of an attribute, little-endian."""
        return np.array(value, self.storage).tobytes()

    def from_bytes(self, raw: bytes) -> int | float:
        """Returns the value of an attribute's bytes, the inverse of `to_bytes`."""
        value: int | float = np.frombuffer(raw, self.storage)[0].item()
        return value

    @property
    def is_accumulator(self) -> bool:
        """Whether it is the dtype of sums of products, and not of factors."""
        return self.name in _ACCUMULATORS

    @property
    def is_wide(self) -> bool:
        """Whether elementwise operators between RESCALEs compute in it: an accumulator that others read, too."""
        return self.is_accumulator and not self.only_rescaled


#: Every dtype of the TOSA schema but SHAPE, which tensors never have.
DTYPES = {
    d.name: d
    for d in (
        DType("BOOL", "boolean", 8, np.bool_),
        DType("INT4", "integer", 4, sums="INT32"),
        DType("INT8", "integer", 8, np.int8, sums="INT32", lookup=LookupTable(256, "INT8", "INT8")),
        DType("INT16", "integer", 16, np.int16, sums="INT48", lookup=LookupTable(513, "INT16", "INT32")),
        DType("INT32", "integer", 32, np.int32),
        DType("INT48", "integer", 48, np.int64, only_rescaled=True),
        DType("FP32", "float", 32, np.float32),
        DType("FP16", "float", 16, np.float16),
        DType("BF16", "float", 16),
        DType("FP8E4M3", "float", 8),
        DType("FP8E5M2", "float", 8),
        DType("FP6E2M3", "float", 6),
        DType("FP6E3M2", "float", 6),
        DType("FP4E2M1", "float", 4),
        DType("FP8UE8M0", "float", 8),
        DType("INT64", "integer", 64),
        DType("MXINT8", "other", 8),
    )
}
_ACCUMULATORS = frozenset(d.sums for d in DTYPES.values() if d.sums)
