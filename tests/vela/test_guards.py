"""Graphs that must never be produced are named; sound ones pass."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from eqsat.ground.worker import Worker
from eqsat.target import Target
from eqsat.tensor import makers
from eqsat.tensor.ops import infer
from eqsat.tensor.types import Type
from eqsat.tosa.flatbuffer import dumps
from eqsat.vela.defects import Guard, find_broken, is_misplaced, price_guards, remedies, violations
from eqsat.vela.patterns import Operator
from tests.device.verify import verify
from tests.graphs import channel_shuffle, conv_graph, residual, transposed_relus
from tests.term import Term, graph

U55, U85 = (Target.of(name).family for name in ("ethos-u55-128", "ethos-u85-256"))


@pytest.mark.parametrize("build", [conv_graph, residual, transposed_relus, channel_shuffle])
def test_sound_graphs_pass(build) -> None:
    assert violations(build(), U55) == []


def test_rescale_from_int32_to_int32() -> None:
    g = graph("x:INT32[2]", lambda x: x.rescale("INT32"))
    (text,) = violations(g, U55)
    assert "INT32 to INT32" in text
    assert violations(g, U85) == [], "what a device of another family does is no reason"
    assert find_broken(g, g, U55) == []
    assert find_broken(g, graph("x:INT32[2]", lambda x: x), U55) == [text]


def test_one_widening_rescale_with_two_readers() -> None:
    shared, apart = (
        graph("x:INT8[2]", made)
        for made in (
            lambda x: (lambda wide: wide + wide)(x.rescale("INT32")).rescale("INT8"),
            lambda x: (x.rescale("INT32") + x.rescale("INT32")).rescale("INT8"),
        )
    )
    assert "21415" in violations(shared, U55)[0] and violations(apart, U55) == []


def test_int48_is_for_one_rescale() -> None:
    def read(*readers: Callable[[Term], Term]) -> list[str]:
        def made(x: Term) -> tuple[Term, ...]:
            w, b = x.const(np.ones((2, 1, 1, 3)), "INT8"), x.const(np.zeros(2), "INT48")
            y = x.made("conv2d", makers.conv("INT16"), w, b)
            return tuple(reader(y) for reader in readers)

        return violations(graph("x:INT16[1,2,2,3]", made), U55)

    scaled = lambda y: y.rescale("INT16", 1, 30, scale32=False)  # noqa: E731
    assert read(scaled) == []
    assert "INT48" in read(scaled, scaled)[0]
    assert "INT48" in read(lambda y: y.transpose(0, 3, 1, 2))[0]


def test_what_no_output_needs_is_not_looked_at() -> None:
    def made(x: Term) -> Term:
        x.rescale("INT32")
        return x.rescale("INT8").clamp(-128, 127)

    assert violations(graph("x:INT32[2]", made), U55) == []


@pytest.mark.parametrize(("vela", "mixed_up"), [("5.1.0", 4.0), ("5.2.0", 1.0)])
def test_pointwise_convolutions_of_several_images_cost_more_where_vela_mixes_them_up(
    vela: str, mixed_up: float
) -> None:
    def factor(images: int, kernel: int, stride: int = 1) -> float:
        operands = Type((images, 4, 4, 8), "INT8"), Type((8, kernel, kernel, 8), "INT8"), Type((8,), "INT32")
        attrs = makers.conv("INT8", stride=(stride, stride))
        operator = Operator("conv2d", attrs, operands, infer("conv2d", attrs, operands))
        return price_guards(1.0, operator, remedies(Guard, U55, vela))

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
    assert is_misplaced(operator) is wrong
    assert math.isinf(price_guards(1.0, operator, [])) is wrong


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
    def made(*xs: Term) -> Term:
        a, b = (x.rescale("INT32", m << 10, k + 10) for x, (m, k) in zip(xs, (first, second)))
        return (a - b).rescale("INT8", 1 << 30, 33) if behind == "rescale" else (a - b).reshape(1, 16, 8)

    g = graph("a:INT8[1,4,4,8] b:INT8[1,4,4,8]", made)
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
    worker: Worker, shape: tuple[int, ...], perms: tuple[int, ...], read: tuple[int, ...], named: bool, wrong: bool
) -> None:
    """Whether Vela lets it begin too early depends on the blocks."""

    def made(x: Term) -> Term:
        y = x.transpose(*perms)
        y = y if y.shape == read else y.reshape(*read)
        return y.conv(np.ones((48, 1, 1, shape[-1])), np.zeros(48)).rescale("INT8", 1 << 30, 33)

    g = graph(f"x:INT8{[*shape]}", made)
    assert len(violations(g, U55)) == named and violations(g, U85) == []
    verdict = verify(dumps(g), Target.of("ethos-u55-128"), worker, 2)
    assert verdict.equal is not wrong and ("blocks before" in verdict.reason) is wrong
