"""Bytes of the encoded weights of a convolution in Vela 5.

They are near the entropy of the weights, with the zeros that fill up the hardware's order.
"""

from __future__ import annotations

from functools import lru_cache
from math import log2, prod

import numpy as np

from cost_models.blocks import up
from cost_models.machine import Machine
from cost_models.protocol import Unit
from eqsat.tensor import sparsity
from eqsat.tensor.types import Const, occurrences

#: The ratio of the encoded size to the entropy.
#: Calibrated on Vela 5.1 with the convolutions of 19 networks, and so are the next two.
_OVERHEAD = 1.055
#: Bytes of the frame of a stream of weights.
_FRAME = 32
#: Bits of entropy of a trained or random INT8 weight, for weights that are not known.
_BITS = 7.5


def stored_weights(unit: Unit) -> Const | None:
    return unit.constants[1] if len(unit.constants) > 1 else None


def encoded(machine: Machine, unit: Unit, kind: str, part_kernel: bool) -> float:
    """Returns the bytes of the weights of `unit`, which is computed as `kind` (blocks.Work).

    A family may have a second format of plain bytes.
    Then the format counts that is decoded and fetched faster.
    (ethos_u85_performance.cpp, WeightDecodeCycles.)
    """
    weights, known = unit.operands[1], stored_weights(unit)
    bits, zeros = _information(known) if known is not None else (_BITS, 0.0)
    size, (part_depth, depth) = weights.elements, machine.family.filled_depth
    if unit.op == "depthwise_conv2d":
        taps, channels = prod(weights.shape[:2]), weights.shape[2] if kind == "depthwise" else 1
    else:
        taps, channels = prod(weights.shape[1:3]), weights.shape[3]
    if kind == "depthwise":
        filled = up(taps, 4) / taps
    elif part_kernel:
        filled = up(taps, 4) * up(channels, part_depth) / (taps * channels)
    else:
        filled = up(channels, depth) / channels
    coded = _FRAME + size * _OVERHEAD * (bits + _padding_bits(filled)) / 8 * weights.bytes / size
    if not machine.family.plain_weights or kind == "depthwise":
        return coded
    plain = _FRAME + weights.bytes * (up(taps, 5) * up(channels, 16) / (taps * channels) if part_kernel else filled)
    rate = machine.core.cores * (8 + 60 * (min(0.9, max(0.5, 1 - (1 - zeros) / filled)) - 0.5))
    slow = max(size * filled / rate, coded / machine.constants.channel)
    fast = max(plain / 32, plain / machine.constants.channel)
    return coded if slow < fast else plain


def _padding_bits(filled: float) -> float:
    """Returns the bits per weight that tell weights from zeros, for `filled` places per weight."""
    share = 1 / filled
    return 0.0 if share == 1 else -(share * log2(share) + (1 - share) * log2(1 - share)) / share


@lru_cache(maxsize=4096)
def _information(c: Const) -> tuple[float, float]:
    """Returns the bits of entropy per weight, and the share of zeros."""
    if c.data.dtype == np.int8:
        values, counts = np.arange(-128, 128), occurrences(c.data)
    else:
        values, counts = np.unique(c.data, return_counts=True)
    share = counts[counts > 0] / c.data.size
    return float(-(share * np.log2(share)).sum()), float(counts[values == 0].sum()) / c.data.size


def two_of_four(channels: int, known: Const | None) -> bool:
    """Whether at most two of every four channels of the weights are not zero.

    channels: of the input; missing channels count as zeros.
    known: the weights, None if they are not known.
    """
    return channels <= 2 or known is not None and channels % 4 == 0 and _sparse(known)


@lru_cache(maxsize=4096)
def _sparse(c: Const) -> bool:
    return sparsity.two_of_four(c.data)
