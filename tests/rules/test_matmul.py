"""MATMUL: each rule fires on what it is for, is exact there, and leaves its near misses alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eqsat.options.spellings import for_target
from eqsat.rules import RULES
from eqsat.rules.matmul import ROWS
from eqsat.target import Target
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.movement import Move
from eqsat.tensor.types import attrs_of
from tests.rules.checks import check, cut, fires, only, random_values
from tests.sweeps import examples


def product(
    shape: tuple[int, int, int, int],
    constant: bool = False,
    moved: str = "",
    perm: tuple[int, ...] = (),
    split: tuple[int, ...] = (),
) -> TensorGraph:
    """[n, h, c] by [n, c, w] with different zero points; the operand named in `moved` comes through view, transpose,
    view."""
    n, h, c, w = shape
    g = TensorGraph()
    x = {"a": g.add_input("a", (n, h, c), "INT8")}
    x["b"] = g.add_const(random_values((n, c, w), 3), "INT8") if constant else g.add_input("b", (n, c, w), "INT8")
    if moved in x:
        x[moved] = reordered(g, x[moved], split, perm)
    y = g.add("matmul", (x["a"], x["b"]), in_zp=(-3,), w_zp=(5,))
    g.outputs = [reordered(g, y, split, perm) if moved == "result" else y]
    return g


def reordered(g: TensorGraph, x: int, split: tuple[int, ...], perm: tuple[int, ...]) -> int:
    """View as `split`, transpose, view back."""
    shape = g.nodes[x].shape
    return g.add("reshape", (g.add("transpose", (g.add("reshape", (x,), shape=split),), perms=perm),), shape=shape)


SIZES = st.tuples(*[st.integers(1, 4)] * 4)


@settings(max_examples=examples(25), deadline=None)
@given(SIZES, st.booleans())
def test_the_transpose_of_a_product(shape, constant):
    assert fires(product(shape, constant), "matmul-transpose", "move-move", "move-identity")


#: (operand, its shape as n h c w, the view of it, the order): what happens inside n, rows, columns, the summed axis.
CROSSING = [
    ("a", (4, 3, 2, 2), (2, 2, 3, 2), (1, 0, 2, 3)),
    ("b", (4, 3, 2, 2), (2, 2, 2, 2), (1, 0, 2, 3)),
    ("result", (4, 3, 2, 2), (2, 2, 3, 2), (1, 0, 2, 3)),
    ("a", (2, 6, 3, 2), (2, 2, 3, 3), (0, 2, 1, 3)),
    ("a", (2, 3, 6, 2), (2, 3, 2, 3), (0, 1, 3, 2)),
    ("b", (2, 3, 6, 2), (2, 3, 2, 2), (0, 2, 1, 3)),
    ("b", (1, 3, 2, 6), (1, 2, 3, 2), (0, 1, 3, 2)),
    ("result", (2, 6, 1, 4), (2, 3, 2, 4), (0, 2, 1, 3)),
    ("result", (2, 3, 1, 6), (2, 3, 2, 3), (0, 1, 3, 2)),
]


@pytest.mark.parametrize(("moved", "shape", "split", "perm"), CROSSING)
def test_reorderings_inside_an_axis_cross(moved, shape, split, perm):
    name = {"a": "pull-roles-2-0", "b": "pull-roles-2-1", "result": "push-roles-2"}[moved]
    assert fires(product(shape, False, moved, perm, split), name, "move-move")


@pytest.mark.parametrize("moved", ["a", "b", "result"])
def test_movements_between_axes_do_not_cross(moved):
    g = product((4, 4, 4, 4), False, moved, (1, 0, 2), (4, 4, 4))
    assert not fires(g, "pull-roles-2-0", "pull-roles-2-1", "push-roles-2", "move-move")
    for name in ("pull-roles-2-1", "push-roles-2"):
        assert not fires(g, name, "move-move")


@settings(max_examples=examples(50), deadline=None)
@given(st.permutations(range(3)), st.tuples(*[st.integers(1, 3)] * 3), st.integers(1, 3), st.integers(1, 3))
def test_a_movement_is_what_its_axes_do(perm, sizes, outer, inner):
    split = (outer, *sizes, inner)
    m = Move.transpose(split, (0, *(1 + p for p in perm), 4))
    shape = (outer, int(np.prod(sizes)), inner)
    m = Move.reshape(shape, split).then(m).then(Move.reshape(m.out_shape, shape))
    assert Move.product(m.within(shape)) == m


@settings(max_examples=examples(20), deadline=None)
@given(st.data())
def test_slices_of_a_product(draw):
    n, h, c, w = draw.draw(SIZES)
    g = product((n, h, c, w))
    size = [draw.draw(st.integers(1, d)) for d in (n, h, w)]
    start = [draw.draw(st.integers(0, d - s)) for d, s in zip((n, h, w), size, strict=True)]
    g.outputs = [cut(g, g.outputs[0], start, size)]
    assert fires(g, "slice-roles-2")


@pytest.mark.parametrize("shape", [(1, 3, 4, 2), (1, 1, 2, 5), (1, 4, 1, 1)])
def test_a_product_with_a_constant_is_a_convolution(shape):
    assert fires(product(shape, constant=True), "matmul-conv")


@pytest.mark.parametrize(("shape", "constant"), [((2, 3, 4, 2), True), ((1, 3, 4, 2), False)])
def test_batches_and_variables_are_no_convolution(shape, constant):
    assert not fires(product(shape, constant), "matmul-conv")


def scaled(shape: tuple[int, int, int, int], zps: tuple[int, int] = (-3, 5), dtype: str = "INT8") -> TensorGraph:
    """RESCALE of [n, h, c] by [n, c, w] with zero points."""
    n, h, c, w = shape
    g = TensorGraph()
    x, y = (g.add_input(s, size, dtype) for s, size in (("a", (n, h, c)), ("b", (n, c, w))))
    narrow = dict(makers.rescale(dtype, 1 << 30, 38 if dtype == "INT8" else 46, out_zp=-7 if dtype == "INT8" else 0))
    if dtype == "INT16":
        narrow |= {"scale32": False, "multiplier": (1 << 14,), "shift": (30,)}
    g.outputs = [g.add_with("rescale", (g.add_with("matmul", (x, y), makers.matmul(*zps)),), attrs_of(narrow))]
    return g


@settings(max_examples=examples(25), deadline=None)
@given(SIZES, st.sampled_from([(-3, 5), (-128, 8), (127, -128), (0, 0)]))
def test_a_product_by_rows(shape, zps):
    assert fires(scaled(shape, zps), "matmul-rows", "move-move", "move-identity")


def test_rows_are_added_up_singly_and_several_at_once():
    frozen = check(scaled((2, 64, 3, 40)), only("matmul-rows"))
    steps = {dict(e.attrs)["step"] for nodes in frozen.classes for e in nodes if e.op == "matmul_rows"}
    assert steps == {1, 6}  # the products of a row are 2 * 40 * 16 INT16


def test_sums_that_wait_for_a_correction_take_room():
    assert fires(scaled((8, 20, 1, 160)), "matmul-rows") and not fires(
        scaled((8, 20, 1, 160), (-128, 8)), "matmul-rows"
    )


def test_what_does_not_go_by_rows():
    for g in (
        scaled((1, 257, 2, 3)),
        scaled((16, 2, 16, 193)),
        scaled((1, 2, 2, 3), (0, 0), "INT16"),
        product((1, 2, 3, 4)),
    ):
        assert not fires(g, "matmul-rows")


def test_rows_are_for_targets_whose_products_wait_outside():
    offered = {
        name: ROWS in for_target(RULES, Target.of(name)) for name in ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")
    }
    assert offered == {"ethos-u55-128": False, "ethos-u65-256": True, "ethos-u85-256": False}


def test_all_rules_on_a_small_attention():
    """softmax's maximum between two products, heads moved from columns to batches and back."""
    g = TensorGraph()
    q, k, v = (g.add_input(s, (1, 3, 4), "INT8") for s in "qkv")

    def heads(x):
        return g.add(
            "reshape",
            (g.add("transpose", (g.add("reshape", (x,), shape=(3, 2, 2)),), perms=(1, 0, 2)),),
            shape=(2, 3, 2),
        )

    def narrow(x):
        return g.add_with("rescale", (x,), makers.rescale("INT8", 1 << 30, 36))

    scores = narrow(
        g.add("matmul", (heads(q), g.add("transpose", (heads(k),), perms=(0, 2, 1))), in_zp=(1,), w_zp=(2,))
    )
    top = g.add("maximum", (scores, g.add_with("reduce_max", (scores,), makers.extremum(2))), nan_mode=1)
    out = narrow(g.add("matmul", (top, heads(v)), in_zp=(0,), w_zp=(4,)))
    g.outputs = [g.add("reshape", (g.add("transpose", (out,), perms=(1, 0, 2)),), shape=(1, 3, 4))]
    frozen = check(g)
    assert frozen.saturation.stop == "saturated" and "matmul-transpose" in frozen.saturation.matches
