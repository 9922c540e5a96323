"""The NPU's memory with terms in place of bytes.

Each byte is unknown, a constant, or one byte of a signed integer, which has a size, a root and a function.
An element can be read if its bytes are those of one integer, in order, or constants.
Anything else is read as a new value that no graph has, so what depends on it is not proved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqsat.device.core.errors import DeviceFault
from eqsat.device.core.memory import tiles
from eqsat.device.core.operands import ByteRange, Dma, Element, FeatureMap
from eqsat.proof.field import LANES, words
from eqsat.proof.functions import Ints
from eqsat.proof.steps import Undecidable
from eqsat.proof.values import Known, Terms, Value

#: dtypes of elements by their bytes.
DTYPES = {1: "INT8", 2: "INT16", 4: "INT32", 8: "INT48"}
#: The kind of a byte that is a constant; 0 is the kind of an unknown byte, and `_part` gives those of integers' bytes.
_CONSTANT = 1
#: Bytes of the largest region that is modelled.
_LARGEST = 1 << 28
#: Bytes of the largest element.
_WIDEST = 8
#: Number of results with several members that are remembered.
_SETS = 32


def _part(size: int, k: int) -> int:
    """Returns the kind of byte k of an integer of `size` bytes (1, 2, 4 or 8)."""
    return 1 + size + k


class _Region:
    """The bytes of a region. Each has a kind, a constant, the command that wrote it, and the term of its integer."""

    def __init__(self, size: int) -> None:
        if size > _LARGEST:
            raise Undecidable(f"a memory of {size:,} bytes")
        self.size = size
        self.kinds, self.constants = np.zeros(size, np.uint8), np.zeros(size, np.uint8)
        self.writers, self.stamps = np.full(size, -1, np.int32), np.zeros(size, np.int32)
        self.roots, self.functions = np.zeros((LANES, size), np.uint32), np.zeros(size, np.int64)
        self.degrees = np.zeros(size, np.int32)

    @property
    def planes(self) -> tuple[NDArray[np.generic], ...]:
        return self.kinds, self.constants, self.writers, self.functions, self.degrees, self.roots


class ShadowMemory:
    """The regions of `sizes` bytes, and the NPU's own memory of `shared` bytes, which is region None."""

    def __init__(self, terms: Terms, sizes: Mapping[int, int], shared: int) -> None:
        self.terms, self.internal = terms, shared
        self._regions: dict[int | None, _Region] = {k: _Region(n) for k, n in [*sizes.items(), (None, shared)]}
        #: Results that are extrema of several members: the numbers of their elements, and they themselves.
        self._sets: list[tuple[Known, Value]] = []
        #: The current command, and the commands that wrote what it has read so far.
        self.writer, self.sources = -1, set[int]()

    def fill(self, region: int, data: bytes) -> None:
        """Writes constants at the start of a region."""
        r = self._regions[region]
        r.kinds[: len(data)] = _CONSTANT
        r.constants[: len(data)] = np.frombuffer(data, np.uint8)

    def constant(self, place: ByteRange) -> bytes:
        """Returns the bytes of a range. Raises DeviceFault outside the region, Undecidable if inputs may change it."""
        r = self._holding(place.region, np.array([place.address]), place.length)
        at = slice(place.address, place.address + place.length)
        if (r.kinds[at] != _CONSTANT).any():
            raise Undecidable("weights, scales, a table or indices that are no constants")
        return r.constants[at].tobytes()

    # ---- elements --------------------------------------------------------------------------------

    def read(self, m: FeatureMap) -> Value:
        """Returns a feature map, [1, height, width, depth], with the values of its type. Raises DeviceFault."""
        return self.read_at(m.region, _addresses(m), m.element)

    def read_at(self, region: int, places: Ints, element: Element) -> Value:
        """Returns the elements at these addresses. Raises DeviceFault."""
        size, at = element.bytes, places.reshape(-1)
        r = self._holding(region, at, size)
        shape = (1, *places.shape) if places.ndim == 3 else places.shape
        self.sources.update(np.unique(r.writers[at]).tolist())
        roots, functions = r.roots[:, at], r.functions[at]
        whole, fixed = r.kinds[at] == _part(size, 0), r.kinds[at] == _CONSTANT
        for k in range(1, size):
            fixed &= r.kinds[at + k] == _CONSTANT
            whole &= (r.kinds[at + k] == _part(size, k)) & (r.functions[at + k] == functions)
            whole &= (r.roots[:, at + k] == roots).all(0)
        degree = max(1, int(r.degrees[at].max(initial=1)))
        out = Value(shape, DTYPES[size], roots.astype(np.int64), functions, degree)
        if fixed.any():
            raw = np.stack([r.constants[at[fixed] + k] for k in range(size)], 1)
            constants = self.terms.constant(raw.reshape(-1).view(f"int{8 * size}"), out.dtype)
            out.roots[:, fixed], out.functions[fixed] = 0, constants.functions
        if not (unknown := ~(whole | fixed)).any():
            out = self._restore_members(out)
        else:
            fresh = self._fresh(int(unknown.sum()), size)
            out.roots[:, unknown], out.functions[unknown] = fresh.roots, fresh.functions
        return out if element.signed else _wrap(self.terms, out, 8 * size, unsigned=True)

    def write(self, m: FeatureMap, v: Value) -> None:
        """Writes a feature map whose type can hold all values. Raises DeviceFault."""
        self.write_at(m.region, _addresses(m), m.element, v)

    def write_at(self, region: int, places: Ints, element: Element, v: Value) -> None:
        size, at = element.bytes, places.reshape(-1)
        r = self._holding(region, at, size)
        if not element.signed:
            v = _wrap(self.terms, v, 8 * size, unsigned=False)
        v = self._remember(v)
        _check_apart(r, at, size)
        for k in range(size):
            r.kinds[at + k], r.functions[at + k], r.degrees[at + k] = _part(size, k), v.functions, v.degree
            r.roots[:, at + k], r.writers[at + k] = v.roots, self.writer

    def move(self, source: FeatureMap, destination: FeatureMap) -> None:
        """Copies the bytes of one feature map to another of the same type. Raises DeviceFault."""
        i, k = (_addresses(m).reshape(-1) for m in (source, destination))
        size = source.element.bytes
        a, b = self._holding(source.region, i, size), self._holding(destination.region, k, size)
        _check_apart(b, k, size)
        every = np.arange(size)
        self._put(b, np.add.outer(k, every), self._take(a, np.add.outer(i, every)))

    def copy(self, c: Dma) -> None:
        """Copies pieces, which only constants may choose; reads before it writes. Raises DeviceError, Undecidable."""
        i = c.indices
        raw = [self.constant(ByteRange(i.region, at, 4)) for at in c.places_of_indices] if i else []
        sources, places = zip(*c.places([int.from_bytes(data, "little", signed=True) for data in raw]), strict=True)
        self.copy_pieces(c.source.region, sources, c.destination.region, places, c.length)

    def copy_pieces(
        self, source: int | None, sources: Sequence[int], to: int | None, places: Sequence[int], length: int
    ) -> None:
        """Copies pieces of `length` bytes from addresses of one region to those of another. Raises DeviceFault."""
        a, b = self._region(source), self._region(to)
        for r, addresses in ((a, sources), (b, places)):
            if min(addresses) < 0 or max(addresses) + length > r.size:
                raise DeviceFault(f"a copy beyond the {r.size:#x} bytes of a region")
        pieces = [self._take(a, slice(at, at + length)) for at in sources]
        for at, piece in zip(places, pieces, strict=True):
            self._put(b, slice(at, at + length), piece)

    def _take(self, r: _Region, at: slice | Ints) -> list[NDArray[Any]]:
        """Returns what is known of some bytes."""
        self.sources.update(np.unique(r.writers[at]).tolist())
        return [plane[..., at].copy() for plane in r.planes]

    def _put(self, r: _Region, at: slice | Ints, known: Sequence[NDArray[Any]]) -> None:
        for plane, values in zip(r.planes, known, strict=True):
            plane[..., at] = values
        r.writers[at] = self.writer

    def _region(self, number: int | None) -> _Region:
        if number not in self._regions:
            raise DeviceFault(f"there is no region {number}")
        return self._regions[number]

    def _holding(self, number: int | None, at: Ints, size: int) -> _Region:
        """Returns a region. Raises DeviceFault if it does not hold `size` bytes at each of these addresses."""
        r = self._region(number)
        if len(at) and not 0 <= at.min() <= at.max() + size <= r.size:
            raise DeviceFault(f"bytes {at.min():#x} to {at.max() + size:#x} of region {number}, which has {r.size:#x}")
        return r

    def _fresh(self, count: int, size: int) -> Value:
        """Returns new values that occur nowhere else."""
        if size == _WIDEST:
            raise Undecidable("8 bytes that nothing wrote as one element")
        t = self.terms
        return t.number(t.symbol("unwritten", t.elements), (count,), DTYPES[size])

    # ---- sets ------------------------------------------------------------------------------------

    def _remember(self, v: Value) -> Value:
        """Returns the value that memory holds; a result with several members is remembered."""
        if v.members == 1:
            return v
        one = self.terms.plain(v)
        numbers = Known([(*words(self.terms.lanes(one)), np.arange(one.elements))])
        self._sets = [*self._sets[1 - _SETS :], (numbers, v)]
        return one

    def _restore_members(self, v: Value) -> Value:
        """Returns the value with its members if it was written as such a result."""
        if not self._sets or not v.elements:
            return v
        # few results have several members, and one element is enough to rule out most other values
        one = self.terms.lanes(v.take(np.zeros(1, np.int64)))
        possible = [(numbers, result) for numbers, result in reversed(self._sets) if numbers.find(one)[0][0]]
        if not possible:
            return v
        lanes = self.terms.lanes(v)
        for numbers, result in possible:
            known, at = numbers.find(lanes)
            if known.all():
                return result.take(at, v.shape, v.dtype)
        return v


def _addresses(m: FeatureMap) -> Ints:
    """Returns the address of each element of a feature map, [height, width, depth]."""
    channels = np.arange(m.depth)
    along = channels // m.brick * m.stride_c + channels % m.brick * m.element.bytes
    out = np.zeros((m.height, m.width, m.depth), np.int64)
    for rows, columns, base in tiles(m):
        y, x = np.arange(rows.stop - rows.start), np.arange(columns.stop - columns.start)
        out[rows, columns] = base + (y * m.stride_y)[:, None, None] + (x * m.stride_x)[:, None] + along
    return out


def _check_apart(r: _Region, at: Ints, size: int) -> None:
    """Raises Undecidable if elements of a result overlap."""
    numbers = np.arange(len(at), dtype=np.int32)
    for k in range(size):
        r.stamps[at + k] = numbers
    if any((r.stamps[at + k] != numbers).any() for k in range(size)):
        raise Undecidable("elements of a result that overlap")


def _wrap(t: Terms, v: Value, bits: int, *, unsigned: bool) -> Value:
    """Returns the values that the same bits have with the other sign. Raises Undecidable if there are too many."""
    low, high = t.limits(v)
    if low.min(initial=0) >= 0 and high.max(initial=0) < 1 << bits - 1:
        return v
    half = 0 if unsigned else 1 << bits - 1
    out = t.tabulate(v, lambda x, _: (x + half) % (1 << bits) - half, v.dtype)
    if out is None:
        raise Undecidable(f"{bits} bits read with another sign")
    return out
