"""The block sizes that a family permits."""

from __future__ import annotations

from eqsat.target.family import HWC, Family


def no_block(block: HWC, micro: HWC, family: Family) -> str:
    """Returns why a block size is impossible, empty if it is possible."""
    if any(b % m for b, m in zip(block, micro, strict=True)):
        return f"blocks of {block}, which are no whole micro blocks of {micro}"
    if any(b > most for b, most in zip(block, family.largest_block, strict=True)):
        return f"blocks of {block}, of which {family.largest_block} is the largest"
    return ""


def rounded_up(n: int, step: int) -> int:
    return -(-n // step) * step
