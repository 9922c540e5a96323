"""Weights, biases and scales of a convolution on Ethos-U85, from the streams that Vela encoded.

The order and the records are those of Vela's encoder (Apache-2.0).
It is `ethosu/regor/architecture/ethosu85/ethos_u85_weight_encoder.cpp`.
Weights for the standard decoders are compressed as on U55, in a stream for each core.
Weights for the fast decoder are plain numbers or indices into a palette.
They are in one stream in which cores take turns.
Source: `dependencies/mlw_codec/source/mlw_encode_fwd.cpp`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from eqsat.device.core.commands import Convolution
from eqsat.device.core.errors import DeviceError
from eqsat.device.core.registers import WeightSparsity
from eqsat.device.core.weight_order import Order, places
from eqsat.device.core.weight_stream import decode, fill
from eqsat.target.family import Core
from eqsat.tensor.types import Array

#: Consecutive output channels of a core.
_RUN = 4
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


def order_of(c: Convolution, core: Core) -> Order:
    """Returns the order of a convolution's weights (`ethos_u85.cpp`, FindBlockConfig). Raises DeviceError."""
    bits, sparse, micro = c.ifm.element.bits, c.sparsity == WeightSparsity.SPARSE_2_4, _micro(c, core)
    step, rounded, gap, strides = 16 if sparse else 8, 1, 0, (1, 1)
    if c.depthwise:
        deep = shallow = step = 1
        rounded, strides = 10, c.kernel.stride
        gap = 0 if bits != 16 and core.macs <= 256 else 2 if core.macs <= 512 else 6
    elif c.is_part_kernel_first:
        deep, shallow = 16, 8 if bits == 16 and not sparse else 16
        rounded, strides = 10 if bits == 16 or sparse else 5, c.kernel.stride
    elif bits == 32 or (core.macs <= 256 and micro == 16 and not sparse):
        deep = shallow = 32
    else:
        deep = shallow = 128 if sparse and bits == 8 else 64
    return Order(
        c.weight_shape,
        c.kernel.dilation,
        c.block.shape[2],
        micro,
        deep,
        shallow,
        step,
        rounded,
        gap,
        strides,
        core.cores,
        _RUN,
        alternating=True,
    )


def _micro(c: Convolution, core: Core) -> int:
    """Returns the output channels of a micro block."""
    assert c.block.micro is not None
    for height, width, depth in core.micro:
        if (height, width) == c.block.micro:
            return depth
    raise DeviceError(f"micro blocks of {c.block.micro[0]}x{c.block.micro[1]}, which this NPU does not have")


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
            fill(out, places(order, core), decode(stream))
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
    turn = order.micro * order.shallow * order.rounded // order.cores
    each = [places(order, core) for core in range(order.cores)]
    return np.concatenate([p[at : at + turn] for at in range(0, max(map(len, each)), turn) for p in each])
