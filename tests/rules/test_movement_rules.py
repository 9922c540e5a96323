"""Data movement by itself and across other operators: each rule fires on what it is for, is exact, and leaves its near
misses alone."""

from math import prod

import numpy as np
from hypothesis import strategies as st

from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from tests.rules.cases import Cases
from tests.rules.checks import check, clamp, cut, only, pad, rescale, slices, table

CASES = Cases()


#: At least two axes, at least two of them wider than one: there is something to move.
blocks = (
    st.lists(st.sampled_from([1, 2, 3, 4]), min_size=2, max_size=4)
    .map(tuple)
    .filter(lambda s: sum(n > 1 for n in s) > 1)
)


def given_input(draw, shape=None, dtype: str = "INT8") -> tuple[TensorGraph, int]:
    g = TensorGraph()
    return g, g.add_input("x", shape or draw(blocks), dtype)


def turned(draw, g: TensorGraph, x: int) -> int:
    """A transpose of x that moves elements."""
    shape = g.nodes[x].shape
    wide = [d for d, n in enumerate(shape) if n > 1]
    order = draw(st.permutations(wide).filter(lambda p: list(p) != wide))
    perm = list(range(len(shape)))
    for d, p in zip(wide, order, strict=True):
        perm[d] = p
    return g.add("transpose", (x,), perms=tuple(perm))


def flat(g: TensorGraph, x: int) -> int:
    return g.add("reshape", (x,), shape=(prod(g.nodes[x].shape),))


def with_inputs(draw, g: TensorGraph, x: int, n: int) -> list[int]:
    """x and n inputs that broadcast to its shape, in any order."""
    shape = g.nodes[x].shape
    others = [g.add_input(f"y{i}", tuple(draw(st.sampled_from([1, d])) for d in shape), "INT8") for i in range(n)]
    return draw(st.permutations([x, *others]))


# ---- movement alone -----------------------------------------------------------------------------


@CASES.fires_on("move-move")
def _(draw):
    g, x = given_input(draw)
    return g, turned(draw, g, turned(draw, g, x))


@CASES.fires_on("move-identity")
def _(draw):
    g, x = given_input(draw)
    same = g.nodes[x].shape
    perms = tuple(range(len(same)))
    return g, clamp(
        g, g.add("reshape", (x,), shape=same) if draw(st.booleans()) else g.add("transpose", (x,), perms=perms), -9, 9
    )


@CASES.spares("move-identity")
def _(draw):
    g, x = given_input(draw)
    return g, turned(draw, g, x) if draw(st.booleans()) else flat(g, x)


@CASES.fires_on("move-const")
def _(draw):
    g, x = given_input(draw)
    shape = g.nodes[x].shape
    moved = turned(draw, g, g.add_const(np.arange(prod(shape)).reshape(shape), "INT8"))
    return g, g.add("maximum", (moved, g.add("reshape", (x,), shape=g.nodes[moved].shape)), nan_mode=1)


# ---- pointwise ----------------------------------------------------------------------------------

UNARY = [
    lambda g, x: clamp(g, x, -9, 50),
    lambda g, x: table(g, x, 1),
    lambda g, x: rescale(g, x, "INT32", in_zp=3),
    lambda g, x: g.add("cast", (x,), dtype="INT16"),
    lambda g, x: g.add("abs", (x,)),
]


@CASES.fires_on("push-unary")
def _(draw):
    g, x = given_input(draw)
    return g, turned(draw, g, draw(st.sampled_from(UNARY))(g, x))


@CASES.fires_on("pull-unary")
def _(draw):
    g, x = given_input(draw)
    return g, draw(st.sampled_from(UNARY))(g, turned(draw, g, x))


def binary(draw, g: TensorGraph, x: int, y: int) -> int:
    op = draw(st.sampled_from(["maximum", "minimum", "greater"]))
    return g.add_with(op, (x, y), () if op == "greater" else makers.extremum())


@CASES.fires_on("push-binary")
def _(draw):
    g, x = given_input(draw)
    return g, turned(draw, g, binary(draw, g, *with_inputs(draw, g, x, 1)))


@CASES.spares("push-binary")
def _(draw):  # the view merges a broadcast axis of y with a real one
    g, x = given_input(draw, (3, 4))
    y = g.add_input("y", draw(st.sampled_from([(1, 4), (3, 1)])), "INT8")
    return g, flat(g, g.add("maximum", draw(st.permutations([x, y])), nan_mode=1))


@CASES.fires_on("pull-binary-left")
def _(draw):
    g, x = given_input(draw)
    moved = turned(draw, g, x)
    y = g.add_input("y", tuple(draw(st.sampled_from([1, d])) for d in g.nodes[moved].shape), "INT8")
    return g, binary(draw, g, moved, y)


@CASES.fires_on("pull-binary-right")
def _(draw):
    g, x = given_input(draw)
    moved = turned(draw, g, x)
    y = g.add_input("y", tuple(draw(st.sampled_from([1, d])) for d in g.nodes[moved].shape), "INT8")
    return g, binary(draw, g, y, moved)


@CASES.spares("pull-binary-left")
def _(draw):  # the moved operand broadcasts: its movement is not the result's
    g, x = given_input(draw, (3, 2, 1))
    moved = g.add("transpose", (x,), perms=(1, 0, 2))
    return g, g.add("maximum", (moved, g.add_input("y", (2, 3, 4), "INT8")), nan_mode=1)


def selecting(draw, moved_at: int | None) -> tuple[TensorGraph, int]:
    g, x = given_input(draw)
    shape = g.nodes[x].shape if moved_at is None else g.nodes[(moved := turned(draw, g, x))].shape
    ops = [g.add_input(f"y{i}", shape, "INT8") for i in range(3)]
    if moved_at is not None:
        ops[moved_at] = moved
    if moved_at == 0:  # the condition is a comparison, so the movement must be of a BOOL
        b = g.add("greater", (x, x))
        perm = g.nodes[moved].attr("perms")
        condition = g.add("transpose", (b,), perms=perm)
    else:
        condition = g.add("greater", (ops[0], g.add_input("z", shape, "INT8")))
    out = g.add("select", (condition, ops[1], ops[2]))
    return g, turned(draw, g, out) if moved_at is None else out


CASES.fires_on("push-select")(lambda draw: selecting(draw, None))
for slot in range(3):
    CASES.fires_on(f"pull-select-{slot}")(lambda draw, k=slot: selecting(draw, k))


# ---- ops along axes -----------------------------------------------------------------------------


def axial(draw, g: TensorGraph, x: int) -> int:
    shape = g.nodes[x].shape
    axis = draw(st.sampled_from([d for d, n in enumerate(shape) if n > 1]))
    kind = draw(st.sampled_from(["slice", "pad", "tile", "reverse", "reduce_max", "reduce_min", "reduce_sum"]))
    if kind == "slice":
        start, size = draw(slices(shape))
        keep = [n if shape[d] == 1 or size[d] == 1 else size[d] for d, n in enumerate(shape)]  # no axis vanishes
        return cut(g, x, [0 if k == n else s for s, k, n in zip(start, keep, shape, strict=True)], keep)
    if kind == "pad":
        return pad(
            g,
            x,
            [draw(st.integers(0, 2)) if shape[i // 2] > 1 else 0 for i in range(2 * len(shape))],
            draw(st.integers(-128, 127)),
        )
    if kind == "tile":
        return g.add("tile", (x,), multiples=tuple(2 if d == axis else 1 for d in range(len(shape))))
    return (
        g.add_with(kind, (x,), makers.extremum(axis)) if kind.startswith("reduce_m") else g.add(kind, (x,), axis=axis)
    )


@CASES.fires_on("push-unary")
def _(draw):
    g, x = given_input(draw, draw(st.permutations([2, 3, 4]).map(tuple)), "INT32")
    return g, turned(draw, g, axial(draw, g, x))


@CASES.fires_on("pull-unary")
def _(draw):
    g, x = given_input(draw, draw(st.permutations([2, 3, 4]).map(tuple)), "INT32")
    return g, axial(draw, g, turned(draw, g, x))


@CASES.fires_on("push-unary")
def _(draw):  # a slice of the outer factor of a merged dim
    g, x = given_input(draw, (4, 3, 2))
    return g, g.add("reshape", (cut(g, x, (1, 0, 0), (2, 3, 2)),), shape=(6, 2))


@CASES.spares("push-unary")
def _(draw):  # a slice of the inner factor of a merged dim is none of that dim
    g, x = given_input(draw, (4, 3, 2))
    return g, g.add("reshape", (cut(g, x, (0, 1, 0), (4, 2, 2)),), shape=(8, 2))


@CASES.spares("pull-unary")
def _(draw):  # a slice that ends within a split dim
    g, x = given_input(draw, (3, 4))
    return g, cut(g, g.add("reshape", (x,), shape=(12,)), (2,), (draw(st.sampled_from([3, 5])),))


def unit_axis(draw, g: TensorGraph, x: int) -> int:
    """x tiled or padded along one of its axes of size 1."""
    shape = g.nodes[x].shape
    d = draw(st.sampled_from([d for d, n in enumerate(shape) if n == 1]))
    if draw(st.booleans()):
        return g.add("tile", (x,), multiples=tuple(draw(st.integers(2, 3)) if k == d else 1 for k in range(len(shape))))
    return pad(g, x, [n for k in range(len(shape)) for n in ((1, 2) if k == d else (0, 0))], 3)


@CASES.fires_on("pull-units")
def _(draw):
    g, x = given_input(draw, draw(st.permutations([1, 2, 3]).map(tuple)))
    return g, unit_axis(draw, g, turned(draw, g, x))


@CASES.fires_on("push-units")
def _(draw):  # also where the new axis is merged into others
    g, x = given_input(draw, draw(st.permutations([1, 2, 3]).map(tuple)))
    y = turned(draw, g, unit_axis(draw, g, x))
    return g, flat(g, y) if draw(st.booleans()) else y


@CASES.spares("pull-units")
def _(draw):  # along an axis that has a place in the order
    g, x = given_input(draw, (2, 1, 3))
    return g, g.add("tile", (turned(draw, g, x),), multiples=(2, 1, 1))


@CASES.spares("push-units")
def _(draw):  # the new axis is split
    g, x = given_input(draw, (1, 3))
    return g, g.add("reshape", (g.add("tile", (x,), multiples=(4, 1)),), shape=(2, 2, 3))


def per_channel(draw, perm: tuple[int, ...], before: bool) -> tuple[TensorGraph, int]:
    g, x = given_input(draw, (2, 3, 3))
    scale = {
        "dtype": "INT8",
        "multiplier": [1 << 30, 1500000000, 1100000000],
        "shift": [30, 31, 32],
        "in_zp": 2,
        "out_zp": -5,
    }
    if before:
        return g, rescale(g, g.add("transpose", (x,), perms=perm), **scale)
    return g, g.add("transpose", (rescale(g, x, **scale),), perms=perm)


for first in (True, False):
    CASES.fires_on("pull-unary" if first else "push-unary")(lambda draw, b=first: per_channel(draw, (1, 0, 2), b))
    CASES.spares("pull-unary" if first else "push-unary")(lambda draw, b=first: per_channel(draw, (0, 2, 1), b))


# ---- concat -------------------------------------------------------------------------------------


def parts(draw, g: TensorGraph, x: int, axis: int, n: int) -> list[int]:
    """n inputs shaped like x, of any size along the axis."""
    shape = g.nodes[x].shape
    return [
        g.add_input(f"y{i}", (*shape[:axis], draw(st.integers(1, 3)), *shape[axis + 1 :]), "INT8") for i in range(n)
    ]


@CASES.fires_on("push-concat")
def _(draw):
    g, x = given_input(draw)
    axis = draw(st.integers(0, len(g.nodes[x].shape) - 1))
    return g, turned(draw, g, g.add("concat", (x, *parts(draw, g, x, axis, 2)), axis=axis))


@CASES.fires_on("pull-concat")
def _(draw):
    g, x = given_input(draw)
    moved = turned(draw, g, x)
    axis = draw(st.sampled_from([d for d, n in enumerate(g.nodes[moved].shape) if n > 1]))
    return g, g.add("concat", draw(st.permutations([moved, *parts(draw, g, moved, axis, 2)])), axis=axis)


@CASES.spares("push-concat")
def _(draw):  # the axis ends up inside a merged dim
    g, x = given_input(draw, (2, 3))
    return g, flat(g, g.add("concat", (x, *parts(draw, g, x, 1, 1)), axis=1))


@CASES.spares("pull-concat")
def _(draw):  # along an axis that the view has made of two
    g, x = given_input(draw, (4, 3, 2))
    moved = g.add("reshape", (g.add("transpose", (x,), perms=(1, 0, 2)),), shape=(12, 2))
    return g, g.add("concat", (moved, *parts(draw, g, moved, 0, 1)), axis=0)


def stack(draw, g: TensorGraph, x: int, axis: int) -> int:
    """x, 1 long along the axis, beside two more such."""
    others = [g.add_input(f"y{i}", g.nodes[x].shape, "INT8") for i in range(2)]
    return g.add("concat", draw(st.permutations([x, *others])), axis=axis)


@CASES.fires_on("push-concat-units")
def _(draw):  # stacked, then merged: interleaved
    g, x = given_input(draw, (3, 2, 1, 4))
    y = g.add("transpose", (stack(draw, g, x, 2),), perms=draw(st.permutations(range(4))))
    return g, flat(g, y)


@CASES.fires_on("pull-concat")
def _(draw):
    g, x = given_input(draw, draw(st.permutations([1, 2, 3]).map(tuple)))
    moved = turned(draw, g, x)
    return g, stack(draw, g, moved, g.nodes[moved].shape.index(1))


@CASES.spares("push-concat-units")
def _(draw):  # operands that are longer than 1 there have a place of their own, or none
    g, x = given_input(draw, (3, 2))
    return g, flat(g, g.add("concat", (x, *parts(draw, g, x, 1, 1)), axis=1))


# ---- the tests ----------------------------------------------------------------------------------

test_fires_and_is_exact, test_spares_near_misses = CASES.tests(fires_on=12, spares=4)


def test_views_without_common_axes_are_not_one_movement():
    """2x3 against 3x2: neighbours compose, the whole chain is no reordering of axes."""
    g = TensorGraph()
    x = g.add_input("x", (2, 3), "INT8")
    turned_once = g.add("reshape", (g.add("transpose", (x,), perms=(1, 0)),), shape=(2, 3))
    g.outputs = [g.add("transpose", (turned_once,), perms=(1, 0))]
    frozen = check(g, only("move-move"))
    assert not any(e.children == (frozen.handle[x],) for e in frozen.classes[frozen.handle[g.outputs[0]]])


def test_a_residual_block_keeps_no_movement():
    """Both branches and the shortcut carry the same movement: it ends up on the outside, where it meets its inverse."""
    g = TensorGraph()
    x = g.add_input("x", (1, 4, 5, 3), "INT8")
    nchw = g.add("transpose", (x,), perms=(0, 3, 1, 2))
    both = g.add("maximum", (clamp(g, nchw, -50, 50), table(g, nchw, 1)), nan_mode=1)
    g.outputs = [g.add("transpose", (both,), perms=(0, 2, 3, 1))]
    frozen = check(g)
    assert any(
        e.op == "maximum" and all(any(f.children == (frozen.handle[x],) for f in frozen.classes[c]) for c in e.children)
        for e in frozen.classes[frozen.handle[g.outputs[0]]]
    )
