"""Readings: movements of a tensor to [1, height, width, channels], named for any shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from math import isqrt, prod

from eqsat.target.staging import write_steps
from eqsat.tensor.blocking import regroup
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.movement import Move
from eqsat.tensor.types import Attrs, Shape, Steps, attrs_of

#: A name and a number: ("columns", 2) makes pairs of columns channels.
Reading = tuple[str, int]
#: Numbers that readings are tried with, besides the strides and dilations of a graph.
NUMBERS = (2, 3, 4, 8)
#: (shape to split into, order of its axes, shape to join to).
_Split = tuple[Shape, Shape, Shape]
#: {name: the split of (height, width, channels)}.
_ONE: Mapping[str, Callable[[int, int, int], _Split]] = {
    "plain": lambda h, w, c: ((h, w, c), (0, 1, 2), (1, h, w, c)),
    "turned": lambda h, w, c: ((h, w, c), (1, 0, 2), (1, w, h, c)),
    "row": lambda h, w, c: ((h, w, c), (0, 1, 2), (1, 1, h * w, c)),
    "column": lambda h, w, c: ((h, w, c), (0, 1, 2), (1, h * w, 1, c)),
    "square": lambda h, w, c: ((h, w, c), (0, 1, 2), (1, h * w // _root(h * w), _root(h * w), c)),
    "channels first": lambda h, w, c: ((h, w, c), (1, 2, 0), (1, w, c, h)),
    "channels last": lambda h, w, c: ((h, w, c), (2, 0, 1), (1, c, h, w)),
    "depth as width": lambda h, w, c: ((h, w, c), (0, 1, 2), (1, h * w, c, 1)),
    "flat": lambda h, w, c: ((h, w, c), (0, 1, 2), (1, 1, 1, h * w * c)),
}
#: {name: the split of (height, width, channels, number)}.
_SEVERAL: Mapping[str, Callable[[int, int, int, int], _Split]] = {
    "columns": lambda h, w, c, k: ((h, w // k, k, c), (0, 1, 2, 3), (1, h, w // k, k * c)),
    "rows": lambda h, w, c, k: ((h // k, k, w, c), (0, 2, 1, 3), (1, h // k, w, k * c)),
    "blocks": lambda h, w, c, k: ((h // k, k, w // k, k, c), (0, 2, 1, 3, 4), (1, h // k, w // k, k * k * c)),
    "wide": lambda h, w, c, k: ((h, w, k, c // k), (0, 1, 2, 3), (1, h, w * k, c // k)),
    "tall": lambda h, w, c, k: ((h, w, k, c // k), (0, 2, 1, 3), (1, h * k, w, c // k)),
    "large": lambda h, w, c, k: ((h, w, k, k, c // k // k), (0, 2, 1, 3, 4), (1, h * k, w * k, c // k // k)),
    "in turn": lambda h, w, c, k: ((h, w, k, c // k), (0, 1, 3, 2), (1, h, w, c)),
    "phases of columns": lambda h, w, c, k: ((h, w // k, k, c), (0, 2, 1, 3), (1, h * k, w // k, c)),
    "phases of rows": lambda h, w, c, k: ((h // k, k, w, c), (0, 2, 1, 3), (1, h // k, w * k, c)),
}


def _root(n: int) -> int:
    """Returns the largest divisor up to the square root."""
    return next(d for d in range(isqrt(n), 0, -1) if n % d == 0)


def planes(shape: Shape) -> tuple[int, int, int]:
    """Returns height, width and channels of a tensor of any rank.

    Images of a batch are stacked vertically.
    """
    padded = (1,) * (3 - len(shape)) + shape
    return prod(padded[:-2]), padded[-2], padded[-1]


def reading(name: Reading, shape: Shape) -> Move | None:
    """Returns the movement that a name stands for, or None if the shape is not divisible."""
    kind, k = name
    h, w, c = planes(shape)
    split, order, out = _SEVERAL[kind](h, w, c, k) if kind in _SEVERAL else _ONE[kind](h, w, c)
    if prod(split) != prod(shape) or not all(out):
        return None
    return regroup(shape, split, order, out)


def readings(shape: Shape, numbers: Iterable[int] = NUMBERS) -> Iterator[tuple[Reading, Move]]:
    """Yields the readings of a tensor, each movement once."""
    seen: set[Move] = set()
    for name in [*((kind, 1) for kind in _ONE), *product(_SEVERAL, numbers)]:
        move = reading(name, shape)
        if move is not None and move not in seen:
            seen.add(move)
            yield name, move


def shortest(m: Move) -> Steps:
    """Returns the fewest reshapes and transposes that move as `m` does."""
    if not m.is_view and (direct := m.direct()) is not None:
        return (("transpose", attrs_of({"perms": direct})),)
    return write_steps(m, () if m.is_view else (m.squeeze(),))


def after(graph: TensorGraph, x: int, steps: Iterable[tuple[str, Attrs]]) -> int:
    """Adds unary operators after a value, and returns the result."""
    for op, attrs in steps:
        x = graph.add_with(op, [x], attrs)
    return x
