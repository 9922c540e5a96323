"""The commands of all families, with their operands.

A command holds everything that the registers said when it was issued; what a family does not have is at its default.
Source: Vela's `ethos_u55_register_cs_generator.cpp` and `ethos_u85_register_cs_generator.cpp` (Apache-2.0).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from eqsat.device.core.errors import DeviceError
from eqsat.device.core.registers import (
    AccInput,
    ActivationFormat,
    ActivationReverse,
    ActivationTranspose,
    ElementwiseMode,
    IfmUpscaleMode,
    KernelDecomposition,
    PoolingMode,
    ResizeMode,
    Rounding,
    RoundingMode,
    WeightFormat,
    WeightOrder,
    WeightSparsity,
)
from eqsat.target.family import HWC

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
        """Returns (height, width) of what the windows of (height, width) `out` results read, with the padding."""
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
    """The source or the destination of a copy.

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
    """INT32 numbers of pieces, from 0 to `most`; there are `skip` bytes between one row of them and the next."""

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


@dataclass(frozen=True, slots=True)
class Chained:
    """An operand or result of the output's shape in a chaining buffer of the NPU, which never reaches memory."""

    buffer: int
    element: Element
    zero_point: int


@dataclass(frozen=True, slots=True)
class Scalar:
    """An operand that is one number in the command stream."""

    value: int
    element: Element
    zero_point: int


Operand = FeatureMap | Chained | Scalar
#: (offset, step, scale) of an axis that is resized.
ResizedAxis = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Activation:
    """The processing of a result after its scaling.

    function, clip_range: the family's own enumerations.
    minimum, maximum: bits of the registers.
    table: index of a table among those of the function's size; None if the function tells it.
    """

    function: IntEnum
    clip_range: IntEnum
    minimum: int
    maximum: int
    table: int | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """The result of an operation and what is done to it.

    shape: (height, width, depth) before `transpose` and `reverse`; `map` has those after.
    map: None if only accumulators are kept.
    scale: None if each channel has its own, or if there is none.
    """

    shape: HWC
    map: FeatureMap | Chained | None
    scale: FixedPointScale | None
    rounding: RoundingMode
    activation: Activation
    transpose: ActivationTranspose = ActivationTranspose.HWC
    reverse: ActivationReverse = ActivationReverse.NONE

    @property
    def is_turned(self) -> bool:
        """Whether results are transposed or reversed when written."""
        return (self.transpose, self.reverse) != (ActivationTranspose.HWC, ActivationReverse.NONE)


@dataclass(frozen=True, slots=True)
class Accumulators:
    """The accumulators of an operation.

    format: the family's own enumeration.
    input: their initial values.
    output: whether they go to the output; otherwise they are kept for the next operation.
    """

    format: IntEnum
    input: AccInput = AccInput.RESET
    output: bool = True

    @property
    def bits(self) -> int:
        """Bits of an accumulator. Raises DeviceError for one that holds no integers."""
        if not self.format.name.startswith("I"):
            raise DeviceError(f"the model does not know {self.format.name}")
        return int(self.format.name[1:])


@dataclass(frozen=True, slots=True)
class Banks:
    """The banks of shared memory of a kernel's blocks.

    inputs_end: the bank after the inputs.
    second_start: the first bank of the second input, None if there is none.
    accumulators_start: the first bank of accumulators.
    """

    inputs_end: int
    second_start: int | None
    accumulators_start: int


@dataclass(frozen=True, slots=True)
class Block:
    """The blocks into which the work is divided; weights are stored in their order.

    shape: (height, width, depth) of a block of the OFM.
    dependency: BLOCKDEP, by how many blocks a kernel may overlap with the one before.
    micro: (height, width) of the micro blocks that are computed at once; None if the NPU has one kind.
    banks: None if inputs and accumulators have memories of their own.
    """

    shape: HWC
    dependency: int
    micro: tuple[int, int] | None = None
    banks: Banks | None = None


@dataclass(frozen=True, slots=True)
class Convolution:
    """OP_CONV or OP_DEPTHWISE.

    weights: a stream for each core or decoder.
    scales: streams of biases and scales of each channel, none if there is one scale.
    ifm2: the second matrix, [1, out, in], or the initial accumulators; else None.
    matrices: whether it is a product of matrices.
    format: None if weights have one format.
    """

    offset: int
    depthwise: bool
    ifm: FeatureMap
    output: Output
    kernel: Kernel
    upscale: IfmUpscaleMode
    order: WeightOrder
    decomposition: KernelDecomposition
    weights: tuple[ByteRange, ...]
    scales: tuple[ByteRange, ...]
    accumulators: Accumulators
    block: Block
    ifm2: FeatureMap | None = None
    matrices: bool = False
    format: WeightFormat | None = None
    sparsity: WeightSparsity = WeightSparsity.NONE

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        """[out, height, width, in], in which the last is 1 for a depthwise convolution."""
        inputs = 1 if self.depthwise else self.ifm.depth
        return self.output.shape[2], self.kernel.height, self.kernel.width, inputs

    @property
    def is_part_kernel_first(self) -> bool:
        return not self.depthwise and self.order == WeightOrder.PART_KERNEL_FIRST


@dataclass(frozen=True, slots=True)
class Pooling:
    """OP_POOL.

    scales: streams if each channel has its own scale.
    ifm2: the initial accumulators, None if they do not come from memory.
    """

    offset: int
    mode: PoolingMode
    ifm: FeatureMap
    output: Output
    kernel: Kernel
    upscale: IfmUpscaleMode
    scales: tuple[ByteRange, ...]
    accumulators: Accumulators
    block: Block
    ifm2: FeatureMap | None = None


@dataclass(frozen=True, slots=True)
class InputScale:
    """The factor by which an operand is multiplied first.

    double: by how many bits the first of two roundings lies lower.
    """

    scale: FixedPointScale = SAME
    rounding: RoundingMode = Rounding.NATURAL
    double: int = 0


@dataclass(frozen=True, slots=True)
class Elementwise:
    """OP_ELEMENTWISE.

    operands: IFM and, of a binary operation, IFM2.
    inputs: the scale of each operand.
    reversed: whether IFM2 is the first operand.
    """

    offset: int
    mode: ElementwiseMode
    operands: tuple[Operand, ...]
    inputs: tuple[InputScale, ...]
    upscale: IfmUpscaleMode
    output: Output
    accumulators: Accumulators
    block: Block
    reversed: bool = False


@dataclass(frozen=True, slots=True)
class Resize:
    """OP_RESIZE.

    y, x: (offset, step, scale) of each axis; position k of the output lies at (offset + k * step) / scale of the input.
    """

    offset: int
    mode: ResizeMode
    ifm: FeatureMap
    output: Output
    y: ResizedAxis
    x: ResizedAxis
    accumulators: Accumulators
    block: Block


Computation = Convolution | Pooling | Elementwise | Resize
Command = Computation | Dma
