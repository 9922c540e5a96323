"""Proofs: what is equal and what is nearly so."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from eqsat.proof import PROVED, UNDECIDED, Prover, SignatureError, functions, prove
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tensor.ops.op import NotModelled, Op, same
from tests.graphs import add, clamp, conv, rescale, transpose

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


def weighted(g: TensorGraph, x: int, weights: np.ndarray, bias: int | Sequence[int] = 0, **more: object) -> int:
    """CONV2D of INT8 with these weights, as INT32."""
    w = g.add_const(weights, "INT8")
    b = g.add_const(np.broadcast_to(bias, weights.shape[0]), "INT32")
    return g.add_with("conv2d", (x, w, b), makers.conv("INT8", **more))


def depthwise(g: TensorGraph, x: int, weights: np.ndarray) -> int:
    w, b = g.add_const(weights, "INT8"), g.add_const(np.zeros(weights.shape[2] * weights.shape[3]), "INT32")
    return g.add_with("depthwise_conv2d", (x, w, b), makers.conv("INT8"))


IMAGE, ROW, WORDS = ((1, 4, 4, 4), "INT8"), ((1, 1, 6, 8), "INT8"), ((1, 4, 4, 4), "INT16")
MATRICES = ((2, 3, 4), "INT8"), ((2, 4, 5), "INT8")
RNG = np.random.default_rng(0)
W = RNG.integers(-90, 91, (4, 1, 1, 4))
PLANE = (1, 4, 4, 4)


# ---- what is equal -------------------------------------------------------------------------------


def twice_transposed(g: TensorGraph, xs: list[int]) -> int:
    return transpose(g, transpose(g, xs[0], 0, 2, 3, 1), 0, 3, 1, 2)


def copied_by_a_convolution(g: TensorGraph, xs: list[int]) -> int:
    return rescale(g, weighted(g, xs[0], np.eye(4, dtype=int)[:, None, None, ::-1]), "INT8")


def clamped_late(g: TensorGraph, xs: list[int]) -> int:
    return clamp(g, conv(g, xs[0], 3), -20, 127)


def clamped_twice(g: TensorGraph, xs: list[int]) -> int:
    return clamp(g, clamp(g, conv(g, xs[0], 3), -50, 127), -20, 127)


def pooled(kernel: int) -> Build:
    def build(g: TensorGraph, xs: list[int]) -> int:
        return g.add_with("max_pool2d", xs, makers.max_pool((kernel, kernel), pad=(kernel // 2,) * 4))

    return build


def pooled_twice(g: TensorGraph, xs: list[int]) -> int:
    return g.add_with("max_pool2d", [pooled(3)(g, xs)], makers.max_pool((3, 3), pad=(1,) * 4))


def table_before_pool(g: TensorGraph, xs: list[int]) -> int:
    return pooled(3)(g, [g.add_with("table", xs, makers.table([i // 3 for i in range(-128, 128)]))])


def table_behind_pool(g: TensorGraph, xs: list[int]) -> int:
    return g.add_with("table", [pooled(3)(g, xs)], makers.table([i // 3 for i in range(-128, 128)]))


def product(g: TensorGraph, xs: list[int]) -> int:
    return g.add_with("matmul", xs, makers.matmul(3, -2))


def product_of_transposes(g: TensorGraph, xs: list[int]) -> int:
    a, b = (transpose(g, x, 0, 2, 1) for x in xs)
    return transpose(g, g.add_with("matmul", (b, a), makers.matmul(-2, 3)), 0, 2, 1)


def sums_of_products(g: TensorGraph, xs: list[int]) -> int:
    a = g.add("reshape", [rescale(g, xs[0], "INT32", in_zp=3)], shape=(2, 3, 4, 1))
    b = g.add("reshape", [rescale(g, xs[1], "INT32", in_zp=-2)], shape=(2, 1, 4, 5))
    total = g.add("reduce_sum", [g.add("mul", (a, b), shift=(0,))], axis=2)
    return g.add("reshape", [total], shape=(2, 3, 5))


def with_zeros(multiplied: Build) -> Build:
    """A product of matrices of which one has a row that its zero point makes zeros."""

    def build(g: TensorGraph, xs: list[int]) -> int:
        rows = g.add("slice", [xs[0]], start=(0, 0, 0), size=(2, 2, 4))
        zeros = g.add_const(np.full((2, 1, 4), 3), "INT8")
        return rescale(g, multiplied(g, [g.add("concat", (rows, zeros), axis=1), xs[1]]), "INT8", shift=(38,))

    return build


def narrowed_products(g: TensorGraph, xs: list[int]) -> int:
    """Products of INT8 without a zero point fit INT16."""
    return rescale(g, rescale(g, g.add("mul", xs, shift=(0,)), "INT16"), "INT8", shift=(37,))


def products(g: TensorGraph, xs: list[int]) -> int:
    return rescale(g, g.add("mul", xs, shift=(0,)), "INT8", shift=(37,))


def swish(g: TensorGraph, xs: list[int]) -> int:
    """x * f(x), in two spellings that share no product."""
    x = rescale(g, xs[0], "INT32")
    y = rescale(g, g.add_with("table", xs, makers.table([i // 2 for i in range(-128, 128)])), "INT32")
    return rescale(g, g.add("mul", (x, y), shift=(0,)), "INT8", shift=(37,))


def swish_as_a_table(g: TensorGraph, xs: list[int]) -> int:
    values = [min(max((i * (i // 2) + 64) >> 7, -128), 127) for i in range(-128, 128)]
    return g.add_with("table", xs, makers.table(values))


def not_greater(g: TensorGraph, xs: list[int]) -> int:
    return g.add("logical_not", [g.add("greater", (xs[1], xs[0]))])


def greater_equal(g: TensorGraph, xs: list[int]) -> int:
    return g.add("greater_equal", xs)


def upsampled(g: TensorGraph, xs: list[int]) -> int:
    return g.add("resize", xs, scale=(2, 1, 2, 1), offset=(-1, -1), border=(0, 0), mode=1)


def tiled(g: TensorGraph, xs: list[int]) -> int:
    x = g.add("reshape", xs, shape=(4, 1, 4, 4))
    x = g.add("reshape", [g.add("tile", [x], multiples=(1, 2, 1, 1))], shape=(8, 4, 1, 4))
    return g.add("reshape", [g.add("tile", [x], multiples=(1, 1, 2, 1))], shape=(1, 8, 8, 4))


def averaged(g: TensorGraph, xs: list[int]) -> int:
    total = depthwise(g, xs[0], np.ones((2, 2, 4, 1), int))
    return rescale(g, total, "INT8", multiplier=((1 << 30) + 1,), shift=(32,))


def pool_of_averages(g: TensorGraph, xs: list[int]) -> int:
    return g.add_with("avg_pool2d", xs, makers.avg_pool((2, 2)))


def headroom(shift: int) -> Build:
    """Half of a sum, with so much room below the point."""

    def build(g: TensorGraph, xs: list[int]) -> int:
        total = g.add("add", [rescale(g, x, "INT32", shift=(shift,)) for x in xs])
        return rescale(g, total, "INT8", shift=(61 - shift,))

    return build


def bias_behind(g: TensorGraph, xs: list[int]) -> int:
    k = g.add_const(np.full((1, 1, 1, 4), 77), "INT32")
    return rescale(g, g.add("add", (weighted(g, xs[0], W), k)), "INT8", shift=(39,))


def bias_within(g: TensorGraph, xs: list[int]) -> int:
    return rescale(g, weighted(g, xs[0], W, 77), "INT8", shift=(39,))


INT32_PLANE = (PLANE, "INT32")
EQUAL = {
    "transposes that cancel": pair(
        lambda g, xs: xs[0], lambda g, xs: transpose(g, twice_transposed(g, xs), 0, 1, 2, 3), IMAGE
    ),
    "an order of channels as a convolution": pair(
        copied_by_a_convolution, lambda g, xs: g.add("reverse", xs, axis=3), IMAGE
    ),
    "clamps that join": pair(clamped_late, clamped_twice, IMAGE),
    "pools that join": pair(pooled(5), pooled_twice, IMAGE),
    "a rising table and a pool": pair(table_before_pool, table_behind_pool, IMAGE),
    "a product and that of its transposes": pair(product, product_of_transposes, *MATRICES),
    "a product as sums": pair(product, sums_of_products, *MATRICES),
    "a product with zeros as sums": pair(with_zeros(product), with_zeros(sums_of_products), *MATRICES),
    "products that fit INT16": pair(products, narrowed_products, IMAGE, IMAGE),
    "a product that is a function": pair(swish, swish_as_a_table, IMAGE),
    "comparisons": pair(not_greater, greater_equal, IMAGE, IMAGE),
    "nearest elements": pair(upsampled, tiled, IMAGE),
    "sums with another headroom": pair(headroom(12), headroom(20), IMAGE, IMAGE),
    "a bias behind its convolution": pair(bias_within, bias_behind, IMAGE),
    "an average as a convolution": pair(averaged, pool_of_averages, IMAGE),
}


@pytest.mark.parametrize("name", EQUAL)
def test_equal_graphs_are_proved(name: str) -> None:
    proof = prove(*EQUAL[name], seed=5)
    assert (proof.verdict, proof.undecided) == (PROVED, ())
    assert 0 < proof.error_bound < 2**-60


# ---- what is nearly equal ---------------------------------------------------------------------------


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
    a, b = pair(lambda g, xs: g.add("greater", xs), greater_equal, IMAGE, IMAGE)
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
