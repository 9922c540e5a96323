"""What blocks of feature maps move between the memories and the NPU.

The length of a burst is that of Vela's EstimateMemoryTransfer.
(ethos_u55_performance.cpp and ethos_u85_performance.cpp.)
"""

from __future__ import annotations

from math import ceil, prod
from typing import NamedTuple

from eqsat.target.family import HWC

#: A shape (n, h, w, c), in elements.
NHWC = tuple[int, int, int, int]


def burst(reads: bool, rows: bool, bits: int, block: HWC, shape: HWC, cores: int = 1) -> int:
    """Returns the contiguous bytes of the part of a feature map that a block takes.

    reads: whether it is read or written.
    rows: whether it is laid out in rows (NHWC), not in bricks of 16 channels.
    bits: of an element.
    cores: how many cores write side by side.
    """
    whole = bits * block[1] * block[2]
    if not rows:
        length = whole if shape[1] * bits * 2 == block[2] else 16 * bits * block[1] * cores
    elif shape[2] * bits // 8 == block[2] and (reads or block[2] <= 16):
        length = whole
    else:
        length = bits * block[2] if reads else min(512, 16 * bits * cores, bits * block[2])
    return max(1, length // 8)


class Cut(NamedTuple):
    """The stripes and blocks of a result.

    Stripes are computed one after the other, each block by block.
    """

    stripe: NHWC
    block: NHWC

    def blocks(self, axis: int, size: int) -> int:
        """Returns the number of blocks along an axis of `size` elements."""
        stripe = min(size, self.stripe[axis] or size)
        whole, rest = divmod(size, stripe)
        return whole * ceil(stripe / self.block[axis]) + ceil(rest / self.block[axis])


def elements_read(shape: NHWC, result: NHWC, cut: Cut) -> int:
    """Returns the elements of an operand that are read in all.

    Along an axis on which it broadcasts, its one element is read for each block.
    Along any other axis each element is read once.
    """
    return prod(cut.blocks(axis, out) if n == 1 < out else n for axis, (n, out) in enumerate(zip(shape, result)))
