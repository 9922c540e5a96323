"""Operators whose axes have roles: what is done within an axis crosses them exactly, and anything else stays."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from eqsat.egraph.kinds import Call
from eqsat.rules import roles
from eqsat.tensor import makers
from eqsat.tensor.movement import Move
from eqsat.tensor.ops import OPS, evaluate_op, infer
from eqsat.tensor.types import Shape, Type
from tests.rules.cases import of_table
from tests.term import Term


def rows(x: Term) -> Any:
    """For each batch of x, some positions along its second axis, none of them twice."""
    rng = np.random.default_rng(0)
    return x.const(np.stack([rng.permutation(x.shape[1])[:4] for _ in range(x.shape[0])]), "INT32")


TABLE = """
push-roles-2    INT8[4,6,4]                 shuffled(x('gather', rows(x)), 2, inner)
pull-roles-2-0  INT8[4,6,4]                 shuffled(x, 2, outer)('gather', rows(x))
pull-roles-2-1  INT8[4,6,4]                 x('gather', shuffled(rows(x), 2, 1))
push-roles-3    INT8[4,6,4] INT8[4,4,4]     shuffled(x('scatter', rows(x), y), 2, 2)
pull-roles-3-0  INT8[4,6,4] INT8[4,4,4]     shuffled(x, 2, 2)('scatter', rows(x), y)
pull-roles-3-1  INT8[4,6,4] INT8[4,4,4]     x('scatter', shuffled(rows(x), 2, 0), y)
pull-roles-3-2  INT8[4,6,4] INT8[4,4,4]     x('scatter', rows(x), shuffled(y, 2, first))
- {any}         INT8[4,6,4]                 shuffled(x, 2, 1)('gather', rows(x))        # other positions are looked up
- {any}         INT8[4,6,4] INT8[4,4,4]     shuffled(x('scatter', rows(x), y), 2, 1)    # what is written goes elsewhere
pull-roles-2-0  INT8[1,2,3,4] INT8[1,4,5]   shuffled(x).reshape(1, 6, 4).matmul(y, 1, 2)
push-convolution    INT8[1,2,2,4]           shuffled(convolved(x, 1, 1, 1, depthwise=True))
- push-convolution  INT8[1,2,2,2]           shuffled(convolved(x, 2, 1, 1, depthwise=True))  # two of each channel
- push-convolution  INT8[1,2,2,1]           shuffled(convolved(x, 4, 1, 1, depthwise=True))
slice-roles-1   INT8[2,4,4,6]               x.largest(2, 2).part(1, 5, 3)
slice-roles-1   INT8[2,4,4,6]               x.largest(2, 2).part(1)
- slice-roles-1  INT8[2,4,4,6]              x.largest(2, 2).part(1, 2, 1)               # rows
"""
test_fires_and_is_exact, test_spares_near_misses = of_table(
    globals(), TABLE, beside="move-move", any=[r.name for r in roles.RULES], first=[0, 1], inner=[1, 2], outer=[0, 2]
)


#: By operator with roles: attributes, and shapes of the operands.
INSTANCES = {
    "gather": ((), [(4, 6, 6), (4, 4)]),
    "scatter": ((), [(4, 6, 6), (4, 4), (4, 4, 6)]),
    "matmul": (makers.matmul(3, -2), [(2, 4, 6), (2, 6, 8)]),
    "conv2d": (makers.conv("INT8", pad=(1, 0, 0, 1), in_zp=3), [(2, 4, 5, 6), (4, 2, 2, 6), (4,)]),
    "depthwise_conv2d": (makers.conv("INT8", stride=(2, 1), in_zp=3), [(2, 4, 5, 6), (2, 2, 6, 1), (6,)]),
    "transpose_conv2d": (makers.transpose_conv("INT8", stride=(2, 2)), [(2, 4, 4, 6), (4, 2, 2, 6), (1,)]),
    "max_pool2d": (makers.max_pool((2, 2)), [(2, 4, 4, 6)]),
    "avg_pool2d": (makers.avg_pool((2, 2), pad=(1, 1, 0, 0)), [(2, 4, 4, 6)]),
}


def instance(op: str) -> tuple[Call, list[np.ndarray], list[Type]]:
    """A call, its operands, and the types of these and of the result."""
    attrs, shapes = INSTANCES[op]
    rng = np.random.default_rng(0)
    dtypes = ["INT8", "INT8", "INT32"] if OPS[op].kind == "mac" else ["INT8", "INT32", "INT8"]
    types = [Type(shape, dtype) for shape, dtype in zip(shapes, dtypes)]
    xs = [rng.integers(-99, 99, t.shape).astype(np.int32 if t.dtype == "INT32" else np.int8) for t in types]
    if OPS[op].kind == "indexed":  # every position once
        xs[1] = np.stack([rng.permutation(6)[:4] for _ in range(4)]).astype(np.int32)
    return Call(op, attrs), xs, [*types, infer(op, attrs, types)]


@pytest.mark.parametrize("op", [o.name for o in OPS.values() if o.roles])
def test_what_is_done_within_an_axis_crosses_exactly(op: str) -> None:
    call, xs, types = instance(op)
    result = evaluate_op(op, call.attrs, xs, types[-1])
    crossed = refused = cuts = 0
    for place, t in enumerate(types):
        for m in shuffles(t.shape):
            found = roles.movements(call, m, place if place < len(xs) else -1, types)
            refused += found is None
            if found is not None:
                moved = [part.apply(x) for part, x in zip(found, xs)]
                np.testing.assert_array_equal(evaluate_op(op, call.attrs, moved, types[-1]), found[-1].apply(result))
                crossed += not m.is_view
    for s in slices(types[-1].shape):
        if slices_of := roles.slice_operands.fn(s, call, types[-1], *types[:-1]):
            parts = [part(of, x) for of, x in zip(slices_of, xs)]
            t = infer(op, call.attrs, [Type(x.shape, t.dtype) for x, t in zip(parts, types)])
            np.testing.assert_array_equal(evaluate_op(op, call.attrs, parts, t), part(s, result))
            cuts += 1
    assert crossed >= 2 and refused >= 8 and cuts >= 2


def slices(shape: Shape) -> Iterator[Call]:
    """Slices of one and of two axes."""
    for d, e in permutations(range(len(shape)), 2):
        for cut_axes in ((d,), (d, e)):
            start = [n // 2 if k in cut_axes else 0 for k, n in enumerate(shape)]
            yield roles.slice_call(start, [n - s for n, s in zip(shape, start)])


def part(s: Call, x: np.ndarray) -> np.ndarray:
    return evaluate_op("slice", s.attrs, [x], Type(s.attr("size"), "INT32")).astype(x.dtype)


def shuffles(shape: Shape) -> Iterator[Move]:
    """Shuffles of each axis by itself and of two at once, and transposes."""
    one = {
        d: Move.product([shuffled_axis(n) if e == d else Move.reshape((n,), (n,)) for e, n in enumerate(shape)])
        for d in range(len(shape))
    }
    yield from one.values()
    for d, e in permutations(range(len(shape)), 2):
        both = one[d].then(one[e])
        assert both is not None
        yield both
    yield from (Move.transpose(shape, perm) for perm in permutations(range(len(shape))))


def shuffled_axis(n: int) -> Move:
    """n elements in the order 0, n/2, 1, n/2 + 1, ... if n is even."""
    return Move.reorder([(n // 2, 1), (2, n // 2)] if n % 2 == 0 else [(n, 1)])


def test_a_movement_is_the_product_of_those_within_its_axes() -> None:
    for m in shuffles((4, 6, 8)):
        parts = m.within(m.in_shape)
        assert (parts is None) == (m.in_shape != m.out_shape)
        assert parts is None or Move.product(parts) == m


def test_a_slice_of_a_tensor_without_axes_crosses() -> None:
    """Its part of each operand had no arguments, and saturation ended."""
    s, scalar = roles.slice_call((), ()), Type((), "INT32")
    assert roles.slice_operands.fn(s, Call("add", ()), scalar, scalar, scalar) == (s, s)
