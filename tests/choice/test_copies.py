"""Sums, maxima, products and RESCALEs behind a SLICE read a copy of it, outputs that Vela loses are one.

So do CONCATs and PADs of RESCALEs that Vela does not fuse.

With that the binary is right."""

from __future__ import annotations

import numpy as np
import pytest

from eqsat.choice.copies import with_needed_copies, write_copy
from eqsat.device.verification import verify
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Worker
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import Shape
from eqsat.tosa import dumps
from eqsat.vela.compile import compile_tosa
from eqsat.vela.defects import Copy, remedies
from tests.graphs import ON_THE_NEWEST_VELA, are_equal, operators
from tests.term import Term, finish, graph, inputs, outputs

TARGETS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")
COPIES = remedies(Copy, Target.of(TARGETS[0]).family)


def reduced(op: str, axis: int = 3, shift: int = 30, batch: int = 1) -> TensorGraph:
    """Rows of a tensor, cut off and reduced along an axis; a CLAMP reads the SLICE too."""

    def made(x: Term) -> tuple[Term, ...]:
        x = x.part(2, 4, 1)
        clamped = x.clamp(-50, 50)
        if op == "reduce_max":
            return x.reduce("max", axis), clamped
        return x.rescale("INT32", shift=shift, in_zp=5).reduce("sum", axis).rescale("INT8", shift=34), clamped

    return graph(f"x:INT8[{batch},6,8,16]", made)


def cached() -> TensorGraph:
    """A tensor that leaves in another layout, and is read from there."""
    (x,) = inputs("x:INT8[1,4,4,8]")
    y = x.clamp(0, 90).nchw()
    return outputs(y, y.nhwc().clamp(0, 50))


def are_right(graphs: tuple[TensorGraph, ...], target: str, worker: Worker) -> list[bool | None]:
    """Whether the binary of each computes what it says."""
    return [verify(dumps(g), Target.of(target), worker).equal for g in graphs]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("op", ["reduce_sum", "reduce_max"])
def test_the_binary_is_wrong_without_a_copy_and_right_with_it(op: str, target: str, worker: Worker) -> None:
    given = reduced(op)
    copied, _ = with_needed_copies(given, {}, COPIES)
    assert copied.op_counts()["depthwise_conv2d"] == 1 and are_equal(given, copied)
    assert are_right((given, copied), target, worker) == [False, True]


def test_a_patch_embedding_of_a_part_reads_a_copy_on_u85(worker: Worker) -> None:
    """One with padding and strides above 3, behind a SLICE."""
    target = "ethos-u85-256"

    def strided(sliced: bool, pad: tuple[int, int, int, int]) -> TensorGraph:
        (x,) = inputs("x:INT8[1,12,12,4]")
        x = x.slice((0, 2, 1, 0), (1, 10, 10, 4)) if sliced else x
        weights = np.random.default_rng(0).integers(-127, 128, (8, 3, 3, 4))
        return outputs(x.conv(weights, np.zeros(8), pad=pad, stride=(4, 4)).rescale("INT8", shift=38))

    copies = remedies(Copy, Target.of(target).family)
    for sound in (strided(False, (1, 0, 1, 0)), strided(True, (0, 0, 0, 0))):
        assert with_needed_copies(sound, {}, copies)[0] is sound
    given = strided(True, (1, 0, 1, 0))
    copied, _ = with_needed_copies(given, {}, copies)
    assert are_equal(given, copied) and are_right((given, copied), target, worker) == [False, True]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("sliced_first", [True, False])
def test_a_matrix_product_reads_a_copy_of_its_first_operand(sliced_first: bool, target: str, worker: Worker) -> None:
    """On U55 and U65 alone; as second operand a SLICE is read rightly."""
    x, y = inputs("x:INT8[1,3,16,48] y:INT8[3,16,16]")
    part = x.part(16, 16, 3).reshape(3, 16, 16)
    given = outputs((part.matmul(y, 3, -2) if sliced_first else y.matmul(part, 3, -2)).rescale("INT8", shift=36))
    copied, _ = with_needed_copies(given, {}, remedies(Copy, Target.of(target).family))
    assert (copied is not given) is (sliced_first and "u85" not in target) and are_equal(given, copied)
    assert are_right((given, copied), target, worker) == [copied is given, True]


@pytest.mark.parametrize("target", TARGETS)
def test_an_output_that_vela_loses_is_a_copy(target: str, worker: Worker) -> None:
    given = cached()
    copied, _ = with_needed_copies(given, {}, COPIES)
    assert copied.op_counts() == given.op_counts() | {"depthwise_conv2d": 1, "rescale": 1}
    with pytest.raises(WorkerError, match="only 1 of 2 outputs"):
        compile_tosa(dumps(given), Target.of(target), worker)
    assert are_right((copied,), target, worker) == [True]


@pytest.mark.parametrize("how", [{"axis": 1}, {"shift": 29}, {"batch": 2}], ids=["axis", "factor", "images"])
def test_others_stay_as_they_are(how: dict[str, int]) -> None:
    given = reduced("reduce_sum", **how)
    assert with_needed_copies(given, {}, COPIES)[0] is given


def test_the_copy_stands_for_the_slice() -> None:
    """By its origin it has the e-class of the SLICE, and what it costs is told of that choice."""
    given = reduced("reduce_sum")
    origin = {n: 100 + n for n in operators(given)}
    copied, after = with_needed_copies(given, origin, COPIES)
    (cut,) = (n for n in given.live() if given.nodes[n].op == "slice")
    of = {op: {after[n] for n in after if copied.nodes[n].op == op} for op in ("slice", "depthwise_conv2d")}
    assert of == {"slice": {origin[cut]}, "depthwise_conv2d": {origin[cut]}}
    assert set(after.values()) == set(origin.values())


@ON_THE_NEWEST_VELA
@pytest.mark.parametrize("target", TARGETS[:2])
@pytest.mark.parametrize("shape", [(1, 6, 5, 16), (1, 1, 7, 48), (3, 20)])
@pytest.mark.parametrize("per_channel", [False, True])
def test_a_rescale_of_a_slice_reads_a_sum_with_zero(
    shape: tuple[int, ...], per_channel: bool, target: str, worker: Worker
) -> None:
    part = tuple(max(1, n - 2) for n in shape)
    factors = [(1 << 30) + (k << 22) for k in range(part[-1])]
    xs = inputs(f"x:INT8{[*shape]} y:INT8{[*shape]}")
    x, y = (v.rescale("INT32", shift=20) for v in xs)
    cut = (x + y).slice([n - k for n, k in zip(shape, part)], part)
    given = outputs(cut.rescale("INT8", factors if per_channel else None, [41] * part[-1] if per_channel else 41))
    (out,) = given.outputs
    summed, origin = with_needed_copies(given, {given.nodes[out].inputs[0]: 1, out: 2}, COPIES)
    assert summed.op_counts()["add"] == 2 and "depthwise_conv2d" not in summed.op_counts()
    assert sorted(origin.values()) == [1, 1, 2]
    assert are_equal(given, summed) and are_right((given, summed), target, worker) == [False, True]


def gates(shape: Shape, *, nested: bool = False) -> TensorGraph:
    """The sum of two slices of channels of a RESCALE with factors per channel."""
    factors, count = [(1 << 30) + (k << 24) for k in range(32)], 14 if nested else 16
    (x,) = inputs("x:INT8[1,1,3,32]")
    x = x.rescale("INT32", shift=20)
    y = (x + x).part(1, 1, 2).rescale("INT8", factors, [39] * 32)
    y = y if shape == (1, 1, 1) else y.reshape(*shape, 32)
    y = y.part(2, 2 * count, len(shape)) if nested else y
    low, high = (y.part(at, count, len(shape)) for at in (0, count))
    return outputs(
        (low.rescale("INT32", 1 << 30, 11) + high.rescale("INT32", 1518500250, 12)).rescale("INT8", shift=50)
    )


@ON_THE_NEWEST_VELA
@pytest.mark.parametrize("shape", [(1, 1, 1), (1,)], ids=["directly", "behind a reshape"])
@pytest.mark.parametrize("target", TARGETS)
def test_slices_of_channels_of_a_rescale_read_a_table_of_it(target: str, shape: Shape, worker: Worker) -> None:
    """Vela fuses the TABLE into the RESCALE, and leaves the slices where they are."""
    given, copies = gates(shape), remedies(Copy, Target.of(target).family)
    origin = {n: 100 + n for n in operators(given)}
    copied, after = with_needed_copies(given, origin, copies)
    (scaled,) = (n for n in given.live() if given.nodes[n].op == "rescale" and len(given.nodes[n].attr("shift")) > 1)
    assert copied.op_counts() == {**given.op_counts(), **copied.op_counts(), "table": 1, "slice": 3}
    assert list(after.values()).count(origin[scaled]) == 2 and are_equal(given, copied)
    without, _ = with_needed_copies(given, origin, [c for c in copies if not c.by_table])
    assert are_right((without, copied), target, worker) == [False, True]


@ON_THE_NEWEST_VELA
@pytest.mark.parametrize("target", TARGETS)
def test_slices_of_a_slice_of_a_rescale_read_a_table_too(target: str, worker: Worker) -> None:
    given = gates((1, 1, 1), nested=True)
    copied, _ = with_needed_copies(given, {}, remedies(Copy, Target.of(target).family))
    assert are_equal(given, copied) and are_right((copied,), target, worker) == [True]


@ON_THE_NEWEST_VELA
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("op", ["concat", "pad"])
def test_rescales_of_one_product_are_copied_behind_the_beginning(op: str, target: str, worker: Worker) -> None:
    pads = (0, 0, 0, 0, 1, 0, 0, 0), (0, 0, 0, 0, 0, 2, 0, 0), (0, 0, 0, 0, 0, 0, 3, 3)
    xs = inputs("x:INT8[1,1,4,8] y:INT8[1,1,4,8]")
    x, y = (v.rescale("INT32") for v in xs)
    product = x * y
    first, *others = narrow = [product.rescale("INT8", shift=shift) for shift in (35, 36, 37)]
    joined = [first.concat(*others, axis=2)] if op == "concat" else [n.pad(p, 0) for n, p in zip(narrow, pads)]
    given = outputs(*joined)
    copied, _ = with_needed_copies(given, {}, remedies(Copy, Target.of(target).family))
    assert copied.op_counts().get("depthwise_conv2d", 0) == (0 if "u85" in target else 2)
    assert are_equal(given, copied) and are_right((given, copied), target, worker) == [copied is given, True]


def test_a_copy_has_every_value() -> None:
    g = TensorGraph()
    x = g.add_input("x", (1, 16, 16, 3), "INT8")
    finish(g, write_copy(g, x))
    values = np.stack([np.roll(np.arange(-128, 128), k) for k in range(3)], 1).reshape(1, 16, 16, 3).astype(np.int8)
    assert np.array_equal(g.evaluate([values])[0], values)
