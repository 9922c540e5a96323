"""The ranges of bytes that commands read and write."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from eqsat.device.core.errors import DeviceError
from eqsat.device.core.memory import tiles
from eqsat.device.core.operands import ByteRange, Dma, DmaSide, FeatureMap


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
    """Returns the accesses of a kernel.

    read, written: feature maps and ranges of constants; other objects lie in no memory.
    """
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
    """Whether a copy writes bytes that it reads, of which it may read some only afterwards.

    touched: its accesses; with indices all that they can choose counts.
    """
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
