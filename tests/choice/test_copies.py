"""Sums, maxima, products and RESCALEs behind a SLICE read a copy of it, outputs that Vela loses are one.

So do CONCATs and PADs of RESCALEs that Vela does not fuse.

With that the binary is right."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from eqsat.choice.copies import with_needed_copies, write_copy
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Worker
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps
from eqsat.vela.compile import compile_tosa
from eqsat.vela.defects import Copy, remedies
from tests.device.verify import verify
from tests.graphs import ON_THE_NEWEST_VELA, TARGETS, are_equal, operators
from tests.term import Term, finish, graph, inputs, outputs

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


def strided(sliced: bool = True, pad: tuple[int, int, int, int] = (1, 0, 1, 0)) -> TensorGraph:
    """A patch embedding, of a part of an image or of all of it."""
    (x,) = inputs("x:INT8[1,12,12,4]")
    x = x.slice((0, 2, 1, 0), (1, 10, 10, 4)) if sliced else x
    weights = np.random.default_rng(0).integers(-127, 128, (8, 3, 3, 4))
    return outputs(x.conv(weights, np.zeros(8), pad=pad, stride=(4, 4)).rescale("INT8", shift=38))


def multiplied(sliced_first: bool) -> TensorGraph:
    """A product of matrices of which one is a slice."""
    x, y = inputs("x:INT8[1,3,16,48] y:INT8[3,16,16]")
    part = x.part(16, 16, 3).reshape(3, 16, 16)
    return outputs((part.matmul(y, 3, -2) if sliced_first else y.matmul(part, 3, -2)).rescale("INT8", shift=36))


def narrowed(*shape: int, per_channel: bool) -> TensorGraph:
    """A RESCALE of a slice of sums."""
    part = tuple(max(1, n - 2) for n in shape)
    x, y = (v.rescale("INT32", shift=20) for v in inputs(f"x:INT8{[*shape]} y:INT8{[*shape]}"))
    factors = [(1 << 30) + (k << 22) for k in range(part[-1])]
    cut = (x + y).slice([n - k for n, k in zip(shape, part)], part)
    return outputs(cut.rescale("INT8", factors if per_channel else None, [41] * part[-1] if per_channel else 41))


def gates(*shape: int, nested: bool = False) -> TensorGraph:
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


def beside(op: str) -> TensorGraph:
    """RESCALEs of one product in a CONCAT, or each in a PAD."""
    pads = (0, 0, 0, 0, 1, 0, 0, 0), (0, 0, 0, 0, 0, 2, 0, 0), (0, 0, 0, 0, 0, 0, 3, 3)
    x, y = (v.rescale("INT32") for v in inputs("x:INT8[1,1,4,8] y:INT8[1,1,4,8]"))
    product = x * y
    first, *others = narrow = [product.rescale("INT8", shift=shift) for shift in (35, 36, 37)]
    joined = [first.concat(*others, axis=2)] if op == "concat" else [n.pad(p, 0) for n, p in zip(narrow, pads)]
    return outputs(*joined)


COPY, SUM, TABLE = {"depthwise_conv2d": 1, "rescale": 1}, {"add": 1}, {"table": 1}
COPIES_OF_TWO = {"depthwise_conv2d": 2, "rescale": 2}
#: By a graph's name: the graph, and the operators that it needs more, on U55 and U65 and on U85. None: Vela refuses it.
GRAPHS: dict[str, tuple[TensorGraph, dict[str, int] | None, dict[str, int]]] = {
    "a sum of a slice": (reduced("reduce_sum"), COPY, COPY),
    "a maximum of a slice": (reduced("reduce_max"), COPY, COPY),
    "a patch embedding of a part": (strided(), None, COPY),
    "a product of a slice": (multiplied(True), COPY, {}),
    "a product by a slice": (multiplied(False), {}, {}),
}
#: Those that Vela compiles wrongly from 5.2 on.
NEWER_GRAPHS = {
    "a RESCALE of a slice": (narrowed(1, 6, 5, 16, per_channel=False), SUM, {}),
    "a RESCALE per channel of a slice": (narrowed(3, 20, per_channel=True), SUM, {}),
    "slices of channels": (gates(1, 1, 1), SUM | TABLE, TABLE),
    "slices of channels behind a RESHAPE": (gates(1), SUM | TABLE, TABLE),
    "RESCALEs in a CONCAT": (beside("concat"), COPIES_OF_TWO, {}),
    "RESCALEs in PADs": (beside("pad"), COPIES_OF_TWO, {}),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", [*GRAPHS, *(pytest.param(n, marks=ON_THE_NEWEST_VELA) for n in NEWER_GRAPHS)])
def test_a_binary_is_wrong_where_a_copy_is_needed_and_right_with_it(name: str, target: str, worker: Worker) -> None:
    given, *needed = (GRAPHS | NEWER_GRAPHS)[name]
    more = needed["u85" in target]
    if more is not None:
        copied, _ = with_needed_copies(given, {}, remedies(Copy, Target.of(target).family))
        assert Counter(copied.op_counts()) - Counter(given.op_counts()) == more and are_equal(given, copied)
        graphs = (given, copied) if more else (given,)
        assert are_right(graphs, target, worker) == [not more, *[True] * bool(more)]


@ON_THE_NEWEST_VELA
@pytest.mark.parametrize("target", TARGETS)
def test_slices_of_a_slice_of_a_rescale_read_a_table_too(target: str, worker: Worker) -> None:
    given = gates(1, 1, 1, nested=True)
    copied, _ = with_needed_copies(given, {}, remedies(Copy, Target.of(target).family))
    assert copied.op_counts()["table"] == 1
    assert are_equal(given, copied) and are_right((copied,), target, worker) == [True]


@pytest.mark.parametrize("target", TARGETS)
def test_an_output_that_vela_loses_is_a_copy(target: str, worker: Worker) -> None:
    given = cached()
    copied, _ = with_needed_copies(given, {}, COPIES)
    assert copied.op_counts() == given.op_counts() | {"depthwise_conv2d": 1, "rescale": 1}
    with pytest.raises(WorkerError, match="only 1 of 2 outputs") as e:
        compile_tosa(dumps(given), Target.of(target), worker)
    assert e.value.refused
    assert are_right((copied,), target, worker) == [True]


@pytest.mark.parametrize(
    "given",
    [
        *(reduced("reduce_sum", **how) for how in ({"axis": 1}, {"shift": 29}, {"batch": 2})),
        strided(sliced=False),
        strided(pad=(0, 0, 0, 0)),
    ],
    ids=["axis", "factor", "images", "no slice", "no padding"],
)
def test_others_stay_as_they_are(given: TensorGraph) -> None:
    copies = [copy for target in TARGETS for copy in remedies(Copy, Target.of(target).family)]
    assert with_needed_copies(given, {}, copies)[0] is given


def test_the_copy_stands_for_the_slice() -> None:
    """By its origin it has the e-class of the SLICE, and what it costs is told of that choice."""
    given = reduced("reduce_sum")
    origin = {n: 100 + n for n in operators(given)}
    copied, after = with_needed_copies(given, origin, COPIES)
    (cut,) = (n for n in given.live() if given.nodes[n].op == "slice")
    of = {op: {after[n] for n in after if copied.nodes[n].op == op} for op in ("slice", "depthwise_conv2d")}
    assert of == {"slice": {origin[cut]}, "depthwise_conv2d": {origin[cut]}}
    assert set(after.values()) == set(origin.values())


def test_a_copy_has_every_value() -> None:
    g = TensorGraph()
    x = g.add_input("x", (1, 16, 16, 3), "INT8")
    finish(g, write_copy(g, x))
    values = np.stack([np.roll(np.arange(-128, 128), k) for k in range(3)], 1).reshape(1, 16, 16, 3).astype(np.int8)
    assert np.array_equal(g.evaluate([values])[0], values)
