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
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.samples import domains, samples
from eqsat.tensor.types import Shape
from eqsat.tosa import dumps
from eqsat.vela.compile import compile_tosa
from eqsat.vela.defects import Copy, remedies
from tests.graphs import ON_THE_NEWEST_VELA, finish, rescale

TARGETS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")
COPIES = remedies(Copy, Target.of(TARGETS[0]).family)


def reduced(op: str, axis: int = 3, shift: int = 30, batch: int = 1) -> TensorGraph:
    """Rows of a tensor, cut off and reduced along an axis; a CLAMP reads the SLICE too."""
    g = TensorGraph()
    x = g.add("slice", [g.add_input("x", (batch, 6, 8, 16), "INT8")], start=(0, 2, 0, 0), size=(batch, 4, 8, 16))
    clamped = g.add_with("clamp", [x], makers.clamp("INT8", -50, 50))
    if op == "reduce_max":
        return finish(g, g.add_with(op, [x], makers.extremum(axis)), clamped)
    total = g.add(op, [rescale(g, x, "INT32", shift=(shift,), in_zp=5)], axis=axis)
    return finish(g, rescale(g, total, "INT8", shift=(34,)), clamped)


def cached() -> TensorGraph:
    """A tensor that leaves in another layout, and is read from there."""
    g = TensorGraph()
    x = g.add_with("clamp", [g.add_input("x", (1, 4, 4, 8), "INT8")], makers.clamp("INT8", 0, 90))
    y = g.add("transpose", [x], perms=(0, 3, 1, 2))
    again = g.add("transpose", [y], perms=(0, 2, 3, 1))
    return finish(g, y, g.add_with("clamp", [again], makers.clamp("INT8", 0, 50)))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("op", ["reduce_sum", "reduce_max"])
def test_the_binary_is_wrong_without_a_copy_and_right_with_it(op: str, target: str, worker: Worker) -> None:
    graph = reduced(op)
    copied, _ = with_needed_copies(graph, {}, COPIES)
    assert copied.op_counts()["depthwise_conv2d"] == 1
    assert_equal(graph, copied)
    found = [verify(dumps(g), Target.of(target), worker).equal for g in (graph, copied)]
    assert found == [False, True]


def test_a_patch_embedding_of_a_part_reads_a_copy_on_u85(worker: Worker) -> None:
    """One with padding and strides above 3, behind a SLICE."""
    target = Target.of("ethos-u85-256")

    def strided(sliced: bool, pad: tuple[int, int, int, int]) -> TensorGraph:
        g, random = TensorGraph(), np.random.default_rng(0)
        x = g.add_input("x", (1, 12, 12, 4), "INT8")
        if sliced:
            x = g.add("slice", [x], start=(0, 2, 1, 0), size=(1, 10, 10, 4))
        w, b = g.add_const(random.integers(-127, 128, (8, 3, 3, 4)), "INT8"), g.add_const(np.zeros(8), "INT32")
        y = g.add_with("conv2d", [x, w, b], makers.conv("INT8", pad=pad, stride=(4, 4)))
        return finish(g, rescale(g, y, "INT8", shift=(38,)))

    copies = remedies(Copy, target.family)
    for graph in (strided(False, (1, 0, 1, 0)), strided(True, (0, 0, 0, 0))):
        assert with_needed_copies(graph, {}, copies)[0] is graph
    graph = strided(True, (1, 0, 1, 0))
    copied, _ = with_needed_copies(graph, {}, copies)
    assert_equal(graph, copied)
    assert [verify(dumps(g), target, worker).equal for g in (graph, copied)] == [False, True]


@pytest.mark.parametrize("target", TARGETS)
def test_a_matrix_product_reads_a_copy_of_its_first_operand(target: str, worker: Worker) -> None:
    """On U55 and U65 alone; as second operand a SLICE is read rightly."""
    for sliced, (first, second) in ((True, ("x", "y")), (False, ("y", "x"))):
        g = TensorGraph()
        x = g.add("slice", [g.add_input("x", (1, 3, 16, 48), "INT8")], start=(0, 0, 0, 16), size=(1, 3, 16, 16))
        operands = {"x": g.add("reshape", [x], shape=(3, 16, 16)), "y": g.add_input("y", (3, 16, 16), "INT8")}
        product = g.add_with("matmul", [operands[first], operands[second]], makers.matmul(3, -2))
        graph = finish(g, rescale(g, product, "INT8", shift=(36,)))
        copied, _ = with_needed_copies(graph, {}, remedies(Copy, Target.of(target).family))
        assert (copied is not graph) is (sliced and "u85" not in target)
        assert_equal(graph, copied)
        found = [verify(dumps(g), Target.of(target), worker).equal for g in (graph, copied)]
        assert found == [copied is graph, True]


@pytest.mark.parametrize("target", TARGETS)
def test_an_output_that_vela_loses_is_a_copy(target: str, worker: Worker) -> None:
    graph = cached()
    copied, _ = with_needed_copies(graph, {}, COPIES)
    assert copied.op_counts() == graph.op_counts() | {"depthwise_conv2d": 1, "rescale": 1}
    with pytest.raises(WorkerError, match="only 1 of 2 outputs"):
        compile_tosa(dumps(graph), Target.of(target), worker)
    assert verify(dumps(copied), Target.of(target), worker).equal is True


@pytest.mark.parametrize(
    "graph",
    [
        pytest.param(reduced("reduce_sum", axis=1), id="another axis"),
        pytest.param(reduced("reduce_sum", shift=29), id="another factor"),
        pytest.param(reduced("reduce_sum", batch=2), id="several images"),
    ],
)
def test_others_stay_as_they_are(graph: TensorGraph) -> None:
    assert with_needed_copies(graph, {}, COPIES)[0] is graph


def test_the_copy_stands_for_the_slice() -> None:
    """By its origin it has the e-class of the SLICE, and what it costs is told of that choice."""
    graph = reduced("reduce_sum")
    origin = {n: 100 + n for n in graph.live() if graph.nodes[n].op not in ("input", "const")}
    copied, after = with_needed_copies(graph, origin, COPIES)
    (cut,) = (n for n in graph.live() if graph.nodes[n].op == "slice")
    of = {op: {after[n] for n in after if copied.nodes[n].op == op} for op in ("slice", "depthwise_conv2d")}
    assert of == {"slice": {origin[cut]}, "depthwise_conv2d": {origin[cut]}}
    assert set(after.values()) == set(origin.values())


def assert_equal(graph: TensorGraph, other: TensorGraph) -> None:
    for inputs in samples(domains(graph), 4):
        for a, b in zip(graph.evaluate(inputs), other.evaluate(inputs), strict=True):
            assert np.array_equal(a, b)


@ON_THE_NEWEST_VELA
@pytest.mark.parametrize("target", TARGETS[:2])
@pytest.mark.parametrize("shape", [(1, 6, 5, 16), (1, 1, 7, 48), (3, 20)])
@pytest.mark.parametrize("per_channel", [False, True])
def test_a_rescale_of_a_slice_reads_a_sum_with_zero(
    shape: tuple[int, ...], per_channel: bool, target: str, worker: Worker
) -> None:
    g = TensorGraph()
    x, y = (rescale(g, g.add_input(name, shape, "INT8"), "INT32", shift=(20,)) for name in "xy")
    part = tuple(max(1, n - 2) for n in shape)
    cut = g.add("slice", [g.add("add", [x, y])], start=tuple(n - k for n, k in zip(shape, part)), size=part)
    factors = [(1 << 30) + (k << 22) for k in range(part[-1])]
    attrs = makers.rescale("INT8", factors, [41] * part[-1]) if per_channel else makers.rescale("INT8", 1 << 30, 41)
    graph = finish(g, g.add_with("rescale", [cut], attrs))
    summed, origin = with_needed_copies(graph, {cut: 1, graph.outputs[0]: 2}, COPIES)
    assert summed.op_counts()["add"] == 2 and "depthwise_conv2d" not in summed.op_counts()
    assert sorted(origin.values()) == [1, 1, 2]
    assert_equal(graph, summed)
    assert [verify(dumps(g), Target.of(target), worker).equal for g in (graph, summed)] == [False, True]


def gates(shape: Shape, *, nested: bool = False) -> TensorGraph:
    """The sum of two slices of channels of a RESCALE with factors per channel."""
    g = TensorGraph()
    factors = [(1 << 30) + (k << 24) for k in range(32)]
    x = rescale(g, g.add_input("x", (1, 1, 3, 32), "INT8"), "INT32", shift=(20,))
    step = g.add("slice", [g.add("add", [x, x])], start=(0, 0, 1, 0), size=(1, 1, 1, 32))
    y = g.add_with("rescale", [step], makers.rescale("INT8", factors, [39] * 32))
    if shape != (1, 1, 1):
        y = g.add("reshape", [y], shape=(*shape, 32))
    outer, count = (0,) * len(shape), 14 if nested else 16
    if nested:
        y = g.add("slice", [y], start=(*outer, 2), size=(*shape, 2 * count))
    parts = [g.add("slice", [y], start=(*outer, at), size=(*shape, count)) for at in (0, count)]
    wide = [
        g.add_with("rescale", [part], makers.rescale("INT32", *factor))
        for part, factor in zip(parts, ((1 << 30, 11), (1518500250, 12)))
    ]
    return finish(g, rescale(g, g.add("add", wide), "INT8", shift=(50,)))


@ON_THE_NEWEST_VELA
@pytest.mark.parametrize("shape", [(1, 1, 1), (1,)], ids=["directly", "behind a reshape"])
@pytest.mark.parametrize("target", TARGETS)
def test_slices_of_channels_of_a_rescale_read_a_table_of_it(target: str, shape: Shape, worker: Worker) -> None:
    """Vela fuses the TABLE into the RESCALE, and leaves the slices where they are."""
    graph, copies = gates(shape), remedies(Copy, Target.of(target).family)
    origin = {n: 100 + n for n in graph.live() if graph.nodes[n].op not in ("input", "const")}
    copied, after = with_needed_copies(graph, origin, copies)
    (scaled,) = (n for n in graph.live() if graph.nodes[n].op == "rescale" and len(graph.nodes[n].attr("shift")) > 1)
    assert copied.op_counts() == {**graph.op_counts(), **copied.op_counts(), "table": 1, "slice": 3}
    assert list(after.values()).count(origin[scaled]) == 2
    assert_equal(graph, copied)
    without, _ = with_needed_copies(graph, origin, [c for c in copies if not c.by_table])
    assert [verify(dumps(g), Target.of(target), worker).equal for g in (without, copied)] == [False, True]


@ON_THE_NEWEST_VELA
@pytest.mark.parametrize("target", TARGETS)
def test_slices_of_a_slice_of_a_rescale_read_a_table_too(target: str, worker: Worker) -> None:
    graph = gates((1, 1, 1), nested=True)
    copied, _ = with_needed_copies(graph, {}, remedies(Copy, Target.of(target).family))
    assert_equal(graph, copied)
    assert verify(dumps(copied), Target.of(target), worker).equal


@ON_THE_NEWEST_VELA
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("op", ["concat", "pad"])
def test_rescales_of_one_product_are_copied_behind_the_beginning(op: str, target: str, worker: Worker) -> None:
    g = TensorGraph()
    x, y = (rescale(g, g.add_input(name, (1, 1, 4, 8), "INT8"), "INT32") for name in "xy")
    product = g.add_with("mul", [x, y], makers.mul())
    narrow = [rescale(g, product, "INT8", shift=(shift,)) for shift in (35, 36, 37)]
    if op == "concat":
        outputs = [g.add("concat", narrow, axis=2)]
    else:
        pads = (0, 0, 0, 0, 1, 0, 0, 0), (0, 0, 0, 0, 0, 2, 0, 0), (0, 0, 0, 0, 0, 0, 3, 3)
        outputs = [g.add_with("pad", [n], makers.pad(p)) for n, p in zip(narrow, pads)]
    graph = finish(g, *outputs)
    copied, _ = with_needed_copies(graph, {}, remedies(Copy, Target.of(target).family))
    assert copied.op_counts().get("depthwise_conv2d", 0) == (0 if "u85" in target else 2)
    assert_equal(graph, copied)
    found = [verify(dumps(g), Target.of(target), worker).equal for g in (graph, copied)]
    assert found == [copied is graph, True]


def test_a_copy_has_every_value() -> None:
    g = TensorGraph()
    x = g.add_input("x", (1, 16, 16, 3), "INT8")
    finish(g, write_copy(g, x))
    values = np.stack([np.roll(np.arange(-128, 128), k) for k in range(3)], 1).reshape(1, 16, 16, 3).astype(np.int8)
    assert np.array_equal(g.evaluate([values])[0], values)
