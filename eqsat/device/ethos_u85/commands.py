"""The operations of Ethos-U85: each holds everything that the registers said when it was issued.

The facts are from Vela's generator (Apache-2.0).
It is `ethosu/regor/architecture/ethosu85/ethos_u85_register_cs_generator.cpp`.
"""

from __future__ import annotations

from dataclasses import dataclass

from eqsat.device.core.operands import ByteRange, Dma, Element, FeatureMap, FixedPointScale, Kernel
from eqsat.device.core.registers import IfmUpscaleMode, KernelDecomposition, Rounding, WeightOrder
from eqsat.device.ethos_u85.registers import (
    AccFormat,
    AccInput,
    ActivationClipRange,
    ActivationFunction,
    ActivationReverse,
    ActivationTranspose,
    ElementwiseMode,
    PoolingMode,
    ResizeMode,
    RoundModeIfm,
    WeightFormat,
    WeightSparsity,
)
from eqsat.target.family import HWC


@dataclass(frozen=True, slots=True)
class Chained:
    """An operand or result in one of the NPU's chaining buffers, which never reaches memory.

    It has the shape of the output.
    """

    buffer: int
    element: Element
    zero_point: int


@dataclass(frozen=True, slots=True)
class Scalar:
    """An operand that is one number, which is in the stream."""

    value: int
    element: Element
    zero_point: int


Operand = FeatureMap | Chained | Scalar


@dataclass(frozen=True, slots=True)
class Activation:
    """The processing of a result after its scaling.

    table: index of a table among those of the function's size.
    minimum, maximum: bits of the registers.
    """

    function: ActivationFunction
    table: int
    clip_range: ActivationClipRange
    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True)
class Output:
    """The result of an operation and what is done to it.

    shape: (height, width, depth) before `transpose` and `reverse`; `map` has those after.
    map: None if only accumulators are kept.
    scale: None if each channel has its own.
    Vela does not set the register then.
    """

    shape: HWC
    map: FeatureMap | Chained | None
    scale: FixedPointScale | None
    rounding: Rounding
    activation: Activation
    transpose: ActivationTranspose
    reverse: ActivationReverse


@dataclass(frozen=True, slots=True)
class Accumulators:
    """The accumulators of an operation.

    input: their initial values.
    output: whether they go to the output; otherwise they are kept for the next operation.
    """

    format: AccFormat
    input: AccInput
    output: bool


@dataclass(frozen=True, slots=True)
class Block:
    """The blocks into which the work is cut.

    Results do not depend on it, but weights are stored in the order of blocks.

    shape: (height, width, depth) of a block of the OFM.
    micro: (height, width) of the micro blocks that are computed at once.
    dependency: BLOCKDEP, by how many blocks a kernel may overlap with the one before.
    """

    shape: HWC
    micro: tuple[int, int]
    dependency: int


@dataclass(frozen=True, slots=True)
class Convolution:
    """OP_CONV or OP_DEPTHWISE.

    matrices: whether it is a product of matrices.
    ifm2: the second matrix, [1, out, in], or the initial accumulators; else None.
    weights: a stream for each decoder.
    scales: biases and scales of each channel, None if there is one scale.
    """

    offset: int
    depthwise: bool
    matrices: bool
    ifm: FeatureMap
    ifm2: FeatureMap | None
    output: Output
    kernel: Kernel
    upscale: IfmUpscaleMode
    order: WeightOrder
    decomposition: KernelDecomposition
    format: WeightFormat
    sparsity: WeightSparsity
    weights: tuple[ByteRange, ...]
    scales: ByteRange | None
    accumulators: Accumulators
    block: Block


@dataclass(frozen=True, slots=True)
class Pooling:
    """OP_POOL.

    ifm2: the initial accumulators, None if they do not come from memory.
    scales: scales of each channel, None if there is one scale.
    """

    offset: int
    mode: PoolingMode
    ifm: FeatureMap
    ifm2: FeatureMap | None
    output: Output
    kernel: Kernel
    upscale: IfmUpscaleMode
    scales: ByteRange | None
    accumulators: Accumulators
    block: Block


@dataclass(frozen=True, slots=True)
class InputScale:
    """The factor by which an operand is multiplied first.

    double: by how many bits the first of two roundings lies lower.
    """

    scale: FixedPointScale
    rounding: RoundModeIfm
    double: int


@dataclass(frozen=True, slots=True)
class Elementwise:
    """OP_ELEMENTWISE.

    operands: one or two.
    inputs: the scale of each operand.
    """

    offset: int
    mode: ElementwiseMode
    operands: tuple[Operand, ...]
    inputs: tuple[InputScale, ...]
    upscale: IfmUpscaleMode
    output: Output
    accumulators: Accumulators
    block: Block


@dataclass(frozen=True, slots=True)
class ResizeAxis:
    """An axis of a resize.

    Position k of the output lies at (offset + k * (step * scale + rest)) / scale of the input.
    """

    scale: int
    offset: int
    step: int
    rest: int


@dataclass(frozen=True, slots=True)
class Resize:
    """OP_RESIZE along y and x."""

    offset: int
    mode: ResizeMode
    ifm: FeatureMap
    output: Output
    y: ResizeAxis
    x: ResizeAxis
    accumulators: Accumulators
    block: Block


Command = Convolution | Pooling | Elementwise | Resize | Dma
