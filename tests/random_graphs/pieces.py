"""Blocks of slices, pads, concats, tiles and reversals."""

from __future__ import annotations

import itertools
from math import prod

from eqsat.tensor.dtypes import DType
from tests.random_graphs.builder import Builder, block


def _axis(b: Builder, x: int, least: int = 2) -> int:
    options = [d for d, n in enumerate(b.shape(x)) if n >= least]
    b.want(bool(options))
    return b.of(*options, options[-1])


@block(2)
def part(b: Builder, x: int) -> list[int]:
    axis = _axis(b, x)
    n = b.shape(x)[axis]
    size = b.between(1, n - 1)
    return [b.slice(x, axis, b.of(0, n - size, b.between(0, n - size)), size)]


@block(0.6)
def inner(b: Builder, x: int) -> list[int]:
    """Adds a slice along every axis."""
    sizes = [b.between(max(1, n - 2), n) for n in b.shape(x)]
    return [
        b.add(
            "slice",
            x,
            start=tuple(b.between(0, n - s) for n, s in zip(b.shape(x), sizes, strict=True)),
            size=tuple(sizes),
        )
    ]


@block(1.5)
def halves(b: Builder, x: int) -> list[int]:
    """Adds a CONCAT of slices that cover an axis, in any order, each perhaps after an operator.

    The value itself may be among the operands.
    """
    axis = _axis(b, x)
    n = b.shape(x)[axis]
    cuts = sorted({0, n, *(b.between(1, n - 1) for _ in range(b.between(1, 2)))})
    pieces = [b.slice(x, axis, a, z - a) for a, z in itertools.pairwise(cuts)]
    shared = b.chance(0.4)
    pieces = [p if b.chance(0.5) or shared else b.unary(p) for p in pieces]
    if shared:  # the same operator after every slice
        attrs = b.g.nodes[b.clamp(pieces[0])].attrs
        pieces = [b.g.add_with("clamp", (p,), attrs) for p in pieces]
    if b.chance(0.3):
        pieces = pieces[::-1]
    if b.chance(0.3):
        pieces.insert(b.between(0, len(pieces)), x)
    return [b.concat(axis, *pieces)]


@block(2)
def join(b: Builder, x: int) -> list[int]:
    """Adds a CONCAT with values of the same shape, which may be constants, forks of x or CONCATs."""
    axis = b.between(0, len(b.shape(x)) - 1)
    others = [b.of(*b.like(x), x) for _ in range(b.between(1, 3))]
    for i, o in enumerate(others):
        kind = b.between(0, 5)
        if kind == 0:
            constants = [
                b.const(b.shape(x), b.dtype(x), *((0, 1) if b.dtype(x) == "BOOL" else (-100, 100))) for _ in range(2)
            ]
            others[i] = b.of(constants[0], b.concat(axis, *constants))
        elif kind <= 2 and DType.of(b.dtype(x)).is_activation:
            others[i] = b.unary(o)
        elif kind == 3 and len(others) > 1:
            others[i] = b.concat(axis, o, x)
    operands = [x, *others]
    b.rng.shuffle(operands)
    return [b.concat(axis, *map(int, operands))]


@block(1)
def spans(b: Builder, x: int) -> list[int]:
    """Adds a SLICE of a CONCAT, which may lie within one operand or span several."""
    axis = _axis(b, x, 1)
    joined = b.concat(axis, x, b.of(*b.like(x), x), b.unary(x))
    n = b.shape(joined)[axis]
    if b.chance(0.3):
        return [*part(b, joined)]
    size = b.between(1, n - 1)
    return [b.slice(joined, axis, b.between(0, n - size), size)]


@block(0.5)
def stream(b: Builder, x: int) -> list[int]:
    """Adds a streaming state: cached steps (a graph input) and new ones, of which the last remain."""
    axis = _axis(b, x)
    n = b.shape(x)[axis]
    shape = list(b.shape(x))
    shape[axis] = b.between(1, 3)
    b.want(len(b.g.inputs) < 4 and DType.of(b.dtype(x)).is_activation)
    joined = b.concat(axis, b.input(shape, b.dtype(x)), x)
    return [joined, b.slice(joined, axis, n, shape[axis])]


@block(1.5)
def border(b: Builder, x: int) -> list[int]:
    """Adds a PAD of H and W or of any axes, by a zero point or the lowest value."""
    rank, (low, _) = len(b.shape(x)), DType.of(b.dtype(x)).limits
    b.want_activation(x)
    pads = [b.of(0, 0, 1, 2) for _ in range(2 * rank)]
    if rank == 4 and b.chance(0.6):
        pads = [0, 0, *(b.between(0, 1) for _ in range(4)), 0, 0]
    y = b.pad(x, pads, b.of(0, low, b.zero(b.dtype(x))))
    if b.chance(0.2):
        y = b.pad(y, [b.between(0, 1) for _ in pads], b.of(0, low))
    return [y]


@block(0.5)
def tile(b: Builder, x: int) -> list[int]:
    multiples = [b.of(1, 1, 2, 3) for _ in b.shape(x)]
    b.want(b.size(x) * prod(multiples) <= b.largest)
    return [b.add("tile", x, multiples=tuple(multiples))]


@block(0.5)
def reverse(b: Builder, x: int) -> list[int]:
    return [b.add("reverse", x, axis=b.between(0, len(b.shape(x)) - 1))]
