"""Rules for MATMUL: they transpose a product, turn a product with a constant into a convolution, and compute a product
row by row.

MATMUL multiplies [n, h, c] by [n, c, w].
Movements and slices within these axes cross it (`eqsat/rules/roles.py`).
`eqsat/vela/rows.py` computes a MATMUL and its RESCALE row by row.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from eqsat.egraph.kinds import Call, Constant, Conv2d, LeafValue, Matmul, MatmulRows, Rescale, Value
from eqsat.egraph.rule import rule
from eqsat.egraph.terms import extern, let, symbols
from eqsat.tensor import makers
from eqsat.tensor.movement import Move
from eqsat.tensor.types import Type, attrs_of
from eqsat.vela.rows import fitting_zero_point

#: `_MOST_ROWS`: maximum number of rows that are computed one by one.
#: `_MOST_WAITING`: maximum bytes of products and sums that are kept at once; more may not fit into SRAM.
_MOST_ROWS, _MOST_WAITING = 256, 96 << 10
#: Maximum bytes of products that are summed at once, unless the products of one row take more.
_TOGETHER = 1 << 14


@extern
def transpose_product(matmul: Matmul, left: Type, right: Type) -> tuple[Move, Matmul, Move, Move]:
    """Returns the parts of a b = (b' a')', where ' is the transpose of the last two axes.

    The parts are the transpose of the result, the product with exchanged zero points, and the transposes of b and a.
    """
    (n, h, c), w = left.shape, right.shape[2]
    back, of_b, of_a = (Move.transpose(s, (0, 2, 1)) for s in ((n, w, h), (n, c, w), (n, h, c)))
    return back, matmul.with_attrs(in_zp=matmul.attr("w_zp"), w_zp=matmul.attr("in_zp")), of_b, of_a


@extern
def as_convolution(
    matmul: Matmul, left: Type, right: Constant
) -> tuple[Move, Conv2d, LeafValue, LeafValue, Move] | None:
    """Returns the product of x and a constant k as a 1x1 convolution between views.

    Returns None unless there is one batch, and x is INT8.
    """
    if left.shape[0] != 1 or left.dtype != "INT8":
        return None
    _, h, c = left.shape
    w = right.data.shape[2]
    conv = Call("conv2d", makers.conv("INT8", in_zp=matmul.attr("in_zp")[0], w_zp=matmul.attr("w_zp")[0]))
    weights = LeafValue.constant(right.data[0].T.reshape(w, 1, 1, c), right.node.dtype)
    bias = LeafValue.constant(np.zeros(w), "INT32")
    read, write = Move.reshape(left.shape, (1, 1, h, c)), Move.reshape((1, 1, h, w), (1, h, w))
    return write, conv, weights, bias, read


@extern
def by_rows(rescale: Rescale, matmul: Matmul, left: Type, right: Type) -> list[tuple[Move, MatmulRows, Move]]:
    """Returns m', rows and m'' such that rescale (a b) = m' (rows a (m'' b)), where rows computes the product row by
    row.

    One result sums the products of one row at once; another result sums those of several rows.
    """
    (n, h, c), w = left.shape, right.shape[2]
    narrow = left.dtype == right.dtype == rescale.attr("dtype") == "INT8"
    products = 2 * n * w * -(-c // 16) * 16
    (p,), (q,) = matmul.attr("in_zp"), matmul.attr("w_zp")
    waiting = products + (0 if fitting_zero_point(p, q) == p else 4 * n * h * w)
    if not narrow or h > _MOST_ROWS or waiting > _MOST_WAITING:
        return []
    if rescale.attr("input_unsigned") or rescale.attr("output_unsigned"):
        return []
    attrs = {**dict(rescale.attrs), "in_zp": matmul.attr("in_zp"), "w_zp": matmul.attr("w_zp")}
    back, of_b = Move.transpose((h, n, w), (1, 0, 2)), Move.transpose(right.shape, (0, 2, 1))
    steps = sorted({1, min(h, max(1, _TOGETHER // products))})
    return [(back, Call("matmul_rows", attrs_of({**attrs, "step": step})), of_b) for step in steps]


matmul = symbols("matmul", Matmul)
rescale = symbols("rescale", Rescale)
a, b = symbols("a b", Value)
k = symbols("k", Constant)
rule = partial(rule, family="matmul")

#: The rule for families on which the products of a MATMUL otherwise wait outside of SRAM.
ROWS = rule(
    "matmul-rows",
    rescale(matmul(a, b)),
    let(by_rows(rescale, matmul, a, b), lambda n, rows, p: n(rows(a, p(b)))),
)
RULES = [
    rule(
        "matmul-transpose", matmul(a, b), let(transpose_product(matmul, a, b), lambda n, mul, p, q: n(mul(p(b), q(a))))
    ),
    rule(
        "matmul-conv",
        matmul(a, k),
        let(
            as_convolution(matmul, a, k),
            lambda write, conv, weights, bias, read: write(conv(read(a), weights, bias)),
        ),
    ),
    ROWS,
]
