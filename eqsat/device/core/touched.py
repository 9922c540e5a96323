"""Ranges of bytes that commands read and write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from eqsat.device.core.memory import BRICK, tiles
from eqsat.device.core.operands import ByteRange, FeatureMap
from eqsat.device.core.registers import ActivationFormat


@dataclass(frozen=True, slots=True)
class Accesses:
    """Bytes that a command reads and writes, each range with all between its first and its last byte."""

    reads: tuple[ByteRange, ...]
    writes: tuple[ByteRange, ...]

    def conflicts(self, other: Accesses) -> bool:
        """Whether one writes what the other reads or writes."""
        return overlap(self.writes, other.reads + other.writes) or overlap(self.reads, other.writes)


def of_kernel(read: Iterable[object], written: object) -> Accesses:
    """Of a kernel, by its feature maps and the ranges of its constants; what else there is among them lies in no
    memory."""
    return Accesses(tuple(r for x in read for r in _ranges(x)), tuple(_ranges(written)))


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
    """From the first to the last byte of each tile."""
    for rows, columns, base in tiles(m):
        brick = BRICK if m.format == ActivationFormat.NHCWB16 else m.depth
        steps = (
            (m.stride_y, rows.stop - rows.start - 1),
            (m.stride_x, columns.stop - columns.start - 1),
            (m.stride_c, -(-m.depth // brick) - 1),
        )
        low = base + sum(min(0, step * n) for step, n in steps)
        high = base + sum(max(0, step * n) for step, n in steps) + min(brick, m.depth) * m.element.bytes
        yield ByteRange(m.region, low, high - low)


def around(region: int | None, addresses: Iterable[int], length: int) -> ByteRange:
    """From the first of the addresses to the end of the piece at the last one."""
    addresses = list(addresses)
    return ByteRange(region, min(addresses), max(addresses) - min(addresses) + length)
