"""Profiles of random graphs: how large they are, over which inputs, and of which blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from eqsat.tensor.types import Shape
from tests.random_graphs.blocks import GraphBlock

_SHAPES: tuple[Shape, ...] = (
    (1, 6, 6, 8),
    (1, 8, 4, 4),
    (1, 4, 5, 6),
    (2, 4, 4, 4),
    (1, 3, 8, 8),
    (1, 16, 12),
    (4, 6, 8),
    (1, 24),
    (6, 10),
    (1, 1, 20, 6),
    (2, 3, 2, 4, 5),
    (12,),
    (1, 2, 6, 2, 4, 2),
)
_SMALL_SHAPES: tuple[Shape, ...] = (
    (1, 4, 6, 2),
    (1, 6, 4, 4),
    (2, 3, 4, 5),
    (1, 8, 3, 3),
    (1, 12, 4),
    (4, 6),
    (2, 2, 3, 2, 4),
)


@dataclass(frozen=True, slots=True)
class Profile:
    """A description of random graphs.

    fewest, most: operators of a graph, about. largest: elements of a tensor, at most.
    shapes, dtypes: of the inputs, each drawn as often as it is listed.
    weights: {kind or name of a block: factor of its weight}, 1 for others.
    some: whether each graph prefers a random part of the blocks, so that these meet often.
    without: operators that are not added.
    """

    fewest: int = 5
    most: int = 40
    largest: int = 1500
    shapes: tuple[Shape, ...] = _SHAPES
    dtypes: tuple[str, ...] = ("INT8",) * 6 + ("INT16",)
    weights: Mapping[str, float] = field(default_factory=dict)
    some: bool = True
    without: frozenset[str] = frozenset()

    def weight(self, block: GraphBlock) -> float:
        """Returns how often a block is drawn, relative to others."""
        return block.weight * self.weights.get(block.kind, 1.0) * self.weights.get(block.name, 1.0)


#: Graphs like networks.
NETWORK = Profile()
#: Graphs of a few operators on a few elements, which people can read.
#: Operators are frequent that rules are about and that networks seldom have.
RULE = Profile(
    fewest=3,
    most=9,
    largest=600,
    shapes=_SMALL_SHAPES,
    dtypes=("INT8",),
    weights={
        "moving": 0.5,
        "pieces": 1.5,
        "reverse": 16,
        "unary": 3,
        "arithmetic": 0.5,
        "reductions": 0.7,
        "products": 0.3,
    },
    some=False,
)
#: Operators that Vela 5.1 refuses on U55 and U65.
#: Source: random graphs compiled with one block at a time.
REFUSED = frozenset(
    {
        "argmax",
        "bitwise_and",
        "bitwise_not",
        "bitwise_or",
        "bitwise_xor",
        "equal",
        "greater",
        "greater_equal",
        "logical_right_shift",
        "reverse",
        "transpose_conv2d",
    }
)
PROFILES = {
    "network": NETWORK,
    "rule": RULE,
    "vela": replace(NETWORK, dtypes=("INT8",), without=REFUSED),
    "int16": replace(NETWORK, dtypes=("INT16",)),
}
