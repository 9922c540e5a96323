"""ADD, SUB and MUL with constants per channel as depthwise convolutions: the same integers in every point, or no
rewrite."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eqsat.egraph.encoding import Frozen
from eqsat.rules.quantized import integer_scale
from eqsat.tensor.graph import TensorGraph
from tests.graphs import finish, rescale, reshape, transpose
from tests.rules.checks import check, only
from tests.sweeps import examples

RULES = only(
    "channels-right",
    "channels-left",
    "move-move",
    "move-identity",
    "move-const",
    "push-unary",
    "push-binary",
    "pull-unary",
    "pull-binary-left",
    "pull-binary-right",
)
SHAPES = st.sampled_from([(1, 16, 16, 5), (1, 256, 3), (2, 128, 1, 4), (256, 3)])


def per_channel(
    g: TensorGraph,
    x: int,
    op: str,
    points: np.ndarray,
    *,
    scale: tuple[int, int],
    zp: int = -3,
    k_zp: int = 0,
    out_zp: int = 4,
    left: bool = False,
    axis: int = -1,
    mul_shift: int = 0,
) -> int:
    """RESCALE, op with an INT8 constant along an axis, RESCALE, as ExecuTorch leaves a per-channel op."""
    shape = [1] * len(g.nodes[x].shape)
    shape[axis] = len(points)
    wide = {"shift": (30,)} if op == "mul" else {"shift": (11,)}
    k = rescale(g, g.add_const(points.reshape(shape), "INT8"), "INT32", in_zp=k_zp, **wide)
    pair = (rescale(g, x, "INT32", in_zp=zp, **wide), k)
    made = g.add(op, pair[::-1] if left else pair, **({"shift": (mul_shift,)} if op == "mul" else {}))
    return rescale(g, made, "INT8", multiplier=scale[:1], shift=scale[1:], out_zp=out_zp)


def convolutions(frozen: Frozen) -> int:
    return sum(e.op == "depthwise_conv2d" for nodes in frozen.classes for e in nodes)


@pytest.mark.slow
@settings(max_examples=examples(25), deadline=None)
@given(
    shape=SHAPES,
    op=st.sampled_from(["add", "sub", "mul"]),
    left=st.booleans(),
    seed=st.integers(0, 999),
    zp=st.integers(-128, 127),
    slope=st.floats(0.2, 3),
    out_zp=st.integers(-128, 127),
)
def test_the_same_integers(shape, op, left, seed, zp, slope, out_zp) -> None:
    """Every e-node is evaluated on tagged data: all 256 values reach some channel, extremes all of them."""
    g = TensorGraph()
    points = np.random.default_rng(seed).integers(-128, 127, shape[-1])
    scale = integer_scale(slope / 64 if op == "mul" else slope / 2**19)
    finish(g, per_channel(g, g.add_input("x", shape, "INT8"), op, points, scale=scale, zp=zp, out_zp=out_zp, left=left))
    found = convolutions(check(g, RULES))
    if op == "mul" and np.abs(points).max() <= 127:
        assert found  # the constant itself serves as the weight


@pytest.mark.parametrize("op", ["add", "sub", "mul"])
def test_a_sum_finds_its_convolution(op: str) -> None:
    g = TensorGraph()
    finish(
        g,
        per_channel(
            g,
            g.add_input("x", (1, 16, 16, 36), "INT8"),
            op,
            np.arange(-60, 84, 4),
            scale=(1168049337, 38 if op == "mul" else 49),
        ),
    )
    assert convolutions(check(g, RULES)) == 1


def test_channels_first_meets_the_layout_that_has_them_last() -> None:
    g = TensorGraph()
    y = transpose(g, g.add_input("x", (1, 4, 4, 6), "INT8"), 0, 3, 1, 2)
    y = per_channel(g, y, "mul", np.arange(1, 7), scale=(1 << 30, 32), axis=1)
    finish(g, transpose(g, y, 0, 2, 3, 1))
    assert convolutions(check(g, RULES))


def test_other_ranks_are_laid_out_as_one_row() -> None:
    g = TensorGraph()
    finish(g, per_channel(g, g.add_input("x", (2, 8, 4), "INT8"), "mul", np.arange(1, 5), scale=(1 << 30, 32)))
    frozen = check(g, RULES)
    shapes = {frozen.types[e.cls].shape for nodes in frozen.classes for e in nodes if e.op == "depthwise_conv2d"}
    assert shapes == {(1, 1, 16, 4)}


@pytest.mark.parametrize(
    "case", ["another axis", "one element", "no constant", "two roundings", "unsigned", "not INT8"]
)
def test_near_misses(case: str) -> None:
    g = TensorGraph()
    x = g.add_input("x", (1, 4, 4, 4), "INT16" if case == "not INT8" else "INT8")
    points = np.array([3, -5, 7, 90])
    if case == "another axis":
        y = per_channel(g, x, "mul", points, scale=(1 << 30, 32), axis=1)
    elif case == "one element":
        y = per_channel(g, x, "mul", points[:1], scale=(1 << 30, 32))
    elif case == "two roundings":  # MUL rounds, then its result grows: no line has such steps
        y = per_channel(g, x, "mul", points, scale=(1 << 30, 28), mul_shift=5)
    elif case == "no constant":
        k = rescale(g, reshape(g, g.add_input("k", (4,), "INT8"), 1, 1, 1, 4), "INT32")
        y = rescale(g, g.add("mul", (rescale(g, x, "INT32"), k), shift=(0,)), "INT8", shift=(32,))
    elif case == "unsigned":
        k = g.add_const(points.reshape(1, 1, 1, 4), "INT32")
        y = rescale(g, g.add("mul", (rescale(g, x, "INT32", input_unsigned=True), k), shift=(0,)), "INT8", shift=(32,))
    else:
        y = per_channel(g, x, "mul", points, scale=(1 << 30, 40), zp=0)
    finish(g, y)
    assert convolutions(check(g, only("channels-right", "channels-left"))) == 0


@given(st.floats(2.0**-30, 2.0**20))
def test_scales_have_31_bits(scale: float) -> None:
    multiplier, shift = integer_scale(scale)
    assert 1 << 30 <= multiplier < 1 << 31 and abs(multiplier * 2.0**-shift / scale - 1) <= 2.0**-31
    assert integer_scale(2.0**30) is None and integer_scale(2.0**-40) is None
