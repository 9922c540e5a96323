"""Functions for the constants of convolutions and of RESCALEs per channel, which rules of several families use.

An order of channels is a Move that leaves all axes but the last in place.
Examples are a channel shuffle, and the NCHW order that a flatten before a linear layer keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from eqsat.egraph.kinds import Call, Constant, Convolution, LeafValue, such
from eqsat.egraph.terms import extern
from eqsat.tensor.movement import Move
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Shape, Type

#: Maximum number of channels of an order, and of a tensor whose slice becomes zero weights.
MAX_CHANNELS = 2048


@lru_cache(maxsize=65536)
def channel_order(m: Move) -> tuple[int, ...] | None:
    """Returns the order of channels: channel i of m x is channel order[i] of x viewed in m's output shape.

    None if m is a view, moves more than channels, or has more than `MAX_CHANNELS` channels.
    """
    if m.is_view or m.out_shape[-1] > MAX_CHANNELS:
        return None
    parts = m.within(m.out_shape)
    if parts is None or not all(part.is_identity for part in parts[:-1]):
        return None
    return tuple(parts[-1].apply(np.arange(m.out_shape[-1])).tolist())


#: A movement that reorders channels and moves nothing else.
ChannelOrder = Annotated[Move, such("order", Move, lambda m: channel_order(m) is not None)]


def kernel_of(call: Call, weights: Shape) -> tuple[int, int]:
    """Returns height and width of a convolution's kernel, for the shape of its weights."""
    height, width = weights[OPS[call.op].kernel_axis :][:2]
    return height, width


@extern
def is_product(call: Convolution, weights: Type) -> bool:
    """Tells whether a convolution multiplies each pixel by a matrix: one tap, stride 1 and no padding."""
    return kernel_of(call, weights.shape) == (1, 1) and call.attr("stride") == (1, 1) and not any(call.attr("pad"))


def take(leaf: Constant, index: Sequence[int] | NDArray[Any], axis: int) -> LeafValue:
    """Returns the elements of a constant at `index` along `axis`.

    A bias of one element serves all channels and is returned as it is.
    """
    if leaf.data.ndim == 1 and leaf.data.size == 1:
        return leaf
    return LeafValue.constant(np.take(leaf.data, index, axis), leaf.node.dtype)
