"""Weights, biases and scales of a convolution, out of the compressed streams that Vela encoded them in.

The order of the weights and the records of biases and scales are those of Vela's encoder
(`ethosu/regor/architecture/ethosu55/ethos_u55_weight_encoder.cpp`, Apache-2.0); the compression is undone by
`weight_stream`. With two cores each has a stream of its own, for every other output channel.
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

#: Depth of the blocks in which input channels are walked, and of the micro blocks that they are made of.
DEEP, SHALLOW, _MICRO = 32, 16, 8
#: Kernels are cut into pieces of this size before dilation.
_PIECE = 8


@dataclass(frozen=True, slots=True)
class Order:
    """How weights of [out, height, width, in] lie in a stream. block: output channels of a block; micro: of a micro
    block; bits: of an input; cores: among which output channels take turns."""

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
        """To a multiple of this the elements of a kernel are filled up with zeros."""
        if self.depthwise:
            return 4
        return (2 if self.bits == 16 else 4) if self.part_kernel else 1


def weights(streams: tuple[bytes, ...], order: Order) -> Array:
    """int16 [out, height, width, in]. Raises DeviceError."""
    out = np.zeros(order.shape, np.int16)
    for core, stream in enumerate(streams):
        fill(out, _places(order, core), decoded(stream))
    return out


@lru_cache(64)
def _places(order: Order, core: int) -> Array:
    """Of every weight in a core's stream the position in the flat weights; -1 of one that only fills up."""
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
    """Output channel, y, x and input channel of the elements of one block, as arrays that broadcast in the order of the
    stream: input micro blocks (outside, of a part-kernel order), output micro blocks, kernel elements, input micro
    blocks (else), output channels, input channels."""
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
    """Records of 10 bytes: bias 40 bits, signed; multiplier 32 bits; shift 6 bits. Raises DeviceError."""
    out = Scales(*(np.zeros(depth, np.int64) for _ in range(3)))
    for core, stream in enumerate(streams):
        count = -(-(depth - core) // len(streams))
        found = weight_stream.scales(stream, count, 5, 9)
        mine = slice(core, None, len(streams))
        out.bias[mine], out.multiplier[mine], out.shift[mine] = found.bias, found.multiplier, found.shift
    return out
