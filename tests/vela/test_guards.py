"""Graphs that must never be produced are named; sound ones pass."""

from __future__ import annotations

import math

import numpy as np
import pytest

from eqsat.device.verification import verify
from eqsat.ground.worker import Worker
from eqsat.target import Target
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import infer
from eqsat.tensor.types import Type
from eqsat.tosa.flatbuffer import dumps
from eqsat.vela.defects import Guard, remedies
from eqsat.vela.guards import broken, guarded, misplaced, violations
from eqsat.vela.patterns import Operator
from tests.graphs import channel_shuffle, conv_graph, finish, relu, rescale, residual, transpose, transposed_relus

U55, U85 = (Target.of(name).family for name in ("ethos-u55-128", "ethos-u85-256"))


@pytest.mark.parametrize("build", [conv_graph, residual, transposed_relus, channel_shuffle])
def test_sound_graphs_pass(build) -> None:
    assert violations(build(), U55) == []


def test_rescale_from_int32_to_int32() -> None:
    g = TensorGraph()
    finish(g, rescale(g, g.add_input("x", (2,), "INT32"), "INT32"))
    (text,) = violations(g, U55)
    assert "INT32 to INT32" in text
    assert violations(g, U85) == [], "what a device of another family does is no reason"
    assert broken(g, g, U55) == []
    h = TensorGraph()
    assert broken(g, finish(h, h.add_input("x", (2,), "INT32")), U55) == [text]


def test_one_widening_rescale_with_two_readers() -> None:
    g = TensorGraph()
    wide = rescale(g, g.add_input("x", (2,), "INT8"), "INT32")
    y = g.add("add", [wide, wide])
    finish(g, rescale(g, y, "INT8"))
    assert "21415" in violations(g, U55)[0]
    h = TensorGraph()
    x = h.add_input("x", (2,), "INT8")
    finish(h, rescale(h, h.add("add", [rescale(h, x, "INT32"), rescale(h, x, "INT32")]), "INT8"))
    assert violations(h, U55) == []


def int48(*readers: str) -> list[str]:
    g = TensorGraph()
    x = g.add_input("x", (1, 2, 2, 3), "INT16")
    w, b = g.add_const(np.ones((2, 1, 1, 3)), "INT8"), g.add_const(np.zeros(2), "INT48")
    y = g.add_with("conv2d", [x, w, b], makers.conv("INT16"))
    read = {
        "rescale": lambda: rescale(g, y, "INT16", multiplier=(1,), scale32=False),
        "transpose": lambda: transpose(g, y, 0, 3, 1, 2),
    }
    finish(g, *(read[r]() for r in readers))
    return violations(g, U55)


def test_int48_is_for_one_rescale() -> None:
    assert int48("rescale") == []
    assert "INT48" in int48("rescale", "rescale")[0]
    assert "INT48" in int48("transpose")[0]


def test_what_no_output_needs_is_not_looked_at() -> None:
    g = TensorGraph()
    x = g.add_input("x", (2,), "INT32")
    rescale(g, x, "INT32")
    finish(g, relu(g, rescale(g, x, "INT8")))
    assert violations(g, U55) == []


@pytest.mark.parametrize(("vela", "mixed_up"), [("5.1.0", 4.0), ("5.2.0", 1.0)])
def test_pointwise_convolutions_of_several_images_cost_more_where_vela_mixes_them_up(
    vela: str, mixed_up: float
) -> None:
    def factor(images: int, kernel: int, stride: int = 1) -> float:
        operands = Type((images, 4, 4, 8), "INT8"), Type((8, kernel, kernel, 8), "INT8"), Type((8,), "INT32")
        attrs = makers.conv("INT8", stride=(stride, stride))
        operator = Operator("conv2d", attrs, operands, infer("conv2d", attrs, operands))
        return guarded(1.0, operator, remedies(Guard, U55, vela))

    assert factor(2, 1) == mixed_up
    assert factor(1, 1) == factor(2, 3) == factor(2, 1, 2) == 1.0


@pytest.mark.parametrize(
    ("op", "operand", "result", "wrong"),
    [
        ("slice", "INT48", "INT48", True),
        ("transpose", "INT48", "INT48", True),
        ("rescale", "INT48", "INT16", False),
        ("conv2d", "INT16", "INT48", False),
        ("slice", "INT32", "INT32", False),
    ],
)
def test_what_is_misplaced(op: str, operand: str, result: str, wrong: bool) -> None:
    operator = Operator(op, (), (Type((1, 2), operand),), Type((1, 2), result))
    assert misplaced(operator) is wrong
    assert math.isinf(guarded(1.0, operator, [])) is wrong


@pytest.mark.parametrize(
    ("first", "second", "behind", "wrong"),
    [
        ((1, 0), (3, 0), "rescale", True),
        ((2, 0), (8, 0), "rescale", True),
        ((3, 0), (3, 0), "rescale", False),
        ((1, 0), (3, 2), "rescale", False),
        ((1, 0), (40_000, 0), "rescale", False),
        ((1, 0), (3, 0), "reshape", False),
    ],
)
def test_sums_of_unlike_integers_are_named_where_vela_is_wrong(
    worker: Worker, first: tuple[int, int], second: tuple[int, int], behind: str, wrong: bool
) -> None:
    g = TensorGraph()
    a, b = (
        g.add_with("rescale", [g.add_input(n, (1, 4, 4, 8), "INT8")], makers.rescale("INT32", m << 10, s + 10))
        for n, (m, s) in zip("ab", (first, second))
    )
    total = g.add("sub", (a, b))
    if behind == "rescale":
        finish(g, g.add_with("rescale", [total], makers.rescale("INT8", 1 << 30, 33)))
    else:
        finish(g, g.add("reshape", (total,), shape=(1, 16, 8)))
    assert bool(violations(g, U55)) == wrong
    assert verify(dumps(g), Target.of("ethos-u55-128"), worker, 16).equal is not wrong


@pytest.mark.parametrize(
    ("shape", "perms", "read", "named", "wrong"),
    [
        ((1, 16, 16, 2), (0, 2, 1, 3), (1, 16, 16, 2), True, True),
        ((1, 24, 16, 8), (0, 2, 1, 3), (1, 24, 16, 8), True, True),
        ((1, 16, 16, 16), (0, 2, 1, 3), (1, 16, 16, 16), True, False),
        ((1, 24, 16, 8), (0, 2, 1, 3), (1, 16, 24, 8), False, False),
        ((1, 24, 16, 8), (0, 2, 1, 3), (1, 12, 32, 8), False, False),
        ((1, 16, 16, 16), (0, 1, 3, 2), (1, 16, 16, 16), False, False),
        ((2, 16, 16, 2), (0, 2, 1, 3), (2, 16, 16, 2), False, False),
    ],
)
def test_what_reads_the_shape_from_before_a_transpose_is_named(
    worker: Worker,
    shape: tuple[int, ...],
    perms: tuple[int, ...],
    read: tuple[int, ...],
    named: bool,
    wrong: bool,
) -> None:
    """Whether Vela lets it begin too early depends on the blocks."""
    g = TensorGraph()
    x = g.add("transpose", (g.add_input("x", shape, "INT8"),), perms=perms)
    if g.nodes[x].shape != read:
        x = g.add("reshape", (x,), shape=read)
    w = g.add_const(np.ones((48, 1, 1, shape[-1]), np.int8), "INT8")
    b = g.add_const(np.zeros(48, np.int32), "INT32")
    y = g.add_with("conv2d", [x, w, b], makers.conv("INT8"))
    finish(g, g.add_with("rescale", [y], makers.rescale("INT8", 1 << 30, 33)))
    assert len(violations(g, U55)) == named and violations(g, U85) == []
    verdict = verify(dumps(g), Target.of("ethos-u55-128"), worker, 2)
    assert verdict.equal is not wrong and ("blocks before" in verdict.reason) is wrong
