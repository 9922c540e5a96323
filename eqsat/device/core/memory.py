"""The memory of the NPU: its regions and shared memory, for many samples at once, each [samples, bytes]."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from eqsat.device.core.errors import DeviceError, DeviceFault
from eqsat.device.core.operands import ByteRange, Dma, DmaSide, FeatureMap
from eqsat.tensor.types import Array

#: What memory holds before it is written: not 0, or a wrong output would often equal the right one.
_UNWRITTEN = 0xA5
#: The first bytes of a memory, which hold it, 16 MiB; the rest is 0, which takes no memory of the host until written.
_FILLED = 1 << 24
#: An index along samples, height, width and depth.
_Index = tuple[slice, slice, slice, slice]


def _make_unwritten(samples: int, size: int) -> Array:
    memory = np.zeros((samples, size), np.uint8)
    memory[:, :_FILLED] = _UNWRITTEN
    return memory


class MemoryMap:
    """The regions of `sizes` bytes, and the NPU's own memory of `shared` bytes, which is region None."""

    def __init__(self, samples: int, sizes: dict[int, int], shared: int) -> None:
        self.samples = samples
        self._regions: dict[int | None, Array] = {
            None: _make_unwritten(samples, shared),
            **{k: _make_unwritten(samples, n) for k, n in sizes.items()},
        }

    def region(self, number: int | None) -> Array:
        """Returns the bytes of a region, [samples, bytes]. Raises DeviceFault."""
        if number not in self._regions:
            raise DeviceFault(f"there is no region {number}")
        return self._regions[number]

    def at(self, number: int | None, address: int, length: int) -> Array:
        """Returns a view of bytes of a region, [samples, length]. Raises DeviceFault."""
        return self._reaching(number, address, address + length)[:, address : address + length]

    def _reaching(self, number: int | None, low: int, high: int) -> Array:
        """Returns the bytes of a region that has those from `low` to `high`. Raises DeviceFault."""
        region = self.region(number)
        if not 0 <= low <= high <= region.shape[1]:
            raise DeviceFault(f"bytes {low:#x} to {high:#x} of region {number}, which has {region.shape[1]:#x}")
        return region

    def constant(self, place: ByteRange) -> bytes:
        """Returns the bytes of a range that all samples have in common. Raises DeviceError if they have not."""
        found = self.at(place.region, place.address, place.length)
        if (found[1:] != found[0]).any():
            raise DeviceError("weights, scales or a table that differ between samples")
        return found[0].tobytes()

    def read(self, m: FeatureMap) -> Array:
        """Returns a feature map, [samples, height, width, depth] of its dtype. Raises DeviceFault."""
        parts = list(self._views(m))
        if len(parts) == 1:
            return parts[0][1]
        out = np.empty((self.samples, m.height, m.width, m.depth), m.element.dtype)
        for index, view in parts:
            out[index] = view
        return out

    def write(self, m: FeatureMap, values: Array) -> None:
        """Writes a feature map, [samples, height, width, depth]. Raises DeviceFault."""
        for index, view in self._views(m):
            view[...] = values[index]

    def copy(self, c: Dma) -> None:
        """Copies pieces, for each sample those that its own indices choose; reads all of them before it writes.

        Raises DeviceFault, and DeviceError for an index that is out of range.
        """
        parts: list[tuple[slice, int, int]]
        if c.indices is None:
            parts = [(slice(None), *places) for places in c.places()]
        else:
            raw = [np.ascontiguousarray(self.at(c.indices.region, at, 4)) for at in c.places_of_indices]
            numbers = np.stack([data.view(np.int32)[:, 0] for data in raw], 1)
            parts = [(slice(k, k + 1), *p) for k, row in enumerate(numbers.tolist()) for p in c.places(row)]
        pieces = [self.at(c.source.region, source, c.length)[samples].copy() for samples, source, _ in parts]
        for (samples, _, at), piece in zip(parts, pieces, strict=True):
            self.at(c.destination.region, at, c.length)[samples] = piece

    def _views(self, m: FeatureMap) -> Iterator[tuple[_Index, Array]]:
        """Yields pieces that one view can show: the index in the feature map, and [samples, height, width, depth]."""
        for rows, columns, base in tiles(m):
            for first in range(0, m.depth, m.brick):
                channels = slice(first, min(first + m.brick, m.depth))
                address = base + first // m.brick * m.stride_c
                index = (slice(None), rows, columns, channels)
                yield index, self._view(m, address, rows, columns, channels.stop - first)

    def _view(self, m: FeatureMap, address: int, rows: slice, columns: slice, depth: int) -> Array:
        shape = (rows.stop - rows.start, columns.stop - columns.start, depth)
        strides = (m.stride_y, m.stride_x, m.element.bytes)
        reach = [s * (n - 1) for s, n in zip(strides, shape, strict=True)]
        low = address + sum(r for r in reach if r < 0)
        high = address + sum(r for r in reach if r > 0) + m.element.bytes
        region = self._reaching(m.region, low, high)
        return np.ndarray((self.samples, *shape), m.element.dtype, region, address, (region.strides[0], *strides))


def tiles(m: FeatureMap) -> Iterator[tuple[slice, slice, int]]:
    """Yields (rows, columns, base) of each of the up to four tiles."""
    if 0 < m.width <= m.width0 and 0 < m.height <= m.height0:
        yield slice(0, m.height), slice(0, m.width), m.bases[0]
        return
    for columns, height, bases in (
        (slice(0, min(m.width0, m.width)), m.height0, m.bases[::2]),
        (slice(m.width0, m.width), m.height1, m.bases[1::2]),
    ):
        for rows, base in ((slice(0, min(height, m.height)), bases[0]), (slice(height, m.height), bases[1])):
            if rows.start < rows.stop and columns.start < columns.stop:
                yield rows, columns, base


@dataclass(frozen=True, slots=True)
class Accesses:
    """The bytes that a command reads and writes.

    A range includes all bytes between the first and the last one that is touched.
    buffers: the NPU's own memory that the blocks of a kernel take, where tables can lie in it, too.
    """

    reads: tuple[ByteRange, ...]
    writes: tuple[ByteRange, ...]
    buffers: tuple[ByteRange, ...] = ()

    def join(self, other: Accesses) -> Accesses:
        """Returns the bytes that both together read and write."""
        return Accesses(self.reads + other.reads, self.writes + other.writes, self.buffers + other.buffers)

    def conflicts(self, other: Accesses) -> bool:
        """Whether one writes what the other reads or writes."""
        ours, theirs = self.writes + self.buffers, other.writes + other.buffers
        return overlap(ours, other.reads + theirs) or overlap(self.reads, theirs)


def of_kernel(read: Iterable[object], written: object, buffers: tuple[ByteRange, ...] = ()) -> Accesses:
    """Returns the accesses of a kernel to feature maps and ranges of constants; other objects lie in no memory."""
    return Accesses(tuple(r for x in read for r in _ranges(x)), tuple(_ranges(written)), buffers)


def _ranges(x: object) -> Iterable[ByteRange]:
    return of_map(x) if isinstance(x, FeatureMap) else (x,) if isinstance(x, ByteRange) else ()


def overlap(some: Iterable[ByteRange], others: Iterable[ByteRange]) -> bool:
    others = tuple(others)
    return any(
        a.region == b.region and a.address < b.address + b.length and b.address < a.address + a.length
        for a in some
        for b in others
    )


def of_map(m: FeatureMap) -> Iterator[ByteRange]:
    """Yields the range of each tile, from its first to its last byte."""
    for rows, columns, base in tiles(m):
        low, high = base, base + min(m.brick, m.depth) * m.element.bytes
        for reach in (
            m.stride_y * (rows.stop - rows.start - 1),
            m.stride_x * (columns.stop - columns.start - 1),
            m.stride_c * (-(-m.depth // m.brick) - 1),
        ):
            low, high = low + min(0, reach), high + max(0, reach)
        yield ByteRange(m.region, low, high - low)


def of_copy(c: Dma) -> Accesses:
    """Returns the accesses of a copy. Raises DeviceError for a copy of nothing."""
    if min(c.sizes) < 1:
        raise DeviceError("a copy of nothing")
    reads = [_side(c, c.source)]
    if c.indices is not None:
        rows, columns = c.sizes
        step = columns * 4 + c.indices.skip
        reads.append(_around(c.indices.region, (c.indices.address, c.indices.address + (rows - 1) * step), columns * 4))
    return Accesses(tuple(reads), (_side(c, c.destination),))


def copies_onto_itself(c: Dma, touched: Accesses) -> bool:
    """Whether a copy may write bytes that it reads later; touched: its accesses, with all that indices can choose."""
    if not overlap(touched.reads, touched.writes):
        return False
    if c.indices is not None:
        return True
    reads, writes = (
        [ByteRange(side.region, at, c.length) for at in side.places(c.steps)] for side in (c.source, c.destination)
    )
    return reads != writes and any(overlap([w], reads) for w in writes)


def _side(c: Dma, side: DmaSide) -> ByteRange:
    """Returns the bytes of one side of a copy; with indices, all that they can choose."""
    most = c.indices.most if side.indexed and c.indices is not None else c.sizes[1] - 1
    return _around(side.region, side.places(itertools.product((0, c.sizes[0] - 1), (0, most))), c.length)


def _around(region: int | None, addresses: Sequence[int], length: int) -> ByteRange:
    """Returns the range from the lowest address to the end of the piece at the highest one."""
    return ByteRange(region, min(addresses), max(addresses) - min(addresses) + length)
