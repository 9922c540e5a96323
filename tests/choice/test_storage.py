"""What SLICEs and views cost by the choice graph is what Vela copies."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from cost_models.vela_groups import VelaGroups
from eqsat.choice.candidates import view_costs
from eqsat.choice.choice import Choices, build
from eqsat.choice.writer import with_needed_copies, write_copy
from eqsat.egraph.encoding import saturate
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Worker
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps
from eqsat.vela.compile import compile_tosa
from eqsat.vela.defects import Copy, remedies
from eqsat.vela.facts import numbers, version
from extraction import extract
from tests.device.verify import verify
from tests.fake_oracle import by_vela
from tests.graphs import ON_THE_NEWEST_VELA, TARGETS, are_equal, compile_graph, operators
from tests.term import Term, finish, graph, inputs, outputs

X, PART = "x:INT8[1,16,8,32]", (1, 9, 8, 32)


def part(x: Term) -> Term:
    return x.part(3, 9, 1)


def _multiplied(x: Term, multiplier: int = 1 << 30) -> Term:
    wide = x.rescale("INT32", multiplier, 30, in_zp=3)
    return (wide * x.const(np.full(PART, 3), "INT32")).rescale("INT8", shift=36)


def _summed(x: Term) -> Term:
    """A sum as ExecuTorch writes it: the larger operand has a factor of 2**19."""
    other = x.input(PART).clamp(-9, 9)
    factors = ((1518500250, 12), (1 << 30, 11))
    one, two = (v.rescale("INT32", *factor, in_zp=3) for v, factor in zip((x, other), factors))
    return (one + two).rescale("INT8", shift=50)


#: {what reads the part: (how it is written, whether it reads a copy)}
READERS: dict[str, tuple[Callable[[Term], Term], bool]] = {
    "convolution": (lambda x: x.layer(8), False),
    "max pool": (lambda x: x.largest(2, 2, pad=(0, 1, 0, 0)), False),
    "clamp": (lambda x: x.clamp(-50, 70), False),
    "rescale": (lambda x: x.rescale("INT8", 1518500250, 31), False),
    "product": (_multiplied, False),
    "sum": (_summed, False),
    "concat": (lambda x: x.concat(x.input(PART).clamp(-9, 9), axis=3), False),
    "view without ones": (lambda x: x.reshape(9, 8, 32).clamp(-50, 70), False),
    "view": (lambda x: x.reshape(1, 72, 1, 32).clamp(-50, 70), True),
    "transpose": (lambda x: x.transpose(0, 2, 1, 3).clamp(-50, 70), True),
    "slice": (lambda x: x.slice((0, 1, 2, 3), (1, 4, 5, 16)).clamp(-50, 70), True),
}


def _computed(x: Term) -> Term:
    return x.clamp(-100, 90)


def _charged(choices: Choices, choice: dict[int, int]) -> float:
    """Cycles that a choice is charged for copies of parts."""
    copies = {n for c, n in choice.items() if c >= len(choices.classes)}
    parts = {n for n in choice.values() if n < len(choices.candidates) and choices.candidates[n].is_part}
    return sum(d for (n, m), d in choices.graph.pair_costs.items() if n in copies and m in parts)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("model", TARGETS, indirect=True)
def test_a_part_costs_what_vela_copies(model: VelaGroups, reader: str) -> None:
    write, copied = READERS[reader]
    copied = copied and not (reader == "transpose" and model.target.family.transposes.fused)
    choices = build(saturate(graph(X, lambda x: write(part(_computed(x)))), []), model)
    found = extract(choices.graph)
    written, _ = choices.tensor_graph(found.choice)
    rows = [r for r in compile_graph(written, model.target, model.pool).rows if r.operator == "MemoryCopy"]
    assert bool(_charged(choices, found.choice)) == copied
    if reader not in ("concat", "transpose"):  # the copies that CONCATs and, on U85, TRANSPOSEs are
        assert bool(rows) == copied


@pytest.mark.parametrize("model", TARGETS[:2], indirect=True)
def test_a_part_is_copied_once_for_all_its_readers(model: VelaGroups) -> None:
    def charged(turned: int) -> float:
        (x,) = inputs(X)
        x = part(_computed(x))
        turns = [x.transpose(0, 2, 1, 3).clamp(-50, 60 + k) for k in range(turned)]
        choices = build(saturate(outputs(x.clamp(-40, 40), *turns), []), model)
        return _charged(choices, extract(choices.graph).choice)

    assert charged(1) == charged(3) > 0


@pytest.mark.parametrize("model", TARGETS[:1], indirect=True)
def test_an_output_is_a_copy(model: VelaGroups) -> None:
    choices = build(saturate(graph(X, lambda x: part(_computed(x))), []), model)
    assert _charged(choices, extract(choices.graph).choice) > 0


def sliced_and_alone(made: Callable[[Term], Term | tuple[Term, ...]]) -> tuple[TensorGraph, TensorGraph]:
    """What is made of a part of a computed tensor, and of one of the part's size."""
    return (graph(X, lambda x: made(part(_computed(x)))), graph("x:INT8[1,9,8,32]", lambda x: made(_computed(x))))


@pytest.mark.parametrize("model, in_place", zip(TARGETS, (False, False, True)), indirect=["model"])
def test_a_widening_rescale_that_does_not_fuse_reads_the_whole_on_u55(model: VelaGroups, in_place: bool) -> None:
    """Vela makes a sum and a product of it there, of all the tensor (`tests` ask by the commands' cycles)."""
    graphs = sliced_and_alone(lambda x: _multiplied(x, 1518500250))
    tables = (compile_graph(g, model.target, model.pool).rows for g in graphs)
    cycles = [sum(r.cycles for r in rows if r.operator != "Clamp") for rows in tables]
    choices = build(saturate(graphs[0], []), model)
    assert bool(_charged(choices, extract(choices.graph).choice)) != in_place
    if numbers(version()) >= (5, 2):  # before, it computes the part alone, which is charged as a copy all the same
        assert (cycles[0] <= 1.1 * cycles[1]) == in_place


@pytest.mark.parametrize("model", TARGETS[2:], indirect=True)
def test_a_transpose_of_a_part_costs_no_more_than_of_a_whole_on_u85(model: VelaGroups) -> None:
    """The whole has another reader, so that no TRANSPOSE fuses into what computes it."""
    moves = ("MemoryCopy", "Transpose")
    sliced, alone = (
        sum(r.cycles for r in compile_graph(g, model.target, model.pool).rows if r.operator in moves)
        for g in sliced_and_alone(lambda x: (x.transpose(0, 2, 1, 3).clamp(-50, 70), x.clamp(-40, 40)))
    )
    assert sliced <= alone


# ---- views ---------------------------------------------------------------------------------------

A, B, C = (1, 8, 16, 32), (1, 4, 32, 32), (1, 16, 8, 32)


def viewed(*shapes: tuple[int, ...]) -> TensorGraph:
    """A value of shape A that is read in `shapes`, each time from A."""
    (x,) = inputs("x:INT8[1,8,16,32]")
    x = x.clamp(-100, 90)
    return outputs(*((x if s == A else x.reshape(*s)).clamp(-90, 80 - k) for k, s in enumerate(shapes)))


def copies(choices: Choices, choice: dict[int, int]) -> float:
    """What the choice is charged for shapes."""
    shapes = {n for c, n in choice.items() if c >= len(choices.classes)}
    pairs = (d for (n, m), d in choices.graph.pair_costs.items() if n in shapes and m in shapes)
    return sum(choices.graph.cost[n] for n in shapes) + sum(pairs)


@pytest.mark.parametrize("model", TARGETS, indirect=True)
def test_a_value_is_copied_for_every_shape_but_one(model: VelaGroups) -> None:
    for shapes in ((A,), (B,), (B, B), (A, B), (A, C), (B, C), (A, B, C)):
        choices = build(saturate(viewed(*shapes), []), model)
        found = extract(choices.graph)
        written, _ = choices.tensor_graph(found.choice)
        rows = by_vela(written, model.target, model.pool).estimate.rows
        rows = [r.priced for r in rows if r.operator == "MemoryCopy"]
        assert len(rows) == len(set(shapes)) - 1
        assert sum(rows) == pytest.approx(copies(choices, found.choice), rel=0.05, abs=1)


@pytest.mark.parametrize("model", TARGETS[2:], indirect=True)
def test_a_copy_without_a_price_is_no_price(model: VelaGroups) -> None:
    """Workers that die leave some copies unpriced."""
    choices = build(saturate(viewed(A, B), []), model)
    found = choices.candidates
    unpriced = [replace(c, price=replace(c.price, copied=math.inf)) if c.price.copied else c for c in found]
    shapes = [choices.frozen.type_of(c).shape for c in choices.classes]
    assert view_costs(shapes, found, []).pairs and not view_costs(shapes, unpriced, []).pairs


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
    total = low.rescale("INT32", 1 << 30, 11) + high.rescale("INT32", 1518500250, 12)
    return outputs(total.rescale("INT8", shift=50))


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
