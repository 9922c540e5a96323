"""Profiles of random graphs: how large they are, over which inputs, and without which operators."""

from __future__ import annotations

from dataclasses import dataclass, replace

from eqsat.tensor.types import Shape

_SHAPES: tuple[Shape, ...] = (
    *((1, 6, 6, 8), (1, 8, 4, 4), (1, 4, 5, 6), (2, 4, 4, 4), (1, 3, 8, 8)),
    *((1, 16, 12), (4, 6, 8), (1, 24), (6, 10), (1, 1, 20, 6), (2, 3, 2, 4, 5), (12,), (1, 2, 6, 2, 4, 2)),
)


@dataclass(frozen=True, slots=True)
class Profile:
    """A description of random graphs.

    fewest, most: operators of a graph, about. largest: elements of a tensor, at most.
    shapes, dtypes: of the inputs, each drawn as often as it is listed.
    without: operators that are not added.
    """

    fewest: int = 5
    most: int = 40
    largest: int = 1500
    shapes: tuple[Shape, ...] = _SHAPES
    dtypes: tuple[str, ...] = ("INT8",) * 6 + ("INT16",)
    without: frozenset[str] = frozenset()


#: Graphs like networks.
NETWORK = Profile()
#: Operators that Vela 5.1 refuses on U55 and U65.
#: Source: random graphs compiled with one block at a time.
REFUSED = frozenset(
    {
        *("argmax", "equal", "greater", "greater_equal", "logical_right_shift", "reverse", "transpose_conv2d"),
        *("bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor"),
    }
)
PROFILES = {
    "network": NETWORK,
    "vela": replace(NETWORK, dtypes=("INT8",), without=REFUSED),
    "int16": replace(NETWORK, dtypes=("INT16",)),
}
