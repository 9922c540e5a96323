"""What graphs are strung together from: blocks, each of a kind, which is the name of its module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from eqsat.checking.random_graphs.builder import Builder

#: Adds operators that read a value and gives the new values. Raises Unfit or GraphError where it cannot.
Grow = Callable[[Builder, int], list[int]]


@dataclass(frozen=True, slots=True)
class GraphBlock:
    """weight: how often it is drawn, beside others."""

    weight: float
    grow: Grow

    @property
    def name(self) -> str:
        return self.grow.__name__

    @property
    def kind(self) -> str:
        return self.grow.__module__.rpartition(".")[2]


#: In the order of their definition, on which the graph of a seed depends.
BLOCKS: list[GraphBlock] = []


def block(weight: float) -> Callable[[Grow], Grow]:
    """Registers a block."""

    def register(grow: Grow) -> Grow:
        BLOCKS.append(GraphBlock(weight, grow))
        return grow

    return register
