"""Weights, biases and scales of a convolution, from the compressed streams that Vela encoded.

The order of weights and the records of biases and scales are those of Vela's encoder.
Source: `ethosu/regor/architecture/ethosu55/ethos_u55_weight_encoder.cpp`, Apache-2.0.
`weight_stream` undoes the compression.
Two cores have a stream each, for every other output channel.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from eqsat.device.core.commands import Convolution, Pooling
from eqsat.device.core.weight_order import Order, places
from eqsat.device.core.weight_stream import decode, fill
from eqsat.target.family import Core
from eqsat.tensor.types import Array

#: Input channels of a block (`_SHALLOW` if part kernel first or 16 bits), and of a micro block.
_DEEP, _SHALLOW, _MICRO = 32, 16, 8


def order_of(c: Convolution, core: Core) -> Order:
    """Returns the order of a convolution's weights in the stream of an only core."""
    shape, dilation, block, micro = c.weight_shape, c.kernel.dilation, c.block.shape[2], core.micro[0][2]
    if c.depthwise:
        return Order(shape, dilation, block, micro, deep=1, shallow=1, step=1, rounded=4)
    deep, is_wide = deep_channels(c), c.ifm.element.bits == 16
    if c.is_part_kernel_first:
        return Order(shape, dilation, block, micro, deep, _MICRO, _MICRO, 2 if is_wide else 4)
    return Order(shape, dilation, block, micro, deep, deep, _MICRO, 1)


def deep_channels(c: Convolution | Pooling) -> int:
    """Returns the input channels of a block that each result reads all of."""
    is_shallow = isinstance(c, Convolution) and c.is_part_kernel_first or c.ifm.element.bits == 16
    return _SHALLOW if is_shallow else _DEEP


def weights(streams: tuple[bytes, ...], order: Order, cores: int = 1) -> Array:
    """Returns the weights of a convolution, int16 [out, height, width, in]. Raises DeviceError."""
    out = np.zeros(order.shape, np.int16)
    for core, stream in enumerate(streams):
        mine = out[core::cores].copy()
        own = replace(order, shape=mine.shape, block=(order.block + cores - 1 - core) // cores)
        fill(mine, places(own), decode(stream))
        out[core::cores] = mine
    return out
