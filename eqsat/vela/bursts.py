"""The length of a burst of a feature map: Vela's EstimateMemoryTransfer.

(ethos_u55_performance.cpp and ethos_u85_performance.cpp.)
"""

from __future__ import annotations

from eqsat.target.family import HWC


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
