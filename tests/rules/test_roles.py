"""Operators whose axes have roles: what is done within an axis crosses them exactly, and anything else stays."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import numpy as np
import pytest

from eqsat.egraph.attributes import Call
from eqsat.rules import roles
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.movement import Move
from eqsat.tensor.ops import OPS, evaluate_op, infer
from eqsat.tensor.types import Shape, Type
from tests.graphs import finish
from tests.rules.checks import conv, cut, fires

N, K, W, C = 4, 6, 4, 4


def shuffled(g: TensorGraph, x: int, axis: int) -> int:
    """x with one of its axes, of even size, shuffled: 0, n/2, 1, n/2 + 1, ..."""
    shape = g.nodes[x].shape
    split = (*shape[:axis], 2, shape[axis] // 2, *shape[axis + 1 :])
    perm = [*range(axis), axis + 1, axis, *range(axis + 2, len(split))]
    y = g.add("transpose", (g.add("reshape", (x,), shape=split),), perms=tuple(perm))
    return g.add("reshape", (y,), shape=shape)


#: Which operand of which operator is shuffled along which axis, -1 for the result; the rule that fires, if one does.
SHUFFLES = [
    ("gather", -1, 1, "push-roles-2"),
    ("gather", -1, 2, "push-roles-2"),
    ("gather", 0, 0, "pull-roles-2-0"),
    ("gather", 0, 2, "pull-roles-2-0"),
    ("gather", 1, 1, "pull-roles-2-1"),
    ("scatter", -1, 2, "push-roles-3"),
    ("scatter", 0, 2, "pull-roles-3-0"),
    ("scatter", 1, 0, "pull-roles-3-1"),
    ("scatter", 2, 0, "pull-roles-3-2"),
    ("scatter", 2, 1, "pull-roles-3-2"),
    ("gather", 0, 1, None),  # the positions that are looked up would be others
    ("scatter", -1, 1, None),  # what is written would go elsewhere
]


@pytest.mark.parametrize(("op", "operand", "axis", "rule"), SHUFFLES)
def test_shuffles_cross_gather_and_scatter(op: str, operand: int, axis: int, rule: str | None) -> None:
    g = TensorGraph()
    rng = np.random.default_rng(axis)
    rows = np.stack([rng.permutation(K)[:W] for _ in range(N)])  # every position once
    xs = [g.add_input("x", (N, K, C), "INT8"), g.add_const(rows, "INT32")]
    xs += [g.add_input("z", (N, W, C), "INT8")] * (op == "scatter")
    if operand >= 0:
        xs[operand] = shuffled(g, xs[operand], axis)
    y = g.add(op, xs)
    finish(g, shuffled(g, y, axis) if operand < 0 else y)
    if rule:
        assert fires(g, rule, "move-move")
    else:
        assert not any(fires(g, r.name, "move-move") for r in roles.RULES)


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
        if slices_of := roles.sliced.fn(s, call, types[-1], *types[:-1]):
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
    return Move.ordered([(n // 2, 1), (2, n // 2)] if n % 2 == 0 else [(n, 1)])


def test_a_movement_is_the_product_of_those_within_its_axes() -> None:
    for m in shuffles((4, 6, 8)):
        parts = m.within(m.in_shape)
        assert (parts is None) == (m.in_shape != m.out_shape)
        assert parts is None or Move.product(parts) == m


def test_a_movement_with_views_around_it_crosses_too() -> None:
    """A flatten of pixels between a shuffle and a product."""
    g = TensorGraph()
    x = shuffled(g, g.add_input("x", (1, 2, 3, 4), "INT8"), 3)
    y = g.add(
        "matmul", (g.add("reshape", (x,), shape=(1, 6, 4)), g.add_input("y", (1, 4, 5), "INT8")), in_zp=(1,), w_zp=(2,)
    )
    finish(g, y)
    assert fires(g, "pull-roles-2-0", "move-move")


@pytest.mark.parametrize(("channels", "multiplier", "crosses"), [(4, 1, True), (2, 2, False), (1, 4, False)])
def test_channels_of_a_depthwise_convolution_cross_if_each_has_one_of_its_own(channels, multiplier, crosses) -> None:
    g = TensorGraph()
    y = conv(g, g.add_input("x", (1, 2, 2, channels), "INT8"), multiplier, (1, 1), 0, depthwise=True)
    finish(g, shuffled(g, y, 3))
    assert fires(g, "push-convolution", "move-move") == crosses


@pytest.mark.parametrize(("start", "crosses"), [((0, 0, 0, 1), True), ((1, 0, 0, 0), True), ((0, 1, 0, 0), False)])
def test_images_and_channels_of_a_pool_are_cut_before_it_and_rows_are_not(start, crosses) -> None:
    g = TensorGraph()
    pool = g.add_with("max_pool2d", (g.add_input("x", (2, 4, 4, 6), "INT8"),), makers.max_pool((2, 2)))
    finish(g, cut(g, pool, start, [n - s for n, s in zip((2, 3, 3, 6), start)]))
    assert fires(g, "slice-roles-1") == crosses
