"""Rescale, clamp, table: chains become one op exactly, and what is no function of one INT8 value stays."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from eqsat.proof import prove
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops.rescale import DOUBLE_ROUND
from tests.rules.checks import check, clamp, fires, only, ops_of_output, rescale, shapes, table
from tests.sweeps import examples

SCALES = st.tuples(st.integers(1 << 30, (1 << 31) - 1), st.integers(28, 36))
POINTS = st.integers(-128, 127)


def scalar(g: TensorGraph, like: int, value: int, dtype: str = "INT32") -> int:
    return g.add_const(np.full((1,) * len(g.nodes[like].shape), value), dtype)


def op_of(frozen, node: int, source: int) -> set[str]:
    """Operators that compute `node` from `source` alone."""
    return {e.op for e in frozen.classes[frozen.handle[node]] if e.children == (frozen.handle[source],)}


# ---- chains of one INT8 value -------------------------------------------------------------------


def narrow_step(draw, g: TensorGraph, x: int) -> int:
    kind = draw(st.sampled_from(["clamp", "table", "rescale", "maximum", "negate"]))
    if kind == "clamp":
        return clamp(g, x, *sorted((draw(POINTS), draw(POINTS))))
    if kind == "table":
        return table(g, x, draw(st.integers(0, 9)))
    if kind == "rescale":
        return rescale(g, x, "INT8", *draw(SCALES), draw(POINTS), draw(POINTS))
    if kind == "maximum":
        k = scalar(g, x, draw(POINTS), "INT8")
        return g.add("maximum", (x, k) if draw(st.booleans()) else (k, x), nan_mode=1)
    return g.add("negate", (x,), in_zp=(draw(POINTS),), out_zp=(draw(POINTS),))


def wide_step(draw, g: TensorGraph, x: int) -> int:
    """Through INT32: RESCALE, an op with a constant or with another function of x, RESCALE back."""
    wide = rescale(g, x, "INT32", 1 << 30, 30, draw(POINTS))
    other = draw(st.sampled_from(["constant", "small constant", "itself", "table"]))
    if other == "constant":
        k = scalar(g, x, draw(st.integers(-1000, 1000)))
    elif other == "small constant":  # as ExecuTorch leaves it: an INT8 constant, rescaled
        k = rescale(g, scalar(g, x, draw(POINTS), "INT8"), "INT32", 1 << 30, 28, 5)
    else:
        k = wide if other == "itself" else rescale(g, table(g, x, 3), "INT32", 1 << 30, 29, 1)
    op = draw(st.sampled_from(["mul", "add", "sub"]))
    pair = (wide, k) if draw(st.booleans()) else (k, wide)
    out = g.add(op, pair, shift=(0,)) if op == "mul" else g.add(op, pair)
    return rescale(g, out, "INT8", *draw(SCALES), 0, draw(POINTS))


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None)
@given(st.data())
def test_any_chain_from_int8_to_int8_is_one_op(data):
    g = TensorGraph()
    x = g.add_input("x", data.draw(shapes), "INT8")
    out = x
    for step in data.draw(st.lists(st.sampled_from([narrow_step, wide_step]), min_size=2, max_size=4)):
        out = step(data.draw, g, out)
    g.outputs = [out]
    frozen = check(g, only("curve-table", "curve-identity"))
    assert op_of(frozen, out, x) & {"table", "clamp"} or frozen.handle[out] == frozen.handle[x]


def test_every_value_of_a_chain_is_right():
    """All 256 values, not a sample: RESCALE, MUL by a constant, RESCALE, CLAMP."""
    g = TensorGraph()
    x = g.add_input("x", (256,), "INT8")
    product = g.add("mul", (rescale(g, x, "INT32", in_zp=-7), scalar(g, x, 93)), shift=(0,))
    g.outputs = [clamp(g, rescale(g, product, "INT8", 1518500250, 37, 0, 4), -128, 99)]
    frozen = check(g, only("curve-table"))
    (e,) = (e for e in frozen.classes[frozen.handle[g.outputs[0]]] if e.op == "table")
    points = np.arange(-128, 128, dtype=np.int8)
    assert np.array_equal(g.evaluate([points])[0], dict(e.attrs)["table"])


def test_silu_is_one_table():
    """x * sigmoid(x): both operands are functions of one x."""
    g = TensorGraph()
    x = g.add_input("x", (1, 4, 4, 8), "INT8")
    gate = table(g, x, 1)
    g.outputs = [
        rescale(
            g,
            g.add("mul", (rescale(g, x, "INT32", in_zp=3), rescale(g, gate, "INT32", in_zp=-128)), shift=(0,)),
            "INT8",
            1 << 30,
            36,
            0,
            -9,
        )
    ]
    assert "table" in op_of(check(g), g.outputs[0], x)


def test_saturation_ends_where_a_class_holds_functions_of_itself():
    """All of these are the constant 7 there, and compose to endlessly many functions elsewhere."""
    g = TensorGraph()
    out = clamp(g, g.add_input("x", (4, 6), "INT8"), 7, 7)
    for seed in range(3):
        values = np.random.default_rng(seed).integers(-128, 128, 256)
        values[7 + 128] = 7
        out = g.add("table", (out,), table=tuple(values.tolist()))
    g.outputs = [out]
    assert check(g).saturation.stop == "saturated"


Case = Callable[[TensorGraph, int], int]

FAR: dict[str, Case] = {
    "a constant per channel": lambda g, x: rescale(
        g, g.add("add", (rescale(g, x, "INT32"), g.add_const(np.arange(6).reshape(1, 6), "INT32"))), "INT8"
    ),
    "a scale per channel": lambda g, x: clamp(
        g, rescale(g, x, "INT8", [1 << 30] * 6, [30, 31, 30, 31, 30, 31]), -100, 3
    ),
    "another tensor": lambda g, x: g.add("maximum", (clamp(g, x, -5, 5), g.add_input("y", (4, 6), "INT8")), nan_mode=1),
    "the same tensor elsewhere": lambda g, x: g.add(
        "maximum", (clamp(g, x, -5, 5), g.add("reverse", (x,), axis=1)), nan_mode=1
    ),
    "a reduction between": lambda g, x: table(g, g.add("reduce_max", (table(g, x, 1),), axis=1, nan_mode=1), 2),
}


@pytest.mark.parametrize("case", FAR.values(), ids=FAR.keys())
def test_what_is_no_function_of_one_value_stays(case):
    g = TensorGraph()
    x = g.add_input("x", (4, 6), "INT8")
    g.outputs = [case(g, x)]
    frozen = check(g, only("curve-table", "curve-identity"))
    assert not op_of(frozen, g.outputs[0], x) & {"table", "clamp"} and frozen.handle[g.outputs[0]] != frozen.handle[x]


@pytest.mark.parametrize("dtype", ["INT16", "INT32"])
def test_wider_values_have_no_table(dtype):
    g = TensorGraph()
    x = g.add_input("x", (4, 6), dtype)
    g.outputs = [rescale(g, rescale(g, x, "INT8", 1 << 30, 33), "INT8", 1 << 30, 31)]
    assert not op_of(check(g, only("curve-table")), g.outputs[0], x)


def test_one_clamp_or_table_is_not_rewritten():
    g = TensorGraph()
    x = g.add_input("x", (4, 6), "INT8")
    g.outputs = [clamp(g, x, -5, 5), table(g, x, 1)]
    assert not fires(g, "curve-table", "curve-identity")


# ---- clamps -------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=examples(25), deadline=None)
@given(st.sampled_from(["INT8", "INT16"]), st.lists(POINTS, min_size=4, max_size=4))
def test_clamp_of_clamp_is_one_even_if_the_ranges_are_apart(dtype, ends):
    g = TensorGraph()
    x = g.add_input("x", (4, 6), dtype)
    inner = clamp(g, x, *sorted(ends[:2]))
    g.outputs = [clamp(g, inner, *sorted(ends[2:]))]
    assert fires(g, "clamp-clamp")
    assert "clamp" in op_of(check(g, only("clamp-clamp")), g.outputs[0], x)


# ---- removals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "low", "high", "nothing"),
    [
        ("INT8", -128, 127, True),
        ("INT8", -128, 126, False),
        ("INT8", -127, 127, False),
        ("INT16", -(2**15), 2**15 - 1, True),
        ("INT16", -128, 127, False),
    ],
)
def test_clamp_that_does_nothing_is_removed(dtype, low, high, nothing):
    g = TensorGraph()
    x = g.add_input("x", (4, 6), dtype)
    g.outputs = [clamp(g, x, low, high)]
    frozen = check(g, only("pointwise-identity"))
    assert ops_of_output(frozen) == ({"input"} if nothing else {"clamp"})


ONE = {"dtype": "INT16", "multiplier": 1 << 30, "shift": 30, "in_zp": 0, "out_zp": 0}


@pytest.mark.parametrize(
    ("change", "nothing"),
    [
        ({}, True),
        ({"multiplier": 1 << 20, "shift": 20}, True),
        ({"multiplier": (1 << 30) + 1}, False),
        ({"shift": 31}, False),
        ({"dtype": "INT32"}, False),
        ({"multiplier": [1 << 30] * 6, "shift": [30] * 6}, True),
        ({"multiplier": [1 << 30] * 6, "shift": [30] * 5 + [31]}, False),
    ],
)
def test_rescale_by_exactly_one_is_removed(change, nothing):
    g = TensorGraph()
    x = g.add_input("x", (4, 6), "INT16")
    g.outputs = [rescale(g, x, **{**ONE, **change})]
    frozen = check(g, only("pointwise-identity"))
    assert ops_of_output(frozen) == ({"input"} if nothing else {"rescale"})


@pytest.mark.parametrize(("zero_points", "nothing"), [((5, 5), True), ((5, 4), False)])
def test_zero_points_must_be_equal(zero_points, nothing):
    g = TensorGraph()
    x = g.add_input("x", (4, 6), "INT8")
    g.outputs = [rescale(g, x, "INT8", 1 << 30, 30, *zero_points)]
    assert ops_of_output(check(g, only("pointwise-identity"))) == ({"input"} if nothing else {"rescale"})


def test_a_chain_that_changes_no_value_is_its_input():
    g = TensorGraph()
    x = g.add_input("x", (4, 6), "INT8")
    shifted = g.add("sub", (g.add("add", (rescale(g, x, "INT32", in_zp=9), scalar(g, x, 70))), scalar(g, x, 70)))
    g.outputs = [rescale(g, shifted, "INT8", out_zp=9)]
    frozen = check(g, only("curve-identity"))
    assert frozen.handle[g.outputs[0]] == frozen.handle[x]


# ---- functions of two INT8 values ---------------------------------------------------------------


def residual(first: tuple[int, int], second: tuple[int, int], *, swapped: bool = False, op: str = "add") -> TensorGraph:
    """A sum as converters from TFLite write it, with two RESCALEs, (multiplier, shift) each, on one operand."""
    g = TensorGraph()
    x, y = g.add_input("x", (1, 4, 6), "INT8"), g.add_input("y", (1, 4, 6), "INT8")
    twice = rescale(g, rescale(g, x, "INT32", *first, -128), "INT32", *second)
    once = rescale(g, y, "INT32", 1 << 30, 11, -4)
    total = g.add(op, (once, twice) if swapped else (twice, once))
    g.outputs = [rescale(g, total, "INT8", 1_610_612_736, 50, 0, -128)]
    return g


@pytest.mark.parametrize("op", ["add", "sub"])
@pytest.mark.parametrize(("rule", "swapped"), [("rescale-twice-left", False), ("rescale-twice-right", True)])
def test_two_rescales_of_an_operand_become_one_if_all_65536_pairs_give_the_same(rule, swapped, op):
    assert fires(residual((1 << 30, 10), (1_518_500_250, 33), swapped=swapped, op=op), rule)


def test_two_rescales_stay_where_one_would_give_another_result_for_some_pair():
    """The first one rounds to a multiple of 32 steps of the sum, which one RESCALE would not."""
    assert not fires(residual((1 << 30, 35), (1 << 30, 5)), "rescale-twice-left")


def test_two_rescales_stay_behind_a_wider_value():
    g = TensorGraph()
    x = g.add_input("x", (1, 4, 6), "INT16")
    twice = rescale(g, rescale(g, x, "INT32", 1 << 30, 20), "INT32", 1_518_500_250, 33)
    once = rescale(g, g.add_input("y", (1, 4, 6), "INT8"), "INT32", 1 << 30, 11)
    g.outputs = [rescale(g, g.add("add", (twice, once)), "INT8", 1_610_612_736, 50)]
    assert not fires(g, "rescale-twice-left")


# ---- factors per channel ------------------------------------------------------------------------


def scaled_slice(factors: list[tuple[int, int]], **given) -> TensorGraph:
    g = TensorGraph()
    x = g.add_input("x", (4, len(factors)), "INT32")
    part = g.add("slice", (x,), start=(1, 0), size=(2, len(factors)))
    multipliers, shifts = zip(*factors)
    g.outputs = [g.add_with("rescale", (part,), makers.rescale("INT8", multipliers, shifts, **given))]
    return g


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.tuples(st.integers(1 << 30, (1 << 31) - 1), st.integers(33, 52)), min_size=2, max_size=4), POINTS)
@example([(1141627843, 38), (1973141847, 39)], 12)  # it is
@example([(1086002080, 42), (1897709027, 51)], 0)  # it is not
def test_factors_get_one_shift_exactly_where_no_result_changes(factors, zero_point):
    least = min(s for _, s in factors)
    rounded = [((m + (1 << (s - least) >> 1)) >> (s - least), least) for m, s in factors]
    given = scaled_slice(factors, out_zp=zero_point)
    equal = all(m for m, _ in rounded) and prove(given, scaled_slice(rounded, out_zp=zero_point)).verdict == "proved"
    assert fires(given, "one-shift") == (equal and rounded != factors)


@pytest.mark.parametrize(
    ("factors", "given"),
    [
        ([(1141627843, 38), (1973141847, 38)], {}),  # they have one
        ([(1141627843, 34), (1973141847, 62)], {}),  # nothing is left of one
        ([(1141627843, 34), (1973141847, 35)], {"rounding_mode": DOUBLE_ROUND}),
        ([(1141627843, 30), (1973141847, 31)], {}),  # TOSA does not allow every INT32
    ],
)
def test_other_factors_keep_their_shifts(factors, given):
    assert not fires(scaled_slice(factors, **given), "one-shift")
