"""How many blocks of a kernel may start before the previous kernel is done: the largest permissible BLOCKDEP.

With a BLOCKDEP of n, job k may start while n - k of the previous kernel's blocks are unwritten; it may not read them.
Blocks follow each other along the depth first, then the width, then the height.
A job is a block of results with some of the channels that it reads.
Source: CalcBlockDep in Vela's `ethosu55/ethos_u55_register_cs_generator.cpp` (Apache-2.0).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from eqsat.device.core.memory import of_map, overlap, tiles
from eqsat.device.core.operands import FeatureMap, Kernel
from eqsat.target.family import HWC, Family
from eqsat.tensor.types import Array

#: (first element, one past the last) along height, width or depth.
Span = tuple[int, int]
Box = tuple[Span, Span, Span]


def no_block(block: HWC, micro: HWC, family: Family) -> str:
    """Returns why a family does not permit a block size, empty if it does."""
    if any(b % m for b, m in zip(block, micro, strict=True)):
        return f"blocks of {block}, which are no whole micro blocks of {micro}"
    if any(b > most for b, most in zip(block, family.largest_block, strict=True)):
        return f"blocks of {block}, of which {family.largest_block} is the largest"
    return ""


def round_up(n: int, step: int) -> int:
    return -(-n // step) * step


@dataclass(frozen=True, slots=True)
class Reading:
    """An operand, and the part of it that each job reads.

    kernel: the window that moves over it; None if each result reads the element at its own place.
    factor: of upscaling.
    channels: number of channels that a job reads; None: the channels of its results.
    whole: all of it is read for each block.
    resized: the axes of `Resize`, in place of a kernel; each result lies between two elements.
    """

    map: FeatureMap
    kernel: Kernel | None = None
    factor: int = 1
    channels: int | None = None
    whole: bool = False
    resized: tuple[tuple[int, int, int], tuple[int, int, int]] | None = None

    def is_in_place(self, written: FeatureMap) -> bool:
        """Whether each result is made from one element, and is written in its place."""
        is_elementwise = self.kernel is None and self.resized is None and not self.whole
        placed = replace(self.map, element=written.element, zero_point=written.zero_point)
        return is_elementwise and placed == written and self.map.element.bits == written.element.bits

    @property
    def jobs(self) -> int:
        """Number of jobs of a block."""
        return -(-self.map.depth // self.channels) if self.channels else 1

    def read_for(self, box: Box, job: int) -> Box | None:
        """Returns the box that a job reads for a block of results, None if it is empty."""
        m = self.map
        if self.whole:
            return (0, m.height), (0, m.width), (0, m.depth)
        spans = self._rows(0, *box[0], m.height), self._rows(1, *box[1], m.width), self._depth(job, box[2])
        (h0, h1), (w0, w1), (c0, c1) = spans
        cut = (max(0, h0), min(m.height, h1)), (max(0, w0), min(m.width, w1)), (max(0, c0), min(m.depth, c1))
        return cut if all(a < b for a, b in cut) else None

    def _depth(self, job: int, of_results: Span) -> Span:
        if self.channels:
            return job % self.jobs * self.channels, (job % self.jobs + 1) * self.channels
        return (0, 1) if self.map.depth == 1 else of_results

    def _rows(self, axis: int, first: int, end: int, size: int) -> Span:
        k = self.kernel
        if self.resized is not None:
            offset, step, scale = self.resized[axis]
            return (offset + first * step) // scale, (offset + (end - 1) * step) // scale + 2
        if k is None:
            return (0, 1) if size == 1 else (first, end)
        taps, before = ((k.height, k.top), (k.width, k.left))[axis]
        low = first * k.stride[axis] - before
        high = (end - 1) * k.stride[axis] - before + (taps - 1) * k.dilation[axis] + 1
        return low // self.factor, -(-high // self.factor)


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks of a kernel.

    shape, block: (height, width, depth) of its results and of a block.
    dependency: its BLOCKDEP.
    written: the feature map of its results; None if they stay inside the NPU, or are transposed or reversed.
    """

    shape: HWC
    block: HWC
    dependency: int
    written: FeatureMap | None
    readings: tuple[Reading, ...]

    def boxes(self, last: bool = False) -> Iterator[Box]:
        """Yields the boxes of results in order; with `last` from the last one back."""
        counts = [-(-n // b) for n, b in zip(self.shape, self.block, strict=True)]
        total = math.prod(counts)
        for k in range(total - 1, -1, -1) if last else range(total):
            place = k // (counts[1] * counts[2]), k // counts[2] % counts[1], k % counts[2]
            spans = zip(place, self.block, self.shape, strict=True)
            h, w, c = ((p * b, min(n, (p + 1) * b)) for p, b, n in spans)
            yield h, w, c

    def overwrite_operands(self, chain: Sequence[Reading] = ()) -> bool:
        """Whether a block is written to bytes that a later block reads.

        chain: the operands of the kernels whose results this one takes block by block.
        It is False if `written` is None.
        """
        out = self.written
        readings = [r for r in (*chain, *self.readings) if out is not None and not r.is_in_place(out)]
        if out is None or not any(overlap(of_map(r.map), of_map(out)) for r in readings):
            return False
        ranges = list(of_map(out))
        low, high = min(r.address for r in ranges), max(r.address + r.length for r in ranges)
        last = np.full(high - low, -1)  # the last block that reads each byte
        for k, box in enumerate(self.boxes()):
            found = ((r.map, r.read_for(box, job)) for r in readings for job in range(r.jobs))
            for m, read in found:
                if read is not None and m.region == out.region:
                    for at in _Runs.of(m, read).within(low, high):
                        last[at] = k
        written = ((k, at) for k, box in enumerate(self.boxes()) for at in _Runs.of(out, box).within(low, high))
        return any((last[at] > k).any() for k, at in written)

    def jobs(self) -> Iterator[list[tuple[FeatureMap, Box]]]:
        """Yields the boxes that each job reads, with their feature maps."""
        each = max((r.jobs for r in self.readings), default=1)
        for box, job in itertools.product(self.boxes(), range(each)):
            found = ((r.map, r.read_for(box, job)) for r in self.readings)
            yield [(m, read) for m, read in found if read is not None]


def most_dependency(before: Blocks, after: Blocks, most: int) -> int:
    """Returns the largest BLOCKDEP, up to `most`, with which `after` reads nothing unwritten of `before`.

    It is `most` if `before.written` is None.
    """
    out = before.written
    if out is None or not any(overlap(of_map(r.map), of_map(out)) for r in after.readings):
        return most
    lasts = [_Runs.of(out, box) for box in itertools.islice(before.boxes(last=True), most)]
    for k, job in enumerate(itertools.islice(after.jobs(), most)):
        reads = [_Runs.of(m, read) for m, read in job]
        for j, late in enumerate(lasts[: max(0, most - k)]):
            if any(late.meets(r) for r in reads):
                most = min(most, k + j)
    return most


@dataclass(frozen=True, slots=True)
class _Runs:
    """The bytes of a box: from `starts` to `ends`, in order."""

    region: int
    starts: Array
    ends: Array

    @staticmethod
    def of(m: FeatureMap, box: Box) -> _Runs:
        """Returns one run for each row, column and brick of the box."""
        size, brick = m.element.bytes, m.brick
        bricks = np.arange(box[2][0] // brick, -(-box[2][1] // brick))
        first = np.maximum(box[2][0] - bricks * brick, 0) * size
        end = np.minimum(box[2][1] - bricks * brick, brick) * size
        found = [np.zeros((2, 0), np.int64)]
        for rows, columns, base in tiles(m):
            y = np.arange(max(box[0][0], rows.start), min(box[0][1], rows.stop)) - rows.start
            x = np.arange(max(box[1][0], columns.start), min(box[1][1], columns.stop)) - columns.start
            at = base + (y[:, None, None] * m.stride_y + x[:, None] * m.stride_x + bricks * m.stride_c)
            found.append(np.stack([(at + first).reshape(-1), (at + end).reshape(-1)]))
        both = np.concatenate(found, axis=1)
        return _Runs(m.region, *both[:, np.argsort(both[0], kind="stable")])

    def within(self, low: int, high: int) -> Iterator[slice]:
        """Yields the runs as slices of the bytes from `low` to `high`, those outside left out."""
        for start, end in zip((self.starts - low).clip(0), (self.ends - low).clip(0, high - low), strict=True):
            if start < end:
                yield slice(int(start), int(end))

    def meets(self, other: _Runs) -> bool:
        """Whether they have a byte in common."""
        if self.region != other.region or not len(self.starts) or not len(other.starts):
            return False
        at = np.searchsorted(self.ends, other.starts, "right")
        return bool(np.any(np.append(self.starts, np.iinfo(np.int64).max)[at] < other.ends))
