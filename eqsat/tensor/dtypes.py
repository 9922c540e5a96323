"""Element types of tensors, each stated once.

Tensors name their dtype (`Type.dtype`, `Node.dtype`) as TOSA does; its properties are here.

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
    dtype: of an entry.
    result: dtype of the result.
    """

    entries: int
    dtype: str
    result: str


@dataclass(frozen=True, slots=True)
class DType:
    """An element type.

    name, code: TOSA's name, and its number in the schema.
    bits: of an element in a TOSA file.
    size: bytes of an element as Vela stores it.
    storage: the numpy type that holds it (INT48 is in int64); uint8, raw bytes, if carried.
    carried: numpy lacks it; constants keep the file's bytes and are never computed with.
    sums: the dtype of sums of its products (None: its own).
    lookup: the table of a TABLE operator on it, None if it has none.
    only_rescaled: only a RESCALE reads it.
    """

    name: str
    code: int
    kind: Literal["boolean", "integer", "float", "other"]
    bits: int
    size: int
    storage: type[np.generic] = np.uint8
    carried: bool = False
    sums: str | None = None
    lookup: LookupTable | None = None
    only_rescaled: bool = False

    @staticmethod
    def of(name: str) -> DType:
        """Returns the dtype of a name.

        A name that TOSA does not have is carried, with elements of 4 bytes.
        """
        return DTYPES.get(name) or DType(name, 0, "other", 32, 4, carried=True)

    @property
    def is_integral(self) -> bool:
        """Whether it has `limits`: the integers that numpy holds, and BOOL."""
        return self.kind in ("boolean", "integer") and not self.carried

    @property
    def limits(self) -> tuple[int, int]:
        """The lowest and highest value.

        Raises ValueError if there are none.
        """
        if not self.is_integral:
            raise ValueError(f"{self.name} has no limits here: only BOOL and integers that numpy holds do")
        return (0, 1) if self.kind == "boolean" else (-(1 << self.bits - 1), (1 << self.bits - 1) - 1)

    @property
    def accumulator(self) -> str:
        """The name of the dtype in which its products are summed."""
        return self.sums or self.name

    @property
    def is_activation(self) -> bool:
        """Whether feature maps of quantized networks have it.

        CLAMP, TABLE and the poolings read it.
        """
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
        """Whether elementwise operators between RESCALEs compute in it.

        It is an accumulator that not only a RESCALE reads.
        """
        return self.is_accumulator and not self.only_rescaled


def _make_carried(
    name: str, code: int, kind: Literal["integer", "float", "other"], bits: int, sums: str | None = None
) -> DType:
    return DType(name, code, kind, bits, -(-bits // 8), carried=True, sums=sums)


#: Every dtype of the TOSA schema but SHAPE, which tensors never have.
DTYPES = {
    d.name: d
    for d in (
        DType("BOOL", 1, "boolean", 8, 1, np.bool_),
        _make_carried("INT4", 2, "integer", 4, sums="INT32"),
        DType("INT8", 3, "integer", 8, 1, np.int8, sums="INT32", lookup=LookupTable(256, "INT8", "INT8")),
        DType("INT16", 4, "integer", 16, 2, np.int16, sums="INT48", lookup=LookupTable(513, "INT16", "INT32")),
        DType("INT32", 5, "integer", 32, 4, np.int32),
        DType("INT48", 6, "integer", 48, 8, np.int64, only_rescaled=True),
        DType("FP32", 7, "float", 32, 4, np.float32),
        DType("FP16", 8, "float", 16, 2, np.float16),
        _make_carried("BF16", 9, "float", 16),
        _make_carried("FP8E4M3", 11, "float", 8),
        _make_carried("FP8E5M2", 12, "float", 8),
        _make_carried("FP6E2M3", 13, "float", 6),
        _make_carried("FP6E3M2", 14, "float", 6),
        _make_carried("FP4E2M1", 15, "float", 4),
        _make_carried("FP8UE8M0", 16, "float", 8),
        _make_carried("INT64", 17, "integer", 64),
        _make_carried("MXINT8", 18, "other", 8),
    )
}
_ACCUMULATORS = frozenset(d.sums for d in DTYPES.values() if d.sums)
