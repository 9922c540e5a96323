"""Blocks, the pieces of random graphs. The kind of a block is the name of its module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.random_graphs.builder import Builder

#: Adds operators that read a value, and returns the new values.
#: Raises Unfit or GraphError if it cannot.
Grow = Callable[[Builder, int], list[int]]


@dataclass(frozen=True, slots=True)
class GraphBlock:
    """A registered block. weight: how often it is drawn, relative to others."""

    weight: float
    grow: Grow

    @property
    def name(self) -> str:
        return self.grow.__name__

    @property
    def kind(self) -> str:
        return self.grow.__module__.rpartition(".")[2]


#: All blocks in the order of their definition, on which the graph of a seed depends.
BLOCKS: list[GraphBlock] = []


def block(weight: float) -> Callable[[Grow], Grow]:
    """Registers a block of this weight."""

    def register(grow: Grow) -> Grow:
        BLOCKS.append(GraphBlock(weight, grow))
        return grow

    return register
