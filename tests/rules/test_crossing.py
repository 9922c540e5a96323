"""Movement across operators that act along axes: what is claimed equal is equal, on small shapes with unit axes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product
from math import prod

import numpy as np
import pytest

from eqsat.egraph.kinds import Call
from eqsat.rules.across import MAX_RANK, adjust, carry, pull, push, units_pulled, units_pushed
from eqsat.tensor import makers
from eqsat.tensor.movement import Move
from eqsat.tensor.ops import evaluate_op, infer
from eqsat.tensor.ops.indexing import BILINEAR, NEAREST
from eqsat.tensor.types import Attrs, Shape, Type, attrs_of

pull, push, pull_units, push_units = pull.fn, push.fn, units_pulled.fn, units_pushed.fn
#: Shapes with axes of size 1 in every place.
SHAPES = [s for rank in (1, 2, 3) for s in product((1, 2, 3), repeat=rank)]
SHAPES += [(1, 2, 1, 3), (2, 1, 1, 2), (1, 4, 1, 1), (4, 6)]
AXIAL = ("tile", "pad", "slice", "reverse", "reduce_sum", "rescale", "argmax")


def views(n: int) -> list[Shape]:
    """Shapes of up to three axes for n elements, with units."""
    divisors = [d for d in range(1, n + 1) if n % d == 0]
    return sorted({s for rank in (1, 2, 3) for s in product(divisors, repeat=rank) if prod(s) == n})


def movements(shape: Shape) -> Iterator[Move]:
    """Every transpose of `shape`, before and after a view of some kinds."""
    for perm in permutations(range(len(shape))):
        m = Move.transpose(shape, perm)
        yield m
        for view in views(prod(shape))[::3]:
            joined = m.then(Move.reshape(m.out_shape, view))
            assert joined is not None
            yield joined


def instances(op: str, shape: Shape) -> Iterator[Call]:
    """Calls of `op` on `shape`: along each axis, and along the first and last at once where it can."""
    rank = len(shape)
    sets = [{d} for d in range(rank)] + ([{0, rank - 1}] if rank > 1 else [])
    for axes in sets:
        if (attrs := attributes(op, shape, axes)) is not None:
            yield Call(op, attrs)


def attributes(op: str, shape: Shape, axes: set[int]) -> Attrs | None:
    rank = len(shape)
    if op == "tile":
        return attrs_of({"multiples": tuple(2 + d if d in axes else 1 for d in range(rank))})
    if op == "pad":
        pads = [n for d in range(rank) for n in ((d, 2) if d in axes else (0, 0))]
        return attrs_of({"pads": tuple(pads), "value": (7,)})
    if op == "slice":
        start = tuple(n - 1 if d in axes else 0 for d, n in enumerate(shape))
        return attrs_of({"start": start, "size": tuple(1 if d in axes else n for d, n in enumerate(shape))})
    if len(axes) == 1 and op != "rescale":
        return attrs_of({"axis": min(axes)})
    return makers.rescale("INT32", range(1, shape[-1] + 1), (2,) * shape[-1]) if axes == {rank - 1} else None


def data(shape: Shape) -> np.ndarray:
    return (np.arange(prod(shape), dtype=np.int32) * 5 + 1).reshape(shape)


def result_of(call: Call, operand: Type) -> Type:
    return infer(call.op, call.attrs, [operand])


def run(call: Call, x: np.ndarray) -> np.ndarray:
    t = infer(call.op, call.attrs, [Type(x.shape, "INT32")])
    out = evaluate_op(call.op, call.attrs, [x], t)
    assert out.shape == t.shape
    return out


def same(a: np.ndarray, b: np.ndarray) -> None:
    assert a.shape == b.shape
    np.testing.assert_array_equal(a, b)


def viewed(call: Call, m: Move, after: Move) -> Move:
    """What moves x where call (m x) = after (call' (...)): m, and then the inverse of `after`, adjusted to m x."""
    back = adjust.fn(after.inverse(), call, Type(m.out_shape, "INT32"))
    both = back and m.then(back)
    assert both is not None
    return both


@pytest.mark.parametrize("op", AXIAL)
def test_pull_is_exact(op: str) -> None:
    found = {"pull": 0, "units": 0}
    for shape in SHAPES:
        for m in movements(shape):
            x, operand = data(shape), Type(m.out_shape, "INT32")
            for call in instances(op, m.out_shape):
                want = run(call, m.apply(x))
                result = result_of(call, operand)
                if one := pull(call, m, operand, result):
                    after, moved = one
                    same(after.apply(run(moved, x)), want)
                    found["pull"] += 1
                for after, moved in pull_units(call, m, operand, result):
                    view = viewed(call, m, after)
                    assert view.is_view and len(view.out_shape) <= MAX_RANK
                    same(after.apply(run(moved, view.apply(x))), want)
                    found["units"] += 1
    # A slice leaves unit axes alone, and what an argmax drops has no place in the movement of its result.
    assert found["pull"] > 100 and (found["units"] > 100) == (op not in ("slice", "argmax"))


@pytest.mark.slow
@pytest.mark.parametrize("op", AXIAL)
def test_push_is_exact(op: str) -> None:
    found = {"push": 0, "units": 0}
    for shape in SHAPES:
        x, operand = data(shape), Type(shape, "INT32")
        for call in instances(op, shape):
            y = run(call, x)
            for m in movements(y.shape):
                want = m.apply(y)
                if one := push(m, call, operand):
                    moved, before = one
                    same(run(moved, before.apply(x)), want)
                    found["push"] += 1
                if opened := push_units(m, call, operand):
                    view, moved, whole = opened
                    before = adjust.fn(whole, call, operand)
                    assert view.is_view and before
                    same(view.apply(run(moved, before.apply(x))), want)
                    found["units"] += 1
    assert (found["push"] > 100) == (op != "argmax") and (found["units"] > 100 or op not in ("tile", "pad"))


def test_every_unit_axis_of_a_tile_can_be_pulled_and_pushed() -> None:
    """A TILE along unit axes passes any transpose, whatever the shape."""
    for shape in SHAPES:
        for d, perm in product(range(len(shape)), permutations(range(len(shape)))):
            call = Call("tile", attrs_of({"multiples": tuple(3 if k == d else 1 for k in range(len(shape)))}))
            m, x = Move.transpose(shape, perm), Type(shape, "INT8")
            y = Type(m.out_shape, "INT8")
            assert m.out_shape[d] != 1 or pull_units(call, m, y, result_of(call, y))
            assert shape[d] != 1 or push_units(Move.transpose(result_of(call, x).shape, perm), call, x)


@pytest.mark.slow
def test_stacks_are_pulled_and_pushed_exactly() -> None:
    """concat along an axis, its operands 1 or more long there."""
    backward = forward = alone = 0
    for shape in SHAPES:
        for axis in range(len(shape)):
            concat = Call("concat", attrs_of({"axis": axis}))
            for lengths in ((1, 1), (1, 2), (2, 1, 3)):
                shapes = [(*shape[:axis], n, *shape[axis + 1 :]) for n in lengths]
                xs = [data(s) + 100 * k for k, s in enumerate(shapes)]
                whole = np.concatenate(xs, axis)
                first, total = Type(shapes[0], "INT32"), Type(whole.shape, "INT32")

                def joined(to: Call, m: Move) -> np.ndarray:
                    """The CONCAT `to` of the operands, each moved by `m` as it is adjusted to it."""
                    parts = [adjust.fn(m, concat, Type(x.shape, "INT32")) for x in xs]  # noqa: B023
                    assert all(parts)
                    return np.concatenate([p.apply(x) for p, x in zip(parts, xs) if p], to.attr("axis"))  # noqa: B023

                for m in movements(whole.shape):
                    if opened := push_units(m, concat, first):
                        view, to, moved = opened
                        assert view.is_view
                        same(view.apply(joined(to, moved)), m.apply(whole))
                        forward += 1
                    if pair := push(m, concat, total):
                        same(joined(*pair), m.apply(whole))
                        alone += 1
                for m in movements(shapes[0]):  # the first operand is m.inverse() of something
                    one = pull(concat, m.inverse(), first, total)
                    for after, to in [*pull_units(concat, m.inverse(), first, total), *([one] if one else [])]:
                        same(after.apply(joined(to, after.inverse())), whole)
                        backward += 1
    assert backward > 1000 and forward > 1000 and alone > 1000


def test_repeated_pixels_of_channels_first_become_repeated_pixels_of_channels_last() -> None:
    """repeat_interleave between NHWC convolutions: the TILE itself runs channels last."""
    m = Move.transpose((1, 16, 20, 8), (0, 3, 1, 2)).then(Move.reshape((1, 8, 16, 20), (1, 8, 16, 1, 20, 1)))
    assert m is not None
    call = Call("tile", attrs_of({"multiples": (1, 1, 1, 2, 1, 2)}))
    y = Type(m.out_shape, "INT8")
    found = {viewed(call, m, f[0]).out_shape: f for f in pull_units(call, m, y, result_of(call, y))}
    after, moved = found[1, 16, 1, 20, 1, 8]
    assert moved.attr("multiples") == (1, 1, 2, 1, 2, 1)
    to_last = Move.reshape(after.out_shape, (1, 8, 32, 40)).then(Move.transpose((1, 8, 32, 40), (0, 2, 3, 1)))
    assert to_last is not None
    total = after.then(to_last)
    assert total is not None and total.is_view


def test_what_is_split_or_does_not_fit_stays() -> None:
    t = Type((1, 4), "INT8")
    tile = Call("tile", attrs_of({"multiples": (6, 1)}))
    assert push_units(Move.reshape((6, 4), (2, 3, 4)), tile, t) is None  # the new axis is split
    other = tile.with_attrs(multiples=(1, 2))
    assert pull_units(other, Move.transpose((4, 1), (1, 0)), t, result_of(other, t)) == []  # no unit axis
    assert carry(tile, t, (6, 4), Move.reshape((4,), (4,))) is None  # of another operand


RESIZE = [
    {"scale": (2, 1, 2, 1), "offset": (0, 0), "border": (1, 1), "mode": NEAREST},
    {"scale": (4, 2, 6, 2), "offset": (-1, 0), "border": (1, 0), "mode": BILINEAR},
]


def within(shape: Shape) -> Iterator[Move]:
    """Every transpose of an NHWC shape, and a shuffle of its channels."""
    yield from (Move.transpose(shape, perm) for perm in permutations(range(4)))
    if shape[3] % 2 == 0:
        split = Move.reshape(shape, (*shape[:3], 2, shape[3] // 2))
        turned = split.then(Move.transpose(split.out_shape, (0, 1, 2, 4, 3)))
        shuffled = turned and turned.then(Move.reshape(turned.out_shape, shape))
        assert shuffled is not None and not shuffled.is_view or shape[3] == 2
        yield shuffled or split


@pytest.mark.parametrize("call", [Call("resize", attrs_of(a)) for a in RESIZE])
def test_a_resize_lets_batches_and_channels_pass(call: Call) -> None:
    """H and W stay where they are; N and C may exchange elements, C be shuffled."""
    backward, forward = 0, 0
    for shape in ((4, 2, 3, 6), (1, 3, 2, 4), (2, 2, 2, 1), (1, 1, 3, 4)):
        x, y = data(shape), run(call, data(shape))
        for m in within(shape):
            operand = Type(m.out_shape, "INT32")
            if found := pull(call, m, operand, result_of(call, operand)):
                same(found[0].apply(run(found[1], x)), run(call, m.apply(x)))
                backward += not m.is_view
        for m in within(y.shape):
            if other := push(m, call, Type(shape, "INT32")):
                same(run(other[0], other[1].apply(x)), m.apply(y))
                forward += not m.is_view
    assert backward >= 4 and forward >= 4
