"""Weights, biases and scales of a convolution, from the compressed streams that Vela encoded.

The order of weights and the records of biases and scales are those of Vela's encoder.
Source: `ethosu/regor/architecture/ethosu55/ethos_u55_weight_encoder.cpp`, Apache-2.0.
`weight_stream` undoes the compression.
Two cores have a stream each, for every other output channel.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from eqsat.device.core import weight_stream
from eqsat.device.core.arithmetic import Scales
from eqsat.device.core.weight_stream import decoded, fill
from eqsat.tensor.types import Array

#: Input channels of a block (SHALLOW if part kernel first or 16 bits), and of a micro block.
DEEP, SHALLOW, _MICRO = 32, 16, 8
#: Elements of a piece of a kernel along an axis, before dilation.
_PIECE = 8


@dataclass(frozen=True, slots=True)
class Order:
    """The order of weights of [out, height, width, in] in a stream.

    block: output channels of a block.
    micro: output channels of a micro block.
    bits: of an input.
    cores: among which output channels take turns.
    """

    shape: tuple[int, int, int, int]
    depthwise: bool
    part_kernel: bool
    dilation: tuple[int, int]
    block: int
    micro: int
    bits: int
    cores: int

    @property
    def _rounded(self) -> int:
        """The multiple to which the elements of a kernel are padded with zeros."""
        if self.depthwise:
            return 4
        return (2 if self.bits == 16 else 4) if self.part_kernel else 1


def weights(streams: tuple[bytes, ...], order: Order) -> Array:
    """Returns the weights of a convolution, int16 [out, height, width, in]. Raises DeviceError."""
    out = np.zeros(order.shape, np.int16)
    for core, stream in enumerate(streams):
        fill(out, _places(order, core), decoded(stream))
    return out


@lru_cache(64)
def _places(order: Order, core: int) -> Array:
    """Returns the position in the flat weights of every weight of a core's stream; -1 for padding."""
    depth = -(-(order.shape[0] - core) // order.cores)
    block = (order.block + order.cores - 1 - core) // order.cores
    inputs = 1 if order.depthwise else order.shape[3]
    step = SHALLOW if order.part_kernel or order.bits == 16 else DEEP
    pieces = [_PIECE // d for d in order.dilation]
    places = []
    for o, i, y, x in itertools.product(
        range(0, depth, block),
        range(0, inputs, step),
        range(0, order.shape[1], pieces[0]),
        range(0, order.shape[2], pieces[1]),
    ):
        size = min(order.shape[1] - y, pieces[0]), min(order.shape[2] - x, pieces[1])
        spans = min(block, depth - o), min(step, inputs - i) if order.part_kernel else step
        within = _within(order, spans, size)
        oc, ic = o + within[0], i + within[3]
        fits = (oc < depth) & (ic < inputs) & (within[1] < size[0])
        channel = oc * order.cores + core
        flat = ((channel * order.shape[1] + y + within[1]) * order.shape[2] + x + within[2]) * order.shape[3] + ic
        places.append(np.where(fits, flat, -1).reshape(-1))
    return np.concatenate(places)


def _within(order: Order, spans: tuple[int, int], size: tuple[int, int]) -> tuple[Array, ...]:
    """Returns (output channel, y, x, input channel) of one block, as arrays that broadcast in stream order.

    The axes are input micro blocks (part kernel only), output micro blocks, kernel elements,
    input micro blocks (else), output channels and input channels.
    """
    elements = -(-size[0] * size[1] // order._rounded) * order._rounded
    outer = range(0, spans[1], _MICRO) if order.part_kernel else range(1)
    inner = range(1) if order.part_kernel or order.depthwise else range(0, spans[1], _MICRO)
    ranges = (
        outer,
        range(0, spans[0], order.micro),
        range(elements),
        inner,
        range(order.micro),
        range(1 if order.depthwise else _MICRO),
    )
    a, o, k, b, oz, iz = np.ix_(*(np.array(r) for r in ranges))
    return o + oz, k // size[1], k % size[1], a + b + iz


@lru_cache(512)
def scales(streams: tuple[bytes, ...], depth: int) -> Scales:
    """Biases and scales from records of 10 bytes.

    A record has a signed bias of 40 bits, a multiplier of 32 and a shift of 6.
    Raises DeviceError.
    """
    out = Scales(*(np.zeros(depth, np.int64) for _ in range(3)))
    for core, stream in enumerate(streams):
        count = -(-(depth - core) // len(streams))
        found = weight_stream.scales(stream, count, 5, 9)
        mine = slice(core, None, len(streams))
        out.bias[mine], out.multiplier[mine], out.shift[mine] = found.bias, found.multiplier, found.shift
    return out
