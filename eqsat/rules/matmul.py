"""MATMUL: data movement and slices across it, its transpose, and constants.

MATMUL multiplies [n, h, c] by [n, c, w]. A movement that keeps the three axes apart, reordering inside each, crosses it: what
happens to n happens to both operands, h belongs to the left one, w to the right one, and c may be reordered in both at once.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Annotated

import numpy as np

from eqsat.egraph.attributes import Call, LeafValue
from eqsat.egraph.externs import extern
from eqsat.egraph.kinds import Constant, Conv2d, Matmul, Slice, Value, such
from eqsat.egraph.rule import rule
from eqsat.egraph.terms import let, symbols
from eqsat.tensor import makers
from eqsat.tensor.movement import Axis, Move
from eqsat.tensor.types import Shape, Type

#: A movement that is no view.
Reordering = Annotated[Move, such("reordering", Move, lambda m: not m.is_view)]
#: Order of the atomic axes inside one dim, outermost first, as (size, stride within the dim).
Inside = tuple[Axis, ...]


def separated(m: Move) -> tuple[Inside, ...] | None:
    """What `m` does inside each dim, when it takes no element from one dim to another; None if it does."""
    atoms = m.atoms()
    if m.in_shape != m.out_shape or atoms is None or any(a.in_dim != a.out_dim for a in atoms):
        return None
    return tuple(
        tuple((a.size, a.in_stride // prod(m.in_shape[d + 1 :])) for a in atoms if a.in_dim == d)
        for d in range(len(m.in_shape))
    )


def joined(shape: Shape, inside: tuple[Inside, ...]) -> Move:
    """The movement of `shape` that reorders inside each dim."""
    sizes: list[int] = []
    perm: list[int] = []
    for order in inside:
        before = sorted(order, key=lambda axis: -axis[1])
        perm += [len(sizes) + before.index(axis) for axis in order]
        sizes += [size for size, _ in before]
    m = Move.reshape(shape, sizes).then(Move.transpose(sizes, perm))
    return m.then(Move.reshape(m.out_shape, shape))


def _plain(size: int) -> Inside:
    return ((size, 1),) if size > 1 else ()


def _back(size: int, order: Inside) -> Inside:
    return joined((size,), (order,)).inverse().axes


@extern
def moved_product(m: Reordering, left: Type, right: Type) -> tuple[Move, Move] | None:
    """m (a b): the movements of a and of b."""
    inside = separated(m)
    if inside is None:
        return None
    (_, _, c), (n, h, w) = left.shape, inside
    return joined(left.shape, (n, h, _plain(c))), joined(right.shape, (n, _plain(c), w))


@extern
def product_of_moved_left(m: Reordering, right: Type) -> tuple[Move, Move] | None:
    """(m a) b: the movements of the result and of b."""
    inside = separated(m)
    if inside is None:
        return None
    (n, h, c), w = inside, right.shape[2]
    return (
        joined((*m.in_shape[:2], w), (n, h, _plain(w))),
        joined(right.shape, (_back(m.in_shape[0], n), _back(m.in_shape[2], c), _plain(w))),
    )


@extern
def product_of_moved_right(m: Reordering, left: Type) -> tuple[Move, Move] | None:
    """a (m b): the movements of the result and of a."""
    inside = separated(m)
    if inside is None:
        return None
    (n, c, w), h = inside, left.shape[1]
    return (
        joined((m.in_shape[0], h, m.in_shape[2]), (n, _plain(h), w)),
        joined(left.shape, (_back(m.in_shape[0], n), _plain(h), _back(m.in_shape[1], c))),
    )


@extern
def transposed(f: Matmul, left: Type, right: Type) -> tuple[Move, Matmul, Move, Move]:
    """a b = (b' a')': the transpose of the result, the product with its zero points exchanged, the transposes of b and of a."""
    (n, h, c), w = left.shape, right.shape[2]
    result, of_b, of_a = (Move.transpose(s, (0, 2, 1)) for s in ((n, w, h), (n, c, w), (n, h, c)))
    return result, f.with_attrs(in_zp=f.attr("w_zp"), w_zp=f.attr("in_zp")), of_b, of_a


@extern
def slice_of_product(s: Slice, left: Type) -> tuple[Slice, Slice]:
    """slice (a b): the slices of a and of b."""
    (n0, h0, w0), (n, h, w), c = s.attr("start"), s.attr("size"), left.shape[2]
    return (
        s.with_attrs(start=(n0, h0, 0), size=(n, h, c)),
        s.with_attrs(start=(n0, 0, w0), size=(n, c, w)),
    )


@extern
def constant_product(f: Matmul, left: Type, k: Constant) -> tuple[Move, Conv2d, LeafValue, LeafValue, Move] | None:
    """x k for one batch = a 1x1 convolution: the view of x, the convolution, its weights and bias, the view of its result."""
    if left.shape[0] != 1 or left.dtype != "INT8":
        return None
    (_, h, c), w = left.shape, k.data.shape[2]
    conv = Call("conv2d", makers.conv("INT8", in_zp=f.attr("in_zp")[0], w_zp=f.attr("w_zp")[0]))
    weights = LeafValue.constant(k.data[0].T.reshape(w, 1, 1, c), k.node.dtype)
    bias = LeafValue.constant(np.zeros(w), "INT32")
    return Move.reshape(left.shape, (1, 1, h, c)), conv, weights, bias, Move.reshape((1, 1, h, w), (1, h, w))


m, f, s = symbols("m", Reordering), symbols("f", Matmul), symbols("s", Slice)
a, b, k = symbols("a", Value), symbols("b", Value), symbols("k", Constant)
rule = partial(rule, family="matmul")

RULES = [
    rule("matmul-transpose", f(a, b), let(transposed(f, a, b), lambda result, g, p, q: result(g(p(b), q(a))))),
    rule("push-matmul", m(f(a, b)), let(moved_product(m, a, b), lambda p, q: f(p(a), q(b)))),
    rule("pull-matmul-left", f(m(a), b), let(product_of_moved_left(m, b), lambda p, q: p(f(a, q(b))))),
    rule("pull-matmul-right", f(a, m(b)), let(product_of_moved_right(m, a), lambda p, q: p(f(q(a), b)))),
    rule("slice-matmul", s(f(a, b)), let(slice_of_product(s, a), lambda p, q: f(p(a), q(b)))),
    rule(
        "matmul-conv",
        f(a, k),
        let(constant_product(f, a, k), lambda before, conv, w, bias, after: after(conv(before(a), w, bias))),
    ),
]
