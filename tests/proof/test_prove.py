"""Proofs: what is equal and what is nearly so."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from eqsat.proof import PROVED, UNDECIDED, Prover, SignatureError, functions, prove
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tensor.ops.op import NotModelled, Op, same
from tests.graphs import add, clamp, rescale, transpose

#: An operator whose record says nothing of integers, as that of a custom one may.
UNSAID = Op(
    name="tanh",
    kind="pointwise",
    operands=1,
    infer=same,
    integer=NotModelled("is for floats"),
    shown=(),
    tosa=True,
)

Build = Callable[[TensorGraph, list[int]], int]


def graph(build: Build, *inputs: tuple[tuple[int, ...], str]) -> TensorGraph:
    g = TensorGraph()
    xs = [g.add_input(f"x{k}", shape, dtype) for k, (shape, dtype) in enumerate(inputs)]
    g.outputs.append(build(g, xs))
    return g


def pair(one: Build, other: Build, *inputs: tuple[tuple[int, ...], str]) -> tuple[TensorGraph, TensorGraph]:
    return graph(one, *inputs), graph(other, *inputs)


IMAGE, WORDS = ((1, 4, 4, 4), "INT8"), ((1, 4, 4, 4), "INT16")
PLANE = (1, 4, 4, 4)


INT32_PLANE = (PLANE, "INT32")


def order(*places: int) -> Build:
    """Sums of INT32 in an order."""

    def build(g: TensorGraph, xs: list[int]) -> int:
        total = xs[places[0]]
        for k in places[1:]:
            total = g.add("add", (total, xs[k]))
        return total

    return build


def wide(g: TensorGraph, x: int) -> int:
    return rescale(g, x, "INT32", shift=(8,))


def constant(g: TensorGraph, value: int) -> int:
    return g.add_const(np.full((1, 1, 1, 1), value), "INT32")


def test_a_sum_that_may_overflow_in_another_place_is_not_proved() -> None:
    """x - y + z stays within INT32, x + z - y does not."""

    def stays(g: TensorGraph, xs: list[int]) -> int:
        a, b, c = (wide(g, x) for x in xs)
        return g.add("sub", (g.add("add", (a, b)), c))

    def leaves(g: TensorGraph, xs: list[int]) -> int:
        large = [g.add("mul", (wide(g, x), g.add_const(np.full(PLANE, 3), "INT32")), shift=(0,)) for x in xs[:2]]
        a, b, c = (wide(g, x) for x in xs)
        twice = [g.add("add", (b, b)), g.add("add", (a, a))]
        total = g.add("sub", (g.add("add", large), c))
        return g.add("sub", (g.add("sub", (total, twice[0])), twice[1]))

    proof = prove(*pair(stays, leaves, IMAGE, IMAGE, IMAGE), seed=5)
    assert proof.verdict != PROVED
    assert "overflow" in proof.undecided[0].reason


def test_a_sum_that_may_overflow_in_both_graphs_alike_is_proved() -> None:
    a, b = pair(order(0, 1, 2), lambda g, xs: g.add("add", (xs[2], g.add("add", (xs[1], xs[0])))), *[INT32_PLANE] * 3)
    assert prove(a, b, seed=5).verdict == PROVED
    assert prove(a, graph(order(1, 2, 0), *[INT32_PLANE] * 3), seed=5).verdict != PROVED


def test_undecided_names_the_operator_at_which_it_ended() -> None:
    a, b = pair(
        lambda g, xs: add(g, xs[0], xs[1]), lambda g, xs: transpose(g, add(g, xs[0], xs[0]), 0, 1, 2, 3), IMAGE, IMAGE
    )
    proof = prove(a, b, seed=5, search=False)
    assert (proof.verdict, proof.outputs, proof.counterexample) == ("undecided", (0,), None)
    assert [place.operator for place in proof.undecided] == ["rescale[INT32] [1, 4, 4, 4] (node 3)"]


def test_a_counterexample_was_run_on_both() -> None:
    a, b = pair(lambda g, xs: g.add("greater", xs), lambda g, xs: g.add("greater_equal", xs), IMAGE, IMAGE)
    witness = prove(a, b, seed=5).counterexample
    assert witness is not None
    expected, found = (g.evaluate(witness.inputs)[witness.output][witness.index] for g in (a, b))
    assert (expected, found) == (witness.expected, witness.found) and expected != found


def test_a_proof_for_which_there_is_no_time_is_undecided() -> None:
    a, b = pair(lambda g, xs: clamp(g, xs[0], 0, 9), lambda g, xs: clamp(g, xs[0], 0, 9), IMAGE)
    proof = Prover(a, seconds=-1.0).prove(b)
    assert (proof.verdict, proof.counterexample) == ("undecided", None)
    assert proof.undecided[0].reason == "the time for a proof ended there" and "(node " in proof.undecided[0].operator
    assert Prover(a).prove(b).verdict == PROVED


def test_what_there_is_no_form_for_is_undecided() -> None:
    def outside(g: TensorGraph, xs: list[int]) -> int:
        return g.add_with("avg_pool2d", xs, makers.avg_pool((2, 2), pad=(2, 0, 0, 0)))

    proof = prove(*pair(outside, outside, IMAGE), seed=5)
    assert proof.verdict == "undecided"
    assert proof.undecided[0].operator == "avg_pool2d[2,2] [1, 5, 3, 4] (node 1): a window that lies outside"


def test_graphs_of_other_types_are_refused() -> None:
    with pytest.raises(SignatureError, match=r"the inputs differ: INT8 \[1, 4, 4, 4\] against INT16 \[1, 4, 4, 4\]"):
        prove(graph(lambda g, xs: xs[0], IMAGE), graph(lambda g, xs: xs[0], WORDS))


# ---- limits of memory ------------------------------------------------------------------------------


def moved_words(late: bool) -> Build:
    """INT16 values, to each of which another constant is added, rescaled and moved."""

    def build(g: TensorGraph, xs: list[int]) -> int:
        constants = g.add_const(np.arange(64).reshape(PLANE) * 31 - 900, "INT32")
        order = (0, 2, 3, 1)
        x, k = (xs[0], constants) if late else (transpose(g, n, *order) for n in (xs[0], constants))
        wide = g.add("add", (rescale(g, x, "INT32"), k))
        total = rescale(g, wide, "INT16", multiplier=(1717986918,), shift=(31,))
        return transpose(g, total, *order) if late else total

    return build


def test_many_functions_of_int16_take_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = pair(moved_words(True), moved_words(False), WORDS)
    kept = []
    for most in (1 << 24, 1 << 17):
        monkeypatch.setattr(functions, "_MOST_AT_ONCE", most)
        prover = Prover(graphs[0], seed=5)
        assert prover.prove(graphs[1]).verdict == PROVED
        (side,) = prover._sources.values()
        kept.append(functions._MOST_PIECES - side.terms.functions._room)
    assert kept[0] > 1 << 17 and kept[1] == 0


def test_without_room_for_its_functions_a_graph_is_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "_MOST_PIECES", 1 << 18)
    proof = prove(*pair(moved_words(True), moved_words(False), WORDS), seed=5, search=False)
    assert proof.verdict == UNDECIDED and "more pieces of functions than are kept" in str(proof.undecided[0])


def test_an_operator_without_a_meaning_on_integers_is_an_unknown_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPS, UNSAID.name, UNSAID)
    plain = graph(lambda g, xs: g.add("tanh", (xs[0],)), ((2, 3), "INT8"))
    moved = graph(
        lambda g, xs: transpose(g, g.add("tanh", (transpose(g, xs[0], 1, 0),)), 1, 0),
        ((2, 3), "INT8"),
    )
    assert prove(plain, plain).verdict == PROVED
    assert prove(plain, moved, search=False).verdict == UNDECIDED


def test_a_convolution_with_weights_that_vary_requires_that_its_sums_fit() -> None:
    """Both give 0; with the larger bias the sum may overflow. There are no clues for a counterexample."""

    def convolved(bias: int) -> Build:
        def build(g: TensorGraph, xs: list[int]) -> int:
            b = g.add_const(np.array([bias]), "INT32")
            return rescale(g, g.add_with("conv2d", [*xs, b], makers.conv("INT8")), "INT8", multiplier=(0,), shift=(40,))

        return build

    pixel = ((1, 1, 1, 4), "INT8")
    small, large = (graph(convolved(bias), pixel, pixel) for bias in (5, (1 << 31) - 1))
    assert prove(small, large, seed=5).verdict == prove(large, small, seed=5).verdict == "undecided"
    assert prove(small, small, seed=5).verdict == PROVED
