"""Shapes, types, attributes and constants, in which the op table and graphs are written."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqsat.tensor.dtypes import DType

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
