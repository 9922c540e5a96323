"""Inputs are drawn from what TOSA allows the operators that read them, whatever lies between."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS, evaluate_defined
from eqsat.tensor.samples import Domain, domains, require, samples
from eqsat.tensor.types import ANY, DTYPES, Allowed, DType, GraphError, Type, Unpredictable
from tests.term import Term, inputs, outputs

Pass = Callable[[Term], Term]


def itself(x: Term) -> Term:
    return x


def shifted(dtype: str, through: Pass = itself, amount: str = "INT32") -> TensorGraph:
    """A shift by an amount that goes through something first."""
    x, s = inputs(f"x:{dtype}[1,4,5] amount:{amount}[1,4,5]")
    return outputs(x.lsr(through(s)))


@pytest.mark.parametrize(("dtype", "bits"), [("INT8", 8), ("INT16", 16), ("INT32", 32)])
def test_an_amount_to_shift_by_is_below_the_bits(dtype: str, bits: int) -> None:
    drawn = [xs[1] for xs in samples(domains(shifted(dtype, amount=dtype)), 40)]
    assert {int(v) for x in drawn for v in x.flat} == set(range(bits))


def row(x: Term, *values: int) -> Term:
    return x.const([[values]])


@pytest.mark.parametrize(
    ("through", "dtype", "expected"),
    [
        (lambda x: x.reshape(4, 5).transpose(1, 0).reshape(1, 4, 5), "INT32", Allowed(0, 31)),
        (lambda x: x.cast("INT32"), "INT8", Allowed(0, 31)),
        (lambda x: x.rescale("INT32", shift=31, in_zp=-5), "INT8", Allowed(-6, 57)),
        (lambda x: x.rescale("INT32", shift=31), "INT32", Allowed(-1, 62)),
        (lambda x: row(x, 40, 45, 44, 43, 42) - x, "INT32", Allowed(14, 40)),
        (lambda x: x + row(x, *range(5)), "INT32", Allowed(0, 27)),
        (lambda x: x.clamp(0, 40).cast("INT32"), "INT8", Allowed(-128, 31)),
        (lambda x: x.clamp(0, 31).cast("INT32"), "INT8", ANY),
        (lambda x: x.reduce("sum", 1)("clz"), "INT32", ANY),
        (lambda x: x.equal(x)("select", x, x), "INT32", Allowed(0, 31)),
    ],
    ids=["moved", "cast", "rescale", "rescale of INT32", "sub", "add", "clamp", "clamped enough", "sum", "select"],
)
def test_what_is_asked_is_pulled_back(through: Pass, dtype: str, expected: Allowed) -> None:
    g = shifted("INT32", through, dtype)
    assert require(g).get(g.inputs[1], ANY) == expected


def test_a_table_has_holes() -> None:
    """Of 256 codes those whose entry is no amount are left out, also within the others."""
    (x,) = inputs("x:INT8[1,400]")
    g = outputs(x.lsl(x.table([abs(k) % 9 for k in range(-128, 128)])))
    found = require(g)[x.n]
    wanted = {k for k in range(-128, 128) if abs(k) % 9 < 8}
    assert set(range(found.low, found.high + 1)) - set(found.never) == wanted
    assert {int(v) for xs in samples(domains(g), 40) for v in xs[0].flat} == wanted


@pytest.mark.parametrize(
    ("dtype", "through", "zero"), [("INT32", itself, 0), ("INT8", lambda x: x.rescale("INT32", in_zp=7), 7)]
)
def test_nothing_is_divided_by_zero(dtype: str, through: Pass, zero: int) -> None:
    x, divisor = inputs(f"x:INT32[1,4,5] divisor:{dtype}[1,4,5]")
    drawn = [xs[1] for xs in samples(domains(outputs(x.div(through(divisor)))), 60)]
    assert all((x != zero).all() for x in drawn)
    assert any((x < zero).any() for x in drawn) and any((x > zero).any() for x in drawn)


def test_positions_that_are_computed_from_others() -> None:
    """Offsets added to an index, as for a flat table, and a largest one that is in place by itself."""
    x, i, scores = inputs("x:INT8[1,30,3] i:INT32[1,3] scores:INT8[1,30,2]")
    at, best = i + i.const([[0, 10, 20]]), scores.argmax(1)
    g = outputs(x("gather", at), x("gather", best))
    assert require(g) == {at.n: Allowed(0, 29), i.n: Allowed(0, 9), best.n: Allowed(0, 29)}


def test_the_lowest_number_by_minus_one_is_open() -> None:
    """The reference model gives a result; `tests/tensor/test_ops.py` has all else that it says to be open."""
    lowest, minus_one, t = np.array([-(1 << 31)], np.int32), np.array([-1], np.int32), Type((1,), "INT32")
    with pytest.raises(Unpredictable, match="intdiv gives"):
        evaluate_defined("intdiv", (), [lowest, minus_one], [t, t], t)


def test_the_op_table_says_whose_results_may_overflow() -> None:
    some = {"shift": (1,)}
    assert {op.name for op in OPS.values() if op.overflows(some)} == {
        *("add", "sub", "mul", "intdiv", "reduce_sum"),
        *("conv2d", "depthwise_conv2d", "transpose_conv2d", "matmul"),
    }


LOW, HIGH, EDGES, UNIFORM, PLANES, IMPULSES, GRADIENT = range(7)


@pytest.mark.parametrize("dtype", ["BOOL", "INT8", "INT16", "INT32"])
def test_samples_begin_with_the_extremes(dtype: str) -> None:
    low, high = DType.of(dtype).limits if dtype != "INT32" else (-(2**20), 2**20)
    drawn = [xs[0] for xs in samples([Domain(Type((4, 50), dtype))], 20)]
    assert all(
        x.dtype == DType.of(dtype).storage and x.shape == (4, 50) and low <= x.min() and x.max() <= high for x in drawn
    )
    assert (drawn[LOW] == low).all() and (drawn[HIGH] == high).all()
    again = [xs[0] for xs in samples([Domain(Type((4, 50), dtype))], 20)]
    assert all(np.array_equal(a, b) for a, b in zip(drawn, again, strict=True))


@pytest.mark.parametrize("shape", [(), (1,), (3, 1, 5)])
@pytest.mark.parametrize("dtype", [d.name for d in DTYPES.values() if not d.carried])
def test_every_dtype_and_rank_can_be_drawn(shape: tuple[int, ...], dtype: str) -> None:
    assert all(
        x.shape == shape and x.dtype == DType.of(dtype).storage for (x,) in samples([Domain(Type(shape, dtype))], 30)
    )


def test_what_numpy_cannot_hold_is_an_error() -> None:
    with pytest.raises(GraphError, match="BF16"):
        samples([Domain(Type((2,), "BF16"))], 1)


def test_edges_are_independent_of_each_other_in_each_input() -> None:
    """One input low where another is high: a dropped SELECT shows only there."""
    given = [Domain(Type((8, 8, 8), "INT8")), Domain(Type((8, 8, 8), "INT8"))]
    x, y = samples(given, 3)[EDGES]
    assert set(np.unique(x)) == set(np.unique(y)) == {-128, -127, 126, 127}
    assert len({(a, b) for a, b in zip(x.flat, y.flat, strict=True)}) == 4 * 4


def test_uniform_has_every_code_where_there_is_room() -> None:
    (x,) = samples([Domain(Type((16, 17), "INT8"))], 4)[UNIFORM]
    assert len(np.unique(x)) == 256


def test_planes_are_constant_but_along_one_axis() -> None:
    seen = set()
    for seed in range(9):
        (x,) = samples([Domain(Type((1, 6, 10, 7), "INT8"))], 5, seed)[PLANES]
        varies = [a for a in range(4) if (np.diff(x, axis=a) != 0).any()]
        assert len(varies) <= 1
        seen.update(varies)
    assert {1, 3} <= seen, "channels come first or last"


def test_impulses_stand_out_and_gradients_rise() -> None:
    given = [Domain(Type((10, 10), "INT8"))]
    drawn = samples(given, 9)
    values, counts = np.unique(drawn[IMPULSES][0], return_counts=True)
    assert 1 < len(values) <= 4 and counts.max() >= 97
    assert (drawn[GRADIENT][0].min(), drawn[GRADIENT][0].max()) == (-128, 127)


def test_positions_stay_within_what_they_point_into() -> None:
    x, i, j = inputs("x:INT8[2,8,3] i:INT32[4,2] j:INT32[2,5]")
    scattered = x.opaque("SCATTER", [Type((2, 8, 3), "INT8")], j, x("gather", j))
    g = outputs(x("gather", i.transpose(1, 0)), scattered)
    seen: tuple[set[int], set[int]] = set(), set()
    for _, i, j in samples(domains(g), 20):
        seen[0].update(i.flat)
        seen[1].update(j.flat)
        assert all(len(set(row)) == 5 for row in j), "SCATTER takes no position twice"
    assert seen[0] == seen[1] == set(range(8))
