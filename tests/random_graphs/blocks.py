"""Blocks, the pieces of random graphs."""

from __future__ import annotations

from collections.abc import Callable

from tests.random_graphs.builder import Builder

#: Adds operators that read a value, and returns the new values.
#: Raises Unfit or GraphError if it cannot.
Grow = Callable[[Builder, int], list[int]]
#: All blocks, and how often each is drawn relative to others, in the order of their definition, on which the graph of a
#: seed depends.
BLOCKS: list[tuple[Grow, float]] = []


def block(weight: float) -> Callable[[Grow], Grow]:
    """Registers a block of this weight."""

    def register(grow: Grow) -> Grow:
        BLOCKS.append((grow, weight))
        return grow

    return register
