"""The operands of operations of every family: elements, tensors in memory, windows; and waits."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from eqsat.device.core.errors import DeviceError
from eqsat.device.core.registers import ActivationFormat

#: Channels of a brick in the format NHCWB16.
BRICK = 16


@dataclass(frozen=True, slots=True)
class Element:
    """The type of an element: signed or not, of 8, 16, 32 or 64 bits."""

    signed: bool
    bits: int

    @property
    def dtype(self) -> str:
        """The name of its numpy dtype."""
        return f"{'int' if self.signed else 'uint'}{self.bits}"

    @property
    def bytes(self) -> int:
        return self.bits // 8

    @property
    def limits(self) -> tuple[int, int]:
        return (-(1 << self.bits - 1), (1 << self.bits - 1) - 1) if self.signed else (0, (1 << self.bits) - 1)


@dataclass(frozen=True, slots=True)
class FeatureMap:
    """A tensor of [height, width, depth] and its place in memory.

    bases: addresses of up to four tiles, in bytes from the start of `region`.
    Tiles are split at width0, on the left at height0, on the right at height1.
    stride_y, stride_x, stride_c: bytes.
    """

    region: int
    bases: tuple[int, int, int, int]
    height0: int
    height1: int
    width0: int
    stride_y: int
    stride_x: int
    stride_c: int
    format: ActivationFormat
    element: Element
    zero_point: int
    height: int
    width: int
    depth: int

    @property
    def brick(self) -> int:
        """Channels of a position that lie next to each other."""
        return BRICK if self.format == ActivationFormat.NHCWB16 else self.depth


@dataclass(frozen=True, slots=True)
class Kernel:
    """A window: its elements, strides and dilations (y, x), and the padding of the four sides."""

    height: int
    width: int
    stride: tuple[int, int]
    dilation: tuple[int, int]
    top: int
    left: int
    bottom: int
    right: int

    @property
    def padded(self) -> bool:
        return any((self.top, self.left, self.bottom, self.right))

    def reach(self, out: tuple[int, int]) -> tuple[int, int]:
        """Returns (height, width) of all that windows at the positions of `out` read, with the padding."""
        height, width = (
            (n - 1) * s + (taps - 1) * d + 1
            for n, s, taps, d in zip(out, self.stride, (self.height, self.width), self.dilation, strict=True)
        )
        return height, width


@dataclass(frozen=True, slots=True)
class FixedPointScale:
    """A factor of multiplier / 2**shift."""

    multiplier: int
    shift: int


#: A factor of one.
SAME = FixedPointScale(1, 0)


@dataclass(frozen=True, slots=True)
class ByteRange:
    """`length` bytes at `address` of a region; region None is inside the NPU."""

    region: int | None
    address: int
    length: int


@dataclass(frozen=True, slots=True)
class DmaSide:
    """One side of a copy, which it reads or writes.

    region: None inside the NPU.
    strides: bytes from one piece to the next, (outer, inner).
    indexed: whether indices choose the pieces.
    """

    region: int | None
    address: int
    strides: tuple[int, int]
    indexed: bool = False

    def places(self, steps: Iterable[tuple[int, int]]) -> list[int]:
        """Returns the addresses of pieces, each given as (outer, inner)."""
        return [self.address + outer * self.strides[0] + inner * self.strides[1] for outer, inner in steps]


@dataclass(frozen=True, slots=True)
class Indices:
    """INT32 numbers of pieces, from 0 to `most`.

    skip: bytes between one row of them and the next.
    """

    region: int
    address: int
    most: int
    skip: int


@dataclass(frozen=True, slots=True)
class Dma:
    """OP_DMA_START: copies sizes[0] * sizes[1] (outer, inner) pieces of `length` bytes each.

    indices: numbers that choose the pieces of one side, None for a plain copy.
    """

    offset: int
    length: int
    sizes: tuple[int, int]
    source: DmaSide
    destination: DmaSide
    indices: Indices | None = None

    @property
    def steps(self) -> list[tuple[int, int]]:
        """(outer, inner) of each piece, in order."""
        return list(itertools.product(range(self.sizes[0]), range(self.sizes[1])))

    @property
    def places_of_indices(self) -> list[int]:
        """The address of each piece's index, none for a plain copy."""
        i, row = self.indices, 4 * self.sizes[1]
        return [] if i is None else [i.address + outer * (row + i.skip) + 4 * inner for outer, inner in self.steps]

    def places(self, numbers: Sequence[int] = ()) -> list[tuple[int, int]]:
        """Returns the (source, destination) addresses of the pieces, given their indices if it has any.

        Raises DeviceError for an index that is out of range, and for indices on both sides.
        """
        chosen = self.steps
        if self.indices is not None:
            if self.source.indexed and self.destination.indexed:
                raise DeviceError("a copy with indices on both sides")
            if not 0 <= min(numbers) <= max(numbers) <= self.indices.most:
                raise DeviceError(f"an index outside 0 to {self.indices.most}")
            chosen = [(outer, k) for (outer, _), k in zip(self.steps, numbers, strict=True)]
        sides = (side.places(chosen if side.indexed else self.steps) for side in (self.source, self.destination))
        return list(zip(*sides, strict=True))


@dataclass(frozen=True, slots=True)
class Wait:
    """OP_DMA_WAIT or OP_KERNEL_WAIT: waits until at most `outstanding` commands are under way."""

    offset: int
    kernel: bool
    outstanding: int


@dataclass(frozen=True, slots=True)
class Stop:
    """OP_STOP."""

    offset: int
