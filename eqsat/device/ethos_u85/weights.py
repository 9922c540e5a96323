"""Weights, biases and scales of a convolution on Ethos-U85, from the streams that Vela encoded.

The order and the records are those of Vela's encoder (Apache-2.0).
It is `ethosu/regor/architecture/ethosu85/ethos_u85_weight_encoder.cpp`.
Weights for the standard decoders are compressed as on U55, in a stream for each core.
Weights for the fast decoder are plain numbers or indices into a palette.
They are in one stream in which cores take turns.
Source: `dependencies/mlw_codec/source/mlw_encode_fwd.cpp`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from eqsat.device.core import weight_stream
from eqsat.device.core.arithmetic import Scales
from eqsat.device.core.errors import DeviceError
from eqsat.device.core.weight_stream import decoded, fill
from eqsat.tensor.types import Array

#: Consecutive output channels of a core.
_RUN = 4
#: Elements of a piece of a kernel along an axis, before dilation.
_PIECE = 8
#: Bits of the header of the fast format.
_HEADER = 256
#: Bit of the header at which the correction of plain weights begins.
_ADJUST = 104
#: Bit of the header at which the palette begins.
_PALETTE = 112
#: Bits of an entry of the palette.
_ENTRY = 9
#: Number of entries of the palette.
_ENTRIES = 16


@dataclass(frozen=True, slots=True)
class Order:
    """The order of weights of [out, height, width, in] in a stream.

    block: output channels of a block.
    micro: output channels of a micro block.
    bits: of an input.
    cores: number of cores that share the work.
    macs: MACs of all cores.
    """

    shape: tuple[int, int, int, int]
    depthwise: bool
    part_kernel: bool
    sparse: bool
    stride: tuple[int, int]
    dilation: tuple[int, int]
    block: int
    micro: int
    bits: int
    cores: int
    macs: int

    @property
    def deep(self) -> int:
        """Input channels of a block (`ethos_u85.cpp`, FindBlockConfig)."""
        if self.depthwise:
            return 1
        if self.part_kernel:
            return 16
        if self.bits == 32 or (self.macs <= 256 and self.micro == 16 and not self.sparse):
            return 32
        return 128 if self.sparse and self.bits == 8 else 64

    @property
    def shallow(self) -> int:
        """Input channels of a micro block."""
        return 8 if self.part_kernel and self.bits == 16 and not self.sparse else self.deep

    @property
    def rounded(self) -> int:
        """The multiple to which the elements of a kernel are padded with zeros."""
        if self.depthwise:
            return 10
        if not self.part_kernel:
            return 1
        return 10 if self.bits == 16 or self.sparse else 5

    @property
    def gap(self) -> int:
        """Kernel elements of zeros after every `rounded` elements of a depthwise convolution."""
        if not self.depthwise or (self.bits != 16 and self.macs <= 256):
            return 0
        return 2 if self.macs <= 512 else 6

    @property
    def turn(self) -> int:
        """Weights of a core before those of the next one, in the fast format."""
        return self.micro * self.shallow * self.rounded // self.cores


def weights(streams: tuple[bytes, ...], order: Order, fast: bool) -> Array:
    """Returns the weights of a convolution, int16 [out, height, width, in]. Raises DeviceError."""
    out = np.zeros(order.shape, np.int16)
    if fast:
        if len(streams) != 1:
            raise DeviceError(f"{len(streams)} streams for the fast decoder, which has one")
        fill(out, _in_turns(order), _fast(streams[0]))
    else:
        if len(streams) > order.cores:
            raise DeviceError(f"{len(streams)} streams of weights for {order.cores} cores")
        for core, stream in enumerate(streams):
            fill(out, _places(order, core), decoded(stream))
    return out


@lru_cache(512)
def _fast(stream: bytes) -> Array:
    """Returns the weights of a stream for the fast decoder.

    The first bits of the header say whether weights are plain, or how many bits an index has.
    A correction was added to plain weights so that they fit into 8 bits.
    """
    bits = np.unpackbits(np.frombuffer(stream, np.uint8), bitorder="little")
    if len(bits) < _HEADER:
        raise DeviceError(f"{len(stream)} bytes of weights for the fast decoder")
    if bits[0]:
        adjust = int(np.packbits(bits[_ADJUST : _ADJUST + 8], bitorder="little").view(np.int8)[0])
        plain = np.frombuffer(stream, np.int8, offset=_HEADER // 8).astype(np.int16)
        return plain - adjust
    entries = bits[_PALETTE : _PALETTE + _ENTRIES * _ENTRY].reshape(_ENTRIES, _ENTRY) @ (1 << np.arange(_ENTRY))
    palette = np.where(entries & 1, -(entries >> 1), entries >> 1).astype(np.int16)
    chosen = 2 if bits[1] else 4
    numbers = bits[_HEADER:].reshape(-1, chosen) @ (1 << np.arange(chosen))
    return palette[numbers]


@lru_cache(64)
def _in_turns(order: Order) -> Array:
    """Returns the places of all cores' weights, in the order of one stream for the fast decoder."""
    if order.cores == 1:
        return _places(order, 0)
    each = [_places(order, core) for core in range(order.cores)]
    parts = []
    for at in range(0, max(map(len, each)), order.turn):
        parts += [p[at : at + order.turn] for p in each]
    return np.concatenate(parts)


@lru_cache(64)
def _places(order: Order, core: int) -> Array:
    """Returns the position in the flat weights of every weight of a core's stream, int32; -1 for padding.

    Blocks of output channels are outermost.
    Blocks of input channels within go forward and backward alternately.
    """
    out, height, width, inputs = order.shape
    inputs = 1 if order.depthwise else inputs
    pieces = [_PIECE // d for d in order.dilation]
    deep = list(range(0, inputs, order.deep))
    parts: list[Array] = []
    for k, o in enumerate(range(0, out, order.block)):
        ofm = range(o, min(o + order.block, out), order.micro)
        for i, x, y in itertools.product(
            deep[:: -1 if k % 2 else 1], range(0, width, pieces[1]), range(0, height, pieces[0])
        ):
            piece = min(height - y, pieces[0]), min(width - x, pieces[1])
            elements = list(_elements(order, piece))
            ifm = range(i, i + min(order.deep, inputs - i), order.shallow)
            parts += [_micro_block(order, core, (y, x), elements, first, z) for first in ifm for z in ofm]
    return np.concatenate(parts)


def _elements(order: Order, piece: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Yields (y, x) of a kernel's elements, by position within a stride unless depth first, rows in turns backward."""
    strides = order.stride if order.depthwise or order.part_kernel else (1, 1)
    for y, x in itertools.product(range(strides[0]), range(strides[1])):
        for n, row in enumerate(range(y, piece[0], strides[0])):
            columns = range(x, piece[1], strides[1])
            yield from ((row, column) for column in (columns[::-1] if n % 2 else columns))


def _micro_block(
    order: Order, core: int, corner: tuple[int, int], elements: list[tuple[int, int]], first: int, channel: int
) -> Array:
    """Returns the places of the weights of one micro block; first, channel: its first input and output channel."""
    out, height, width, inputs = order.shape
    step = 1 if order.depthwise else 16 if order.sparse else 8
    inner = np.arange(0, order.shallow, step)
    runs = np.arange(core * _RUN, order.micro, _RUN * order.cores)
    e, a, b, c, d = np.ix_(np.arange(len(elements)), inner, runs, np.arange(_RUN), np.arange(step))
    ic, oc = first + a + d, channel + b + c
    y, x = (np.array([p[axis] + corner[axis] for p in elements])[e] for axis in (0, 1))
    places = ((oc * height + y) * width + x) * inputs + ic
    places = np.where((ic < inputs) & (oc < out), places, -1).astype(np.int32).reshape(len(elements), -1)
    rounded = np.pad(places, ((0, -len(elements) % order.rounded), (0, 0)), constant_values=-1)
    groups = rounded.reshape(-1, order.rounded, places.shape[1])
    return np.pad(groups, ((0, 0), (0, order.gap), (0, 0)), constant_values=-1).reshape(-1)


@lru_cache(512)
def scales(stream: bytes, depth: int, wide: bool) -> Scales:
    """Biases and scales from records of 10 bytes.

    A record has a bias of 32 bits and a multiplier of 31, and a shift of 6.
    With wide accumulators the bias has 48 bits and the multiplier 15.
    Raises DeviceError.
    """
    return weight_stream.scales(stream, depth, 6 if wide else 4, 8)
