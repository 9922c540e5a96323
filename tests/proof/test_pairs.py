"""Functions of two small values, and functions of what is chosen: equal in other terms, nearly equal, and what their
points are."""

from __future__ import annotations

import numpy as np
import pytest

from eqsat.proof import PROVED, prove
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.samples import domains, samples
from tests.graphs import clamp, conv, rescale
from tests.proof.test_prove import IMAGE, PLANE, Build, graph, pair

BOOLS, COLUMNS, PLACES = (PLANE, "BOOL"), ((1, 5, 4), "INT8"), ((1, 3), "INT32")


def wide(g: TensorGraph, xs: list[int], **more: int) -> list[int]:
    return [rescale(g, x, "INT32", **more) for x in xs]


def headroom(shift: int, rest: int, multiplier: int = 0x4A3B2C1D) -> Build:
    """A sum of which one operand is scaled, with more or less room below the point."""

    def build(g: TensorGraph, xs: list[int]) -> int:
        one = rescale(g, xs[0], "INT32", shift=(shift,))
        other = rescale(g, xs[1], "INT32", multiplier=(multiplier,), shift=(shift,))
        return rescale(g, g.add("add", (one, other)), "INT8", shift=(rest,))

    return build


def of_convolutions(build: Build) -> Build:
    return lambda g, xs: build(g, [conv(g, x, 4, seed=k) for k, x in enumerate(xs)])


def gated(shift: int) -> Build:
    """x * sigmoid(y), the second factor with some more bits."""

    def build(g: TensorGraph, xs: list[int]) -> int:
        table = makers.table([int(127 / (1 + np.exp(-i / 30))) for i in range(-128, 128)])
        y = rescale(g, g.add_with("table", [xs[1]], table), "INT32", shift=(30 - shift,))
        return rescale(g, g.add("mul", (rescale(g, xs[0], "INT32"), y), shift=(0,)), "INT8", shift=(37 + shift,))

    return build


def selected(g: TensorGraph, xs: list[int]) -> int:
    return g.add("select", (g.add("greater", xs), *xs))


def maximum(g: TensorGraph, xs: list[int]) -> int:
    return g.add_with("maximum", xs, makers.extremum())


def above_the_other(g: TensorGraph, xs: list[int]) -> int:
    """The one, and by how much the other is larger."""
    more = clamp(g, g.add("sub", wide(g, xs)), 0, 1 << 20)
    return rescale(g, g.add("add", (rescale(g, xs[1], "INT32"), more)), "INT8")


def unlike(g: TensorGraph, xs: list[int]) -> int:
    return g.add("logical_xor", xs)


def one_and_not_the_other(g: TensorGraph, xs: list[int]) -> int:
    x, y = (g.add("logical_not", [v]) for v in xs)
    return g.add("logical_or", (g.add("logical_and", (xs[0], y)), g.add("logical_and", (x, xs[1]))))


def summed(g: TensorGraph, xs: list[int], order: tuple[int, int, int]) -> int:
    """Three summands in an order, behind the maximum of two as a sum: a table among polynomials."""
    a, b, c = (wide(g, [above_the_other(g, xs[:2]), xs[2], xs[3]])[k] for k in order)
    return g.add("add", (g.add("add", (a, b)), c))


def chosen(late: bool) -> Build:
    def build(g: TensorGraph, xs: list[int]) -> int:
        if late:
            return clamp(g, g.add("select", (xs[2], *xs[:2])), -20, 30)
        return g.add("select", (xs[2], *(clamp(g, x, -20, 30) for x in xs[:2])))

    return build


def taken(late: bool) -> Build:
    def build(g: TensorGraph, xs: list[int]) -> int:
        if late:
            return clamp(g, g.add("gather", xs), -3, 9)
        return g.add("gather", (clamp(g, xs[0], -3, 9), xs[1]))

    return build


def first_largest(offset: int) -> Build:
    return lambda g, xs: g.add("argmax", [rescale(g, xs[0], "INT16", in_zp=offset)], axis=3, nan_mode=1)


def halved(limited: bool) -> Build:
    def build(g: TensorGraph, xs: list[int]) -> int:
        x = clamp(g, xs[0], -70000, 70000) if limited else xs[0]
        return rescale(g, x, "INT16", shift=(31,))

    return build


FOUR = [IMAGE] * 4
EQUAL = {
    "sums with another headroom": pair(headroom(10, 51), headroom(12, 49), IMAGE, IMAGE),
    "such sums of convolutions": pair(
        of_convolutions(headroom(10, 51)), of_convolutions(headroom(12, 49)), IMAGE, IMAGE
    ),
    "a gate with more bits": pair(gated(0), gated(4), IMAGE, IMAGE),
    "the larger one": pair(selected, maximum, IMAGE, IMAGE),
    "a maximum as a sum": pair(above_the_other, maximum, IMAGE, IMAGE),
    "exclusive or": pair(unlike, one_and_not_the_other, BOOLS, BOOLS),
    "a table in a sum": pair(
        lambda g, xs: summed(g, xs, (0, 1, 2)),
        lambda g, xs: g.add("add", (g.add("add", wide(g, xs[2:])), rescale(g, maximum(g, xs[:2]), "INT32"))),
        *FOUR,
    ),
    "a function of what is selected": pair(chosen(False), chosen(True), IMAGE, IMAGE, BOOLS),
    "a function of what is taken": pair(taken(False), taken(True), COLUMNS, PLACES),
    "the largest of what is moved": pair(first_largest(0), first_largest(5), IMAGE),
    "a clip in front of a scale": pair(halved(False), halved(True), (PLANE, "INT32")),
}


@pytest.mark.parametrize("name", EQUAL)
def test_equal_graphs_are_proved(name: str) -> None:
    a, b = EQUAL[name]
    proof = prove(a, b, seed=5)
    assert (proof.verdict, proof.undecided) == (PROVED, ()) and 0 < proof.error_bound < 2**-60
    for inputs in samples(domains(a), 6):
        assert np.array_equal(a.evaluate(inputs)[0], b.evaluate(inputs)[0])


def selected_strictly(g: TensorGraph, xs: list[int]) -> int:
    c = g.add("greater", (rescale(g, xs[0], "INT32"), rescale(g, xs[1], "INT32", in_zp=1)))
    return g.add("select", (c, xs[0], clamp(g, xs[1], -128, 126)))


NEARLY = {
    "sums with another headroom": pair(headroom(10, 51), headroom(12, 49, 0x4A3B2C1D + (1 << 20)), IMAGE, IMAGE),
    "the larger one, but for one pair": pair(selected, selected_strictly, IMAGE, IMAGE),
    "one operand for the other": pair(gated(0), lambda g, xs: gated(0)(g, xs[::-1]), IMAGE, IMAGE),
    "sums of other convolutions": pair(
        of_convolutions(headroom(10, 51)), lambda g, xs: of_convolutions(headroom(10, 51))(g, xs[::-1]), IMAGE, IMAGE
    ),
    "of different functions": pair(
        chosen(True),
        lambda g, xs: g.add("select", (xs[2], clamp(g, xs[0], -20, 30), clamp(g, xs[1], -20, 31))),
        IMAGE,
        IMAGE,
        BOOLS,
    ),
    "the largest of what is turned": pair(
        first_largest(0),
        lambda g, xs: g.add("argmax", [g.add("bitwise_not", xs)], axis=3, nan_mode=1),
        IMAGE,
    ),
}


@pytest.mark.parametrize("name", NEARLY)
def test_nearly_equal_graphs_are_not_proved(name: str) -> None:
    a, b = NEARLY[name]
    assert prove(a, b, seed=5).verdict != PROVED
    assert any(not np.array_equal(a.evaluate(x)[0], b.evaluate(x)[0]) for x in samples(domains(a), 30))


ALL_PAIRS = [np.repeat(np.arange(-128, 128), 256).astype(np.int8), np.tile(np.arange(-128, 128), 256).astype(np.int8)]


def expression(g: TensorGraph, xs: list[int], rng: np.random.Generator, change: int) -> int:
    """A random function of two values, and of what is between; change: to one of its constants."""
    values = list(xs)
    for step in range(4):
        x, y = (values[k] for k in rng.integers(len(values), size=2))
        multiplier, shift = int(rng.integers(1 << 29, 1 << 30)), int(rng.integers(12, 20))
        low, kind = (
            int(rng.integers(-128, 0)),
            rng.choice(["add", "sub", "mul", "maximum", "minimum", "select", "clamp"]),
        )
        by = change if step == 2 else 0
        if kind == "clamp":
            y = clamp(g, x, low + by, 90)
        elif kind == "select":
            y = g.add("select", (g.add("greater", (x, y)), x, clamp(g, y, low + by, 127)))
        elif kind in ("maximum", "minimum"):
            y = g.add_with(str(kind), (x, clamp(g, y, low + by, 127)), makers.extremum())
        elif kind == "mul":
            both = (rescale(g, x, "INT32", in_zp=by), rescale(g, y, "INT32"))
            y = rescale(g, g.add_with("mul", both, makers.mul()), "INT8", shift=(37,))
        else:
            both = (
                rescale(g, x, "INT32", shift=(shift,)),
                rescale(g, y, "INT32", multiplier=(multiplier + (by << 9),), shift=(shift,)),
            )
            y = rescale(g, g.add(str(kind), both), "INT8", shift=(61 - shift,))
        values.append(y)
    return values[-1]


def test_what_is_proved_is_equal_for_all_pairs() -> None:
    """Random functions of two values, a constant changed: what is equal on all pairs is proved, and nothing else."""
    counts = {True: 0, False: 0}
    for seed in range(60):
        proved = prove(*changed(seed, 2), seed=seed, search=False).verdict == PROVED
        counts[proved] += 1
        x, y = (g.evaluate(ALL_PAIRS)[0] for g in changed(seed, len(ALL_PAIRS[0])))
        assert proved == np.array_equal(x, y), seed
    assert counts[True] > 20 and counts[False] > 5


def changed(seed: int, elements: int) -> list[TensorGraph]:
    """A random function of two inputs, and the same with a constant by one more, one less, or not changed."""

    def build(change: int) -> Build:
        return lambda g, xs: expression(g, xs, np.random.default_rng(seed), change)

    return [graph(build(change), *[((elements,), "INT8")] * 2) for change in (0, seed % 3 - 1)]
