"""What the operations of every family are made of: elements, tensors in memory, windows, and what waits."""

from __future__ import annotations

from dataclasses import dataclass

from eqsat.device.core.registers import ActivationFormat


@dataclass(frozen=True, slots=True)
class Element:
    """The type of an element: whether signed, and 8, 16, 32 or 64 bits."""

    signed: bool
    bits: int

    @property
    def dtype(self) -> str:
        """numpy's name."""
        return f"{'int' if self.signed else 'uint'}{self.bits}"

    @property
    def bytes(self) -> int:
        return self.bits // 8

    @property
    def limits(self) -> tuple[int, int]:
        return (-(1 << self.bits - 1), (1 << self.bits - 1) - 1) if self.signed else (0, (1 << self.bits) - 1)


@dataclass(frozen=True, slots=True)
class FeatureMap:
    """Where a tensor of [height, width, depth] lies: bases (bytes in `region`) of up to four tiles, split at width0 and
    at height0 (left) and height1 (right); strides in bytes."""

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


@dataclass(frozen=True, slots=True)
class Kernel:
    """Elements of the window, strides and dilations (y, x), and the padding on the four sides."""

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


@dataclass(frozen=True, slots=True)
class FixedPointScale:
    """A factor of multiplier / 2**shift."""

    multiplier: int
    shift: int


#: A factor of one.
SAME = FixedPointScale(1, 0)


@dataclass(frozen=True, slots=True)
class ByteRange:
    """`length` bytes at `address` of a region, None: inside the NPU."""

    region: int | None
    address: int
    length: int


@dataclass(frozen=True, slots=True)
class Copy:
    """OP_DMA_START: `sizes` (outer, inner) pieces of length bytes each."""

    offset: int
    length: int
    sizes: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Wait:
    """OP_DMA_WAIT or OP_KERNEL_WAIT: until at most `outstanding` are."""

    offset: int
    kernel: bool
    outstanding: int


@dataclass(frozen=True, slots=True)
class Stop:
    """OP_STOP."""

    offset: int
