"""The operations of Ethos-U85: each with everything that the registers said when it was issued.

Facts from Vela's generator (`ethosu/regor/architecture/ethosu85/ethos_u85_register_cs_generator.cpp`, Apache-2.0).
"""

from __future__ import annotations

from dataclasses import dataclass

from eqsat.device.core.operands import ByteRange, Copy, Element, FeatureMap, FixedPointScale, Kernel
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
    """An operand or result that never reaches memory: in one of the NPU's chaining buffers, with the shape of the
    output."""

    buffer: int
    element: Element
    zero_point: int


@dataclass(frozen=True, slots=True)
class Scalar:
    """An operand that is one number, in the stream."""

    value: int
    element: Element
    zero_point: int


Operand = FeatureMap | Chained | Scalar


@dataclass(frozen=True, slots=True)
class Activation:
    """What happens to a result after its scaling. table: which of those that have the function's size. minimum,
    maximum: bits as they are in the registers."""

    function: ActivationFunction
    table: int
    clip_range: ActivationClipRange
    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True)
class Output:
    """The result of an operation and what is done to it. shape: (height, width, depth) before `transpose` and
    `reverse`; map has those after.
    map: None where only accumulators are kept. scale: None where each channel has its own; it is left alone by Vela
    then."""

    shape: HWC
    map: FeatureMap | Chained | None
    scale: FixedPointScale | None
    rounding: Rounding
    activation: Activation
    transpose: ActivationTranspose
    reverse: ActivationReverse


@dataclass(frozen=True, slots=True)
class Accumulators:
    """Where accumulators begin, and whether they are handed on to the output (else they are kept for the next
    operation)."""

    format: AccFormat
    input: AccInput
    output: bool


@dataclass(frozen=True, slots=True)
class Block:
    """How the work is cut, of no influence on the result but that weights are stored in this order: (height, width,
    depth), and (height, width) of the micro blocks that are computed at once. dependency: how many blocks may overlap
    with those of the operation before."""

    shape: HWC
    micro: tuple[int, int]
    dependency: int


@dataclass(frozen=True, slots=True)
class Convolution:
    """OP_CONV or OP_DEPTHWISE. ifm2: weights of a product of matrices ([1, out, in]), or what accumulators begin with.
    weights: a stream for each decoder; scales: biases and scales of each channel, None of a product of matrices."""

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
    """OP_POOL. ifm2: what accumulators begin with, where they do; scales: where each channel has its own."""

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
    """What an operand is multiplied by first. double: how many bits further up it is rounded before."""

    scale: FixedPointScale
    rounding: RoundModeIfm
    double: int


@dataclass(frozen=True, slots=True)
class Elementwise:
    """OP_ELEMENTWISE. operands: one or two; inputs: their scales."""

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
    """Position k of the output lies at (offset + k * (step * scale + rest)) / scale of the input."""

    scale: int
    offset: int
    step: int
    rest: int


@dataclass(frozen=True, slots=True)
class Resize:
    """OP_RESIZE: y and x."""

    offset: int
    mode: ResizeMode
    ifm: FeatureMap
    output: Output
    y: ResizeAxis
    x: ResizeAxis
    accumulators: Accumulators
    block: Block


@dataclass(frozen=True, slots=True)
class DmaSide:
    """Where a copy reads or writes. region: None inside the NPU (its tables); strides: bytes from one piece to the
    next, (outer, inner);
    indexed: pieces are chosen by indices."""

    region: int | None
    address: int
    strides: tuple[int, int]
    indexed: bool


@dataclass(frozen=True, slots=True)
class Indices:
    """INT32 numbers of pieces, up to `most`; skip: bytes between one row of them and the next."""

    region: int
    address: int
    most: int
    skip: int


@dataclass(frozen=True, slots=True)
class Dma(Copy):
    """indices: what chooses the pieces of one side, None of a plain copy."""

    source: DmaSide
    destination: DmaSide
    indices: Indices | None


Command = Convolution | Pooling | Elementwise | Resize | Dma
