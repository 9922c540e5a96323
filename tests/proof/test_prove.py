"""Proofs: what is equal and what is nearly so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest

from eqsat.proof import DIFFERENT, PROVED, UNDECIDED, Prover, SignatureError, extrema, functions, prove, values
from eqsat.proof.field import LANES, Field, words
from eqsat.proof.functions import IDENTITY, Functions
from eqsat.proof.values import Known, Value
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tensor.ops.op import NotModelled, Op, same
from eqsat.tensor.types import GraphError, Type
from eqsat.tosa.flatbuffer import dumps, loads
from tests.term import Term, graph

#: An operator whose record says nothing of integers, as that of a custom one may.
UNSAID = Op(
    name="tanh", kind="pointwise", operands=1, infer=same, integer=NotModelled("is for floats"), shown=(), tosa=True
)

Build = Callable[..., Term]
IMAGES, WORDS = "x:INT8[1,4,4,4] y:INT8[1,4,4,4] z:INT8[1,4,4,4]", "x:INT16[1,4,4,4]"
IMAGE, TWO = IMAGES.split()[0], " ".join(IMAGES.split()[:2])


def pair(inputs: str, one: Build, other: Build) -> tuple[TensorGraph, TensorGraph]:
    return graph(inputs, one), graph(inputs, other)


def wide(x: Term) -> Term:
    return x.rescale("INT32", 1 << 30, 8)


def test_a_sum_that_may_overflow_in_another_place_is_not_proved() -> None:
    """x + y - z stays within INT32, 3x + 3y - z - 2y - 2x does not."""

    def leaves(*xs: Term) -> Term:
        threes = [wide(x).mul(x.const(np.full((1, 4, 4, 4), 3), "INT32")) for x in xs[:2]]
        a, b, c = map(wide, xs)
        return threes[0] + threes[1] - c - (b + b) - (a + a)

    proof = prove(*pair(IMAGES, lambda x, y, z: wide(x) + wide(y) - wide(z), leaves), seed=5)
    assert proof.verdict != PROVED
    assert "overflow" in proof.undecided[0].reason


def test_undecided_names_the_operator_at_which_it_ended() -> None:
    a, b = pair(TWO, Term.plus, lambda x, y: x.plus(x).transpose(0, 1, 2, 3))
    proof = prove(a, b, seed=5, search=False)
    assert (proof.verdict, proof.outputs, proof.counterexample) == ("undecided", (0,), None)
    assert [place.operator for place in proof.undecided] == ["rescale[INT32] [1, 4, 4, 4] (node 3)"]


def test_a_proof_for_which_there_is_no_time_is_undecided() -> None:
    a, b = pair(IMAGE, lambda x: x.clamp(0, 9), lambda x: x.clamp(0, 9))
    proof = Prover(a, seconds=-1.0).prove(b)
    assert (proof.verdict, proof.counterexample) == ("undecided", None)
    assert proof.undecided[0].reason == "the time for a proof ended there" and "(node " in proof.undecided[0].operator
    assert Prover(a).prove(b).verdict == PROVED


def test_what_there_is_no_form_for_is_undecided() -> None:
    outside = graph(IMAGE, lambda x: x.average(2, 2, pad=(2, 0, 0, 0)))
    proof = prove(outside, outside, seed=5)
    assert proof.verdict == "undecided"
    assert proof.undecided[0].operator == "avg_pool2d[2,2] [1, 5, 3, 4] (node 1): a window that lies outside"


def test_graphs_of_other_types_are_refused() -> None:
    with pytest.raises(SignatureError, match=r"the inputs differ: INT8 \[1, 4, 4, 4\] against INT16 \[1, 4, 4, 4\]"):
        prove(graph(IMAGE, lambda x: x), graph(WORDS, lambda x: x))


# ---- limits of memory ------------------------------------------------------------------------------


def moved_words(late: bool) -> TensorGraph:
    """INT16 values, to each of which another constant is added, rescaled and moved."""

    def build(x: Term) -> Term:
        order, constants = (0, 2, 3, 1), x.const(np.arange(64).reshape(x.shape) * 31 - 900, "INT32")
        x, k = (x, constants) if late else (x.transpose(*order), constants.transpose(*order))
        total = (x.rescale("INT32") + k).rescale("INT16", 1717986918, 31)
        return total.transpose(*order) if late else total

    return graph(WORDS, build)


def test_many_functions_of_int16_take_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = []
    for most in (1 << 24, 1 << 17):
        monkeypatch.setattr(functions, "_MOST_AT_ONCE", most)
        prover = Prover(moved_words(True), seed=5)
        assert prover.prove(moved_words(False)).verdict == PROVED
        (side,) = prover._sources.values()
        kept.append(functions._MOST_PIECES - side.terms.functions._room)
    assert kept[0] > 1 << 17 and kept[1] == 0


def test_without_room_for_its_functions_a_graph_is_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "_MOST_PIECES", 1 << 18)
    proof = prove(moved_words(True), moved_words(False), seed=5, search=False)
    assert proof.verdict == UNDECIDED and "more pieces of functions than are kept" in str(proof.undecided[0])


def test_an_operator_without_a_meaning_on_integers_is_an_unknown_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPS, UNSAID.name, UNSAID)
    plain, moved = pair("x:INT8[2,3]", lambda x: x("tanh"), lambda x: x.transpose(1, 0)("tanh").transpose(1, 0))
    assert prove(plain, plain).verdict == PROVED
    assert prove(plain, moved, search=False).verdict == UNDECIDED


def test_an_unknown_operator_may_be_undefined_where_nothing_else_is() -> None:
    """MUL by a shift that the graph computes: TOSA leaves shifts above 63 and products beyond INT32 open."""

    def with_product(x: Term, shift: Term, factor: int) -> Term:
        form = {"tosa": "MUL", "fields": (), "shape_operands": (None, None), "results": (Type((2,), "INT32"),)}
        return x + x("opaque", shift, shape=(2,), dtype="INT32", **form) * factor

    inputs = "x:INT32[2] shift:INT8[1]"
    dead, read = (graph(inputs, partial(with_product, factor=k)) for k in (0, 1))
    plain = graph(inputs, lambda x, shift: x)
    assert prove(plain, dead, seed=5, search=False).verdict == UNDECIDED
    assert prove(dead, plain, seed=5).verdict == PROVED
    assert prove(dead, dead, seed=5).verdict == prove(read, read, seed=5).verdict == PROVED


def test_operators_on_tensors_without_axes_are_proved() -> None:
    def number(dtype: str, narrow: Callable[[Term], Term]) -> TensorGraph:
        g = TensorGraph()
        g.outputs = [narrow(Term(g, g.add_input("x", (), dtype))).n]
        return g

    one, other = (number("INT8", lambda x, s=s: x.rescale("INT8", 1 << s, s + 1, in_zp=3)) for s in (30, 29))
    assert prove(one, other, seed=5).verdict == PROVED
    wrong = number("INT8", lambda x: x.rescale("INT8", 1 << 30, 31, in_zp=2))
    assert prove(one, wrong, seed=5, search=False).verdict == UNDECIDED


def test_a_cast_to_floats_is_an_unknown_function_of_integers() -> None:
    one, other = pair("x:INT32[2] y:INT32[2]", lambda x, y: (x + y).cast("FP32"), lambda x, y: (y + x).cast("FP32"))
    assert prove(one, other, seed=5).verdict == PROVED
    assert prove(one, graph("x:INT32[2] y:INT32[2]", lambda x, y: x.cast("FP32")), seed=5).verdict == UNDECIDED


def test_equal_floats_of_other_bits_are_not_proved() -> None:
    """1 / x tells 0.0 from -0.0."""

    def padded(*values: float) -> TensorGraph:
        results = (Type((4,), "FP32"),)
        form = {"tosa": "PAD", "fields": (), "shape_operands": (None, (1, 1), None), "results": results}
        terms = [lambda x, v=v: x("opaque", x.const([v], "FP32"), shape=(4,), dtype="FP32", **form) for v in values]
        return loads(dumps(graph("x:FP32[2]", lambda x: terms[0](x).concat(*(t(x) for t in terms[1:])))))

    for one, other in ((0.0, -0.0), (float("nan"), 0.0)):
        assert prove(padded(one), padded(one), seed=5).verdict == PROVED
        assert prove(padded(one), padded(other), seed=5, search=False).verdict == UNDECIDED
        assert prove(padded(one, other), padded(other, one), seed=5, search=False).verdict == UNDECIDED
        assert prove(padded(one, other), loads(dumps(padded(one, other))), seed=5).verdict == PROVED
    assert "pad" in padded(0.0).op_counts()
    with pytest.raises(GraphError, match="same bits"):
        graph("x:FP32[2]", lambda x: x.pad((1, 1), -0.0))


def test_equal_graphs_whose_floats_are_no_numbers_are_not_different() -> None:
    """GATHER is an unknown function of floats, so neither is proved."""

    def gathered(values: Sequence[float], at_once: bool) -> TensorGraph:
        def made(i: Term) -> Term:
            of = i.const(np.reshape(values, (1, 3, 1)), "FP32")
            return of("gather", i) if at_once else of("gather", i.rows(0)).concat(of("gather", i.rows(1)), axis=1)

        return graph("i:INT32[1,2]", made)

    one, other = [1.0, float("nan"), 2.0], [1.0, 0.0, 2.0]
    assert prove(gathered(one, True), gathered(one, False), seed=5).verdict == UNDECIDED
    assert prove(gathered(one, True), gathered(other, False), seed=5).verdict == DIFFERENT


def test_a_convolution_with_weights_that_vary_requires_that_its_sums_fit() -> None:
    """Both give 0; with the larger bias the sum may overflow. There are no clues for a counterexample."""

    def convolved(x: Term, w: Term, bias: int) -> Term:
        return x.made("conv2d", makers.conv("INT8"), w, x.const([bias], "INT32")).rescale("INT8", 0, 40)

    small, large = (
        graph("x:INT8[1,1,1,4] w:INT8[1,1,1,4]", partial(convolved, bias=bias)) for bias in (5, (1 << 31) - 1)
    )
    assert prove(small, large, seed=5).verdict == prove(large, small, seed=5).verdict == "undecided"
    assert prove(small, small, seed=5).verdict == PROVED


# ---- maxima that are broadcast, and values of which two operators know different limits ---------------


def pools(kernels: Sequence[int]) -> TensorGraph:
    """MAX_POOLs one after the other that keep the size; all results are outputs."""

    def made(x: Term) -> tuple[Term, ...]:
        found = [x]
        for k in kernels:
            found.append(found[-1].largest(k, k, pad=(k // 2,) * 4))
        return tuple(found[1:])

    return graph("x:INT8[1,10,10,1]", made)


def test_maxima_of_maxima_have_each_place_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pooling of a YOLO: 5 x 5 three times would be 15,625 members, of which 169 differ."""
    made = []
    original = Value.distinct

    def distinct(v: Value) -> Value:
        made.append(original(v))
        return made[-1]

    monkeypatch.setattr(Value, "distinct", distinct)
    monkeypatch.setattr(extrema, "_LARGEST_SETS", 25 * 81 * 100)
    g = pools([5, 5, 5])
    g.outputs, g.output_names = g.outputs[-1:], g.output_names[-1:]
    once = pools([13])
    assert prove(g, once, seed=1).verdict == PROVED
    assert [v.members for v in made] == [81] * 1


def test_sets_that_become_too_large_are_roots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extrema, "_LARGEST_SETS", 1 << 12)
    monkeypatch.setattr(values, "_AT_ONCE", 1 << 10)
    assert prove(pools([3, 3, 3]), pools([3, 3, 3]), seed=1).verdict == PROVED
    assert prove(pools([3, 5]), pools([3, 3]), seed=1).verdict != PROVED


def test_equal_roots_with_two_intervals_are_noticed() -> None:
    lanes = Field(1).constants([5, 7])
    halves = tuple(w.astype(np.uint64) for w in (lanes[0], lanes[1]))
    twice = [(halves[0], halves[1], np.array(functions)) for functions in ([1, 2], [1, 3])]
    assert not Known(twice[:1]).is_ambiguous and Known(twice).is_ambiguous


@pytest.mark.parametrize("number", [1, 2, 3, 100, 20_000])
def test_roots_are_found_also_among_many_small_constants(number: int) -> None:
    """Their words are not random, so that one bucket has them all."""
    rng = np.random.default_rng(number)
    known, other = (rng.integers(0, 1 << 31, (LANES, number)) for _ in range(2))
    known[1:, ::3], known[0, ::3] = 0, np.arange(len(known[0, ::3]))
    found, functions = Known([(*words(known), np.arange(number))]).find(np.concatenate([other, known], 1))
    assert not found[:number].any() and found[number:].all() and functions.tolist() == list(range(number))


def test_several_functions_have_the_numbers_that_each_has_alone() -> None:
    one, several = Functions(), Functions()
    rows = [
        (0, 5, IDENTITY, 2, 1, 1, 11),
        (0, 5, IDENTITY, 0, 7, 7, 7),
        (0, 5, IDENTITY, 2, 1, 1, 11),
        (3, 4, 0, 1, 0, 3, 4),
    ]
    alone = [one._number(*row[:5], row[5:]) for row in [*rows, *rows]]
    columns = [np.array(c) for c in zip(*rows, strict=True)]
    assert [*several._number_several(*columns), *several._number_several(*columns)] == alone == [0, 1, 0, 2] * 2
    assert all((one.column(c) == several.column(c)).all() for c in ("first", "last", "g", "a", "b", "low", "high"))
