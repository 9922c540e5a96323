"""ADD, SUB and MUL with constants per channel as depthwise convolutions: the same integers, or no rewrite."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eqsat.egraph.encoding import Frozen
from eqsat.rules.quantized import integer_scale
from tests.rules import cases
from tests.rules.checks import check, only
from tests.sweeps import examples
from tests.term import Term, graph

BY = (1 << 30, 32)
MOVES = "move-move move-identity move-const push-unary push-binary pull-unary pull-binary-left pull-binary-right"
SHAPES = st.sampled_from(["1,16,16,5", "1,256,3", "2,128,1,4", "256,3"])
STEPS, POINTS = range(-60, 84, 4), np.array([3, -5, 7, 90])


def per_channel(x: Term, op: str, points: Any, scale: Any, *, left: bool = False, axis: int = -1, **more: int) -> Any:
    """RESCALE, op with an INT8 constant along an axis, RESCALE, as ExecuTorch leaves a per-channel op.

    more: zero points of x and of the result, and the shift of a MUL.
    """
    shape = [1] * len(x.shape)
    shape[axis] = len(points)
    by = (1 << 30, 30 if op == "mul" else 11)
    pair = [x.rescale("INT32", *by, in_zp=more.get("zp", -3)), x.const(np.reshape(points, shape), "INT8")]
    pair[1] = pair[1].rescale("INT32", *by)
    a, b = pair[::-1] if left else pair
    made = a.mul(b, more.get("shift", 0)) if op == "mul" else a(op, b)
    return made.rescale("INT8", *scale, out_zp=more.get("out_zp", 4))


def channels_first(x: Term) -> Any:
    y = per_channel(x.transpose(0, 3, 1, 2), "mul", STEPS[:6], BY, axis=1)
    return y.transpose(0, 2, 3, 1)


def scaled(x: Term, factors: Term, **more: Any) -> Any:
    return (x.rescale("INT32", **more) * factors).rescale("INT8", *BY)


def steep(x: Term) -> Any:
    """2**22 * (x + 128), saturated."""
    wide = x.rescale("INT32", 1 << 30, 22, in_zp=-128)
    return (wide * x.const(np.full((1, 1, 1, 4), 256), "INT32")).rescale("INT8", (1 << 31) - 1, 25)


def convolutions(frozen: Frozen) -> list[tuple[int, ...]]:
    """Shapes of their results."""
    return [frozen.types[e.cls].shape for nodes in frozen.classes for e in nodes if e.op == "depthwise_conv2d"]


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
    points = np.random.default_rng(seed).integers(-128, 127, int(shape.split(",")[-1]))
    scale = integer_scale(slope / 64 if op == "mul" else slope / 2**19)
    g = graph(f"x:INT8[{shape}]", lambda x: per_channel(x, op, points, scale, zp=zp, out_zp=out_zp, left=left))
    found = convolutions(check(g, only("channels-right", "channels-left", *MOVES.split())))
    if op == "mul" and np.abs(points).max() <= 127:
        assert found  # the constant itself serves as the weight


TABLE = """
channels-right    INT8[1,16,16,36]  per_channel(x, 'mul', STEPS, (1168049337, 38))  len(convolutions(frozen)) == 1
channels-right    INT8[1,16,16,36]  per_channel(x, 'add', STEPS, (1168049337, 49))  len(convolutions(frozen)) == 1
channels-right    INT8[1,16,16,36]  per_channel(x, 'sub', STEPS, (1168049337, 49))  len(convolutions(frozen)) == 1
# channels first meet the layout that has them last; other ranks are laid out as one row
channels-right    INT8[1,4,4,6]     channels_first(x)  convolutions(frozen)
channels-right    INT8[2,8,4]     per_channel(x, 'mul', STEPS[:4], BY)  set(convolutions(frozen)) == {(1, 1, 16, 4)}
- channels-{side}  INT8[1,4,4,4]  per_channel(x, 'mul', POINTS, BY, axis=1)
- channels-{side}  INT8[1,4,4,4]  per_channel(x, 'mul', POINTS[:1], BY)
- channels-{side}  INT8[1,4,4,4] INT8[1,1,1,4]  scaled(x, y.rescale('INT32'))           # no constant
# MUL rounds, then its result grows: no line has such steps
- channels-{side}  INT8[1,4,4,4]  per_channel(x, 'mul', POINTS, (1 << 30, 28), shift=5)
# all is 127 but for the zero point, and sums of products by 127 are too large for the shift of their RESCALE, which is 15
- channels-{side}  INT8[1,4,4,4]  steep(x)
- channels-{side}  INT8[1,4,4,4]  scaled(x, x.const([[[POINTS]]], 'INT32'), input_unsigned=True)
- channels-{side}  INT16[1,4,4,4]  per_channel(x, 'mul', POINTS, (1 << 30, 40), zp=0)
"""
test_fires_and_is_exact, test_spares_near_misses = cases.of_table(
    globals(), TABLE, beside=MOVES, side=["left", "right"]
)


@given(st.floats(2.0**-30, 2.0**20))
def test_scales_have_31_bits(scale: float) -> None:
    multiplier, shift = integer_scale(scale)
    assert 1 << 30 <= multiplier < 1 << 31 and abs(multiplier * 2.0**-shift / scale - 1) <= 2.0**-31
    assert integer_scale(2.0**30) is None and integer_scale(2.0**-40) is None
