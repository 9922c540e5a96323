"""MATMUL: data movement and slices across it, its transpose, and constants.

MATMUL multiplies [n, h, c] by [n, c, w]. A movement that keeps the three axes apart, reordering inside each, crosses it: what
happens to n happens to both operands, h belongs to the left one, w to the right one, and c may be reordered in both at once.
"""

from __future__ import annotations

from math import prod

import numpy as np

from eqsat.egraph.attributes import Call, LeafValue
from eqsat.egraph.engine import Extern, Rule
from eqsat.rules.operators import POINTWISE_CONV
from eqsat.rules.weights import value_of
from eqsat.tensor.movement import Axis, Move
from eqsat.tensor.types import Shape, Type, attrs_of

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


def _moved_product(m: Move, call: Call, left: Type, right: Type):
    """Move m (a b): the movements of a and of b."""
    inside = separated(m) if call.op == "matmul" and not m.is_view else None
    if inside is None:
        return None
    (_, _, c), (n, h, w) = left.shape, inside
    return joined(left.shape, (n, h, _plain(c))), joined(right.shape, (n, _plain(c), w))


def _product_of_moved_left(call: Call, m: Move, right: Type):
    """(Move m a) b: the movements of the result and of b."""
    inside = separated(m) if call.op == "matmul" and not m.is_view else None
    if inside is None:
        return None
    (n, h, c), w = inside, right.shape[2]
    return (
        joined((*m.in_shape[:2], w), (n, h, _plain(w))),
        joined(right.shape, (_back(m.in_shape[0], n), _back(m.in_shape[2], c), _plain(w))),
    )


def _product_of_moved_right(call: Call, m: Move, left: Type):
    """a (Move m b): the movements of the result and of a."""
    inside = separated(m) if call.op == "matmul" and not m.is_view else None
    if inside is None:
        return None
    (n, c, w), h = inside, left.shape[1]
    return (
        joined((m.in_shape[0], h, m.in_shape[2]), (n, _plain(h), w)),
        joined(left.shape, (_back(m.in_shape[0], n), _plain(h), _back(m.in_shape[1], c))),
    )


def _transposed(call: Call, left: Type, right: Type):
    """a b = (b' a')': the call with its zero points exchanged, and the transposes of the result, of b and of a."""
    if call.op != "matmul":
        return None
    (n, h, c), w = left.shape, right.shape[2]
    back, of_b, of_a = (Move.transpose(s, (0, 2, 1)) for s in ((n, w, h), (n, c, w), (n, h, c)))
    return call.with_attrs(in_zp=call.attr("w_zp"), w_zp=call.attr("in_zp")), back, of_b, of_a


def _slice_of_product(f: Call, call: Call, left: Type):
    """slice (a b): the slices of a and of b."""
    if f.op != "slice" or call.op != "matmul":
        return None
    (n0, h0, w0), (n, h, w), c = f.attr("start"), f.attr("size"), left.shape[2]
    return (
        Call("slice", attrs_of({"start": (n0, h0, 0), "size": (n, h, c)})),
        Call("slice", attrs_of({"start": (n0, 0, w0), "size": (n, c, w)})),
    )


def _constant_product(call: Call, left: Type, leaf: LeafValue):
    """x k for one batch = a 1x1 convolution: the view of x, the convolution, its weights and bias, the view of its result."""
    k = value_of(leaf)
    if call.op != "matmul" or k is None or left.shape[0] != 1 or left.dtype != "INT8":
        return None
    _, h, c = left.shape
    w = k.shape[2]
    conv = Call("conv2d", attrs_of({**POINTWISE_CONV, "in_zp": call.attr("in_zp"), "w_zp": call.attr("w_zp")}))
    weights, bias = (
        LeafValue.constant(k[0].T.reshape(w, 1, 1, c), leaf.node.dtype),
        LeafValue.constant(np.zeros(w), "INT32"),
    )
    return Move.reshape(left.shape, (1, 1, h, c)), conv, weights, bias, Move.reshape((1, 1, h, w), (1, h, w))


EXTERNS = [
    Extern("moved_product", 4, 2, _moved_product),
    Extern("product_of_moved_left", 3, 2, _product_of_moved_left),
    Extern("product_of_moved_right", 3, 2, _product_of_moved_right),
    Extern("product_transposed", 3, 4, _transposed),
    Extern("slice_of_product", 3, 2, _slice_of_product),
    Extern("constant_product", 3, 5, _constant_product),
]

R = Rule.of("matmul")

_PRODUCT = ("(= t (M2 f a b))", "(= s (type a))")

RULES = [
    R(
        "matmul-transpose",
        "a b = (b' a')', ' the transpose of rows and columns",
        (*_PRODUCT, "(= u (type b))"),
        "(union t (Move p (M2 g (Move q b) (Move r a))))",
        ("g p q r", "product_transposed", "f s u"),
    ),
    R(
        "push-matmul",
        "Move m (a b) = (Move m' a) (Move m'' b), m a reordering inside batches, rows and columns",
        ("(= t (Move m (M2 f a b)))", "(= s (type a))", "(= u (type b))"),
        "(union t (M2 f (Move p a) (Move q b)))",
        ("p q", "moved_product", "m f s u"),
    ),
    R(
        "pull-matmul-left",
        "(Move m a) b = Move m' (a (Move m'' b)), m as before; a reordering of the summed axis goes to b",
        ("(= t (M2 f (Move m a) b))", "(= u (type b))"),
        "(union t (Move p (M2 f a (Move q b))))",
        ("p q", "product_of_moved_left", "f m u"),
    ),
    R(
        "pull-matmul-right",
        "a (Move m b) = Move m' ((Move m'' a) b)",
        ("(= t (M2 f a (Move m b)))", "(= s (type a))"),
        "(union t (Move p (M2 f (Move q a) b)))",
        ("p q", "product_of_moved_right", "f m s"),
    ),
    R(
        "slice-matmul",
        "slice (a b) = (slice a) (slice b)",
        ("(= t (Ax g (M2 f a b)))", "(= s (type a))"),
        "(union t (M2 f (Ax p a) (Ax q b)))",
        ("p q", "slice_of_product", "g f s"),
    ),
    R(
        "matmul-conv",
        "x k = conv2d 1x1 x k', k a constant, one batch",
        ("(= t (M2 f a (Leaf k)))", "(= s (type a))"),
        "(union t (Move q (M3 g (Move p a) (Leaf w) (Leaf b))))",
        ("p g w b q", "constant_product", "f s k"),
    ),
]
