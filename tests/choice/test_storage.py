"""What SLICEs and views cost by the choice graph is what Vela copies."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from cost_models.vela_groups import VelaGroups
from eqsat.choice.choice import Choices, build
from eqsat.choice.storage import view_costs
from eqsat.egraph.encoding import saturate
from eqsat.tensor.graph import TensorGraph
from eqsat.vela.compile import compile_graph
from eqsat.vela.facts import numbers, version
from extraction import extract
from tests.fake_oracle import by_vela
from tests.graphs import TARGETS
from tests.term import Term, graph, inputs, outputs

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
    cycles = [
        sum(r.cycles for r in compile_graph(g, model.target, model.pool).rows if r.operator != "Clamp") for g in graphs
    ]
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
    return sum(choices.graph.cost[n] for n in shapes) + sum(
        d for (n, m), d in choices.graph.pair_costs.items() if n in shapes and m in shapes
    )


@pytest.mark.parametrize("model", TARGETS, indirect=True)
def test_a_value_is_copied_for_every_shape_but_one(model: VelaGroups) -> None:
    for shapes in ((A,), (B,), (B, B), (A, B), (A, C), (B, C), (A, B, C)):
        choices = build(saturate(viewed(*shapes), []), model)
        found = extract(choices.graph)
        written, _ = choices.tensor_graph(found.choice)
        rows = [
            r.priced for r in by_vela(written, model.target, model.pool).estimate.rows if r.operator == "MemoryCopy"
        ]
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
