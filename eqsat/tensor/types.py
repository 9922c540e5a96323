"""Dtypes, shapes, types, attributes, constants and the values allowed, in which the op table and graphs are written."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray


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
        """Whether it has no numpy dtype here: constants keep the file's bytes, and are never computed with."""
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


Shape = tuple[int, ...]
Array = NDArray[Any]
Attrs = tuple[tuple[str, Any], ...]
#: TOSA operators in sequence, each reading the one before, as (name in `OPS`, attributes).
Steps = tuple[tuple[str, Attrs], ...]


class GraphError(ValueError):
    """A graph that breaks a rule of the language; the message names the node and the remedy."""


class Unpredictable(GraphError):
    """Operands for which TOSA leaves the result of an operator open (UNPREDICTABLE)."""


class Const:
    """An immutable array; two are equal if the hashes of their contents are.

    data: a read-only numpy array in the dtype's storage, which is raw bytes for dtypes that numpy lacks.
    """

    __slots__ = ("data", "digest")

    def __init__(self, data: Array, dtype: str, shape: Sequence[int] | None = None):
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


@dataclass(frozen=True, slots=True)
class Type:
    """Shape and dtype of a tensor."""

    shape: Shape
    dtype: str

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes of the tensor as Vela stores it."""
        return self.elements * DType.of(self.dtype).size


def hides_bits(value: object) -> bool:
    """Whether a number is a float that is compared by other than its bits: -0.0 equals 0.0, and NaN not itself."""
    return isinstance(value, float | np.floating) and (value != value or value == 0 and bool(np.signbit(value)))


def attrs_of(values: Mapping[str, Any]) -> Attrs:
    """Returns the normal form of an attribute mapping: sorted, lists as tuples."""
    return tuple(sorted((k, tuple(v) if isinstance(v, list) else v) for k, v in values.items()))


def occurrences(data: Array) -> Array:
    """Returns how often each value from -128 to 127 occurs in an INT8 array, [256]."""
    return np.roll(np.bincount(np.ascontiguousarray(data).view(np.uint8).ravel(), minlength=256), 128)


#: Magnitude beyond the results of all operators.
FAR = 1 << 62


@dataclass(frozen=True, slots=True)
class Allowed:
    """A set of allowed values.

    low, high: limits, both included (None: those of the dtype).
    never: values within them that are not allowed, sorted.
    distinct: no value may occur twice along the last axis.
    channels: the sets of the indices of the last axis, if they differ; this set is then what all of them allow.

    >>> Allowed(0, 9) & Allowed(-3, 7, never=(0,))
    Allowed(low=1, high=7, never=(), distinct=False, channels=())
    """

    low: int | None = None
    high: int | None = None
    never: tuple[int, ...] = ()
    distinct: bool = False
    channels: tuple[Allowed, ...] = ()

    @staticmethod
    def by_channel(channels: Sequence[Allowed]) -> Allowed:
        """Returns one set for all indices of the last axis, given the set of each."""
        common = reduce(Allowed.__and__, channels)
        return common if len(set(channels)) == 1 else replace(common, channels=tuple(channels))

    def __and__(self, other: Allowed) -> Allowed:
        """Returns the values that both allow in all channels, with limits that are allowed unless there are none."""
        low = max((v for v in (self.low, other.low) if v is not None), default=None)
        high = min((v for v in (self.high, other.high) if v is not None), default=None)
        never = {*self.never, *other.never}
        while low in never and (high is None or low < high):
            low += 1
        while high in never and (low is None or high > low):
            high -= 1
        inside = (v for v in never if (low is None or v > low) and (high is None or v < high))
        return Allowed(low, high, tuple(sorted(inside)), self.distinct or other.distinct)

    def limits(self, low: int = -FAR, high: int = FAR) -> tuple[int, int]:
        """Returns the lowest and highest value, which are `low` and `high` where this set has no limit."""
        return low if self.low is None else self.low, high if self.high is None else self.high

    def why_not(self, values: Array) -> str:
        """Returns why some of the values are not allowed, "" if all are."""
        if not values.size:
            return ""
        if self.channels:
            reasons = (allowed.why_not(values[..., c]) for c, allowed in enumerate(self.channels))
            return next((f"in channel {c} {why_not}" for c, why_not in enumerate(reasons) if why_not), "")
        least, most = int(values.min()), int(values.max())
        low, high = self.limits()
        if least < low or most > high:
            return f"from {least} to {most}, allowed are {_text(self.low)} to {_text(self.high)}"
        if self.never and (found := np.intersect1d(values, self.never)).size:
            return f"{found[0]}, which is not allowed"
        if self.distinct and values.ndim and not np.diff(np.sort(values)).all():
            return "the same one twice"
        return ""

    def nearest_above(self, values: Array) -> Array:
        """Returns the values, with each one in `never` replaced by the next one above that is not."""
        if not self.never:
            return values
        never = np.asarray(self.never)
        # The values that follow a run of values that are not allowed.
        after = np.setdiff1d(never + 1, never)
        above = after[np.minimum(np.searchsorted(after, values), len(after) - 1)]
        return np.where(np.isin(values, never), above, values)


#: Any value.
ANY = Allowed()


def _text(limit: int | None) -> str:
    return "any" if limit is None else str(limit)
