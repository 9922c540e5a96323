"""Blocks of reductions: sums, extrema, a softmax."""

from __future__ import annotations

from eqsat.tensor import makers
from tests.random_graphs.builder import Builder, block


@block(1.5)
def total(b: Builder, x: int) -> list[int]:
    """Adds a REDUCE_SUM over one or two axes and a RESCALE, which may make it a mean."""
    b.want_activation(x)
    rank = len(b.shape(x))
    y, count = b.widen(x, b.of(0, 4)), 1
    for axis in {b.between(0, rank - 1) for _ in range(b.of(1, 1, 2))}:
        count *= b.shape(y)[axis]
        y = b.add("reduce_sum", y, axis=axis)
    return [b.narrow(y, 4 + count.bit_length() // 2, b.dtype(x))]


@block(1.5)
def extremum(b: Builder, x: int) -> list[int]:
    b.want_activation(x)
    op = b.of("reduce_max", "reduce_max", "reduce_min")
    return [b.make(op, x, attrs=makers.extremum(b.between(0, len(b.shape(x)) - 1)))]


@block(0.4)
def most(b: Builder, x: int) -> list[int]:
    b.want_activation(x)
    b.want(len(b.shape(x)) > 1)
    return [b.make("argmax", x, attrs=makers.extremum(b.between(0, len(b.shape(x)) - 1)))]


@block(0.8)
def softmax(b: Builder, x: int) -> list[int]:
    """Adds a quantized softmax: x - max(x), a table, a sum, and a product with a table of the sum."""
    b.want(b.dtype(x) == "INT8")
    axis = len(b.shape(x)) - 1
    top = b.make("reduce_max", x, attrs=makers.extremum(axis))
    e = b.table(b.narrow(b.add("sub", b.widen(x), b.widen(top)), 1))
    s = b.table(b.narrow(b.add("reduce_sum", b.widen(e), axis=axis), 4))
    return [b.narrow(b.make("mul", b.widen(e), b.widen(s), attrs=makers.mul()), 7)]
