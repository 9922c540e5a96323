"""Rescale, clamp, table: chains become one op exactly, and what is no function of one INT8 value stays."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from eqsat.proof import prove
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops.pointwise import DOUBLE_ROUND  # noqa: F401 - rows use it
from tests.rules import cases
from tests.rules.cases import Drawn, looked_up
from tests.rules.checks import check, fires, of_inputs, only, ops_of_output, shapes
from tests.sweeps import examples
from tests.term import Term, graph

SCALES = st.tuples(st.integers(1 << 30, (1 << 31) - 1), st.integers(28, 36))
POINTS = st.integers(-128, 127)


# ---- chains of one INT8 value -------------------------------------------------------------------


def narrow_step(x: Drawn) -> Any:
    kind = x.pick("clamp", "table", "rescale", "maximum", "negate")
    a, b = x.draw(POINTS), x.draw(POINTS)
    if kind == "clamp":
        return x.clamp(min(a, b), max(a, b))
    if kind == "table":
        return looked_up(x, x.number(0, 9))
    if kind == "rescale":
        return x.rescale("INT8", *x.draw(SCALES), in_zp=a, out_zp=b)
    return cases.either(x, x.const(a)) if kind == "maximum" else x.negate(a, b)


def wide_step(x: Drawn) -> Any:
    """Through INT32: RESCALE, an op with a constant or with another function of x, RESCALE back."""
    wide: Any = x.rescale("INT32", in_zp=x.draw(POINTS))
    other = {
        "constant": lambda: wide.const(x.number(-1000, 1000)),
        # as ExecuTorch leaves it: an INT8 constant, rescaled
        "small constant": lambda: x.const(x.draw(POINTS)).rescale("INT32", 1 << 30, 28, in_zp=5),
        "itself": lambda: wide,
        "table": lambda: looked_up(x, 3).rescale("INT32", 1 << 30, 29, in_zp=1),
    }[x.pick("constant", "small constant", "itself", "table")]()
    a, b = x.draw(st.permutations([wide, other]))
    made = x.pick(Term.mul, Term.__add__, Term.__sub__)(a, b)
    return made.rescale("INT8", *x.draw(SCALES), out_zp=x.draw(POINTS))


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None)
@given(st.data())
def test_any_chain_from_int8_to_int8_is_one_op(data):
    g = TensorGraph()
    x = Drawn(g, g.add_input("x", data.draw(shapes), "INT8"), data.draw)
    for step in data.draw(st.lists(st.sampled_from([narrow_step, wide_step]), min_size=2, max_size=4)):
        x = step(x)
    g.outputs = [x.n]
    frozen = check(g, only("curve-table", "curve-identity"))
    assert of_inputs(frozen) & {"table", "clamp"} or "input" in ops_of_output(frozen)


def test_saturation_ends_where_a_class_holds_functions_of_itself():
    """All of these are the constant 7 there, and compose to endlessly many functions elsewhere."""

    def sevens(x: Term) -> Term:
        x = x.clamp(7, 7)
        for seed in range(3):
            entries = cases.randoms((256,), seed)
            entries[7 + 128] = 7
            x = x.table(entries)
        return x

    assert check(graph("x:INT8[4,6]", sevens)).saturation.stop == "saturated"


# ---- one rule on one graph ----------------------------------------------------------------------


def with_zero(x: Term, zero_point: int, shift: int = 30) -> Any:
    return x.rescale("INT32", 1 << 30, shift, in_zp=zero_point)


def summed(total: Any, shift: int = 50) -> Any:
    """A sum or product as converters from TFLite write it, to INT8."""
    return total.rescale("INT8", 1_610_612_736, shift, out_zp=-128)


def twice(x: Term, first: Any = (1 << 30, 10), second: Any = (1_518_500_250, 33)) -> Any:
    """Two RESCALEs of one operand."""
    zero_point = -128 if x.dtype == "INT8" else 0
    return x.rescale("INT32", *first, in_zp=zero_point).rescale("INT32", *second)


def part_scaled(x: Term, factors: Any, **given: Any) -> Any:
    """RESCALE of a slice by a (multiplier, shift) per channel."""
    return x.part(1, 2).rescale("INT8", *zip(*factors), **given)


TABLE = """
# x * sigmoid(x): both operands are functions of one x
curve-table           INT8[1,4,4,8]  summed(with_zero(x, 3) * with_zero(looked_up(x), -128), 36)  'table' in of_inputs
curve-identity        INT8[4,6]      (with_zero(x, 9) + 70 - 70).rescale('INT8', out_zp=9)  'input' in ops
# what is no function of one INT8 value
- {composed}          INT8[4,6]      (with_zero(x, 0) + x.const([range(6)], 'INT32')).rescale('INT8')
- {composed}          INT8[4,6]      x.rescale('INT8', [1 << 30] * 6, [30, 31] * 3).clamp(-100, 3)
- {composed}          INT8[4,6] INT8[4,6]  x.clamp(-5, 5).max(y)
- {composed}          INT8[4,6]      x.clamp(-5, 5).max(x.reverse(1))
- {composed}          INT8[4,6]      looked_up(looked_up(x).reduce('max', 1), 2)
curve-table           wider[4,6]  x.rescale('INT8', shift=33).rescale('INT8', shift=31)  'table' not in of_inputs
# one operator is not rewritten
- {composed}          INT8[4,6]      x.clamp(-5, 5)
- {composed}          INT8[4,6]      looked_up(x)

clamp-clamp           d[4,6]         x.clamp(*ends).clamp(*others)  'clamp' in of_inputs  # even if the ranges are apart
pointwise-identity    INT8[4,6]      x.clamp(-128, 127)  ops == {'input'}
- pointwise-identity  INT8[4,6]      x.clamp(-128, 126)
- pointwise-identity  INT8[4,6]      x.clamp(-127, 127)
pointwise-identity    INT16[4,6]     x.clamp(-(2**15), 2**15 - 1)  ops == {'input'}
- pointwise-identity  INT16[4,6]     x.clamp(-128, 127)
pointwise-identity    INT16[4,6]     x.rescale('INT16', 1 << 30, 30)  ops == {'input'}
pointwise-identity    INT16[4,6]     x.rescale('INT16', 1 << 20, 20)  ops == {'input'}
pointwise-identity    INT16[4,6]     x.rescale('INT16', [1 << 30] * 6, [30] * 6)  ops == {'input'}
- pointwise-identity  INT16[4,6]     x.rescale('INT16', [1 << 30] * 6, [30] * 5 + [31])
- pointwise-identity  INT16[4,6]     x.rescale('INT16', (1 << 30) + 1, 30)
- pointwise-identity  INT16[4,6]     x.rescale('INT16', 1 << 30, 31)
- pointwise-identity  INT16[4,6]     x.rescale('INT32', 1 << 30, 30)
pointwise-identity    INT8[4,6]      x.rescale('INT8', in_zp=5, out_zp=5)  ops == {'input'}
- pointwise-identity  INT8[4,6]      x.rescale('INT8', in_zp=5, out_zp=4)

# all 65536 pairs of x and y give the same
rescale-twice-left    INT8[1,4,6] INT8[1,4,6]   summed(twice(x) + with_zero(y, -4, 11))
rescale-twice-left    INT8[1,4,6] INT8[1,4,6]   summed(twice(x) - with_zero(y, -4, 11))
rescale-twice-right   INT8[1,4,6] INT8[1,4,6]   summed(with_zero(y, -4, 11) + twice(x))
rescale-twice-right   INT8[1,4,6] INT8[1,4,6]   summed(with_zero(y, -4, 11) - twice(x))
# the first one rounds to a multiple of 32 steps of the sum, which one RESCALE would not
- rescale-twice-left  INT8[1,4,6] INT8[1,4,6]   summed(twice(x, (1 << 30, 35), (1 << 30, 5)) + with_zero(y, -4, 11))
# x less its zero point, up to 255, is too large for the shift of one RESCALE, which is 8
- rescale-twice-left  INT8[1,4,6] INT8[1,4,6]   summed(twice(x, ((1 << 30) + 12345, 22), ((1 << 31) - 1, 17)) + with_zero(y, -4, 11), 53)
- rescale-twice-left  INT16[1,4,6] INT8[1,4,6]  summed(twice(x, (1 << 30, 20)) + with_zero(y, 0, 11))

- one-shift           INT32[4,2]     part_scaled(x, [(1141627843, 38), (1973141847, 38)])   # they have one
- one-shift           INT32[4,2]     part_scaled(x, [(1141627843, 34), (1973141847, 62)])   # nothing is left of one
- one-shift           INT32[4,2]     part_scaled(x, [(1141627843, 34), (1973141847, 35)], rounding_mode=DOUBLE_ROUND)
- one-shift           INT32[4,2]     part_scaled(x, [(1141627843, 30), (1973141847, 31)])   # TOSA lacks some INT32
"""
some_range = st.lists(POINTS, min_size=2, max_size=2).map(sorted)
test_fires_and_is_exact, test_spares_near_misses = cases.of_table(
    globals(),
    TABLE,
    fires_on=25,
    composed=["curve-table", "curve-identity"],
    d=["INT8", "INT16"],
    ends=some_range,
    others=some_range,
    wider=["INT16", "INT32"],
)


# ---- factors per channel ------------------------------------------------------------------------


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.tuples(st.integers(1 << 30, (1 << 31) - 1), st.integers(33, 52)), min_size=2, max_size=4), POINTS)
@example([(1141627843, 38), (1973141847, 39)], 12)  # it is
@example([(1086002080, 42), (1897709027, 51)], 0)  # it is not
def test_factors_get_one_shift_exactly_where_no_result_changes(factors, zero_point):
    least = min(s for _, s in factors)
    rounded = [((m + (1 << (s - least) >> 1)) >> (s - least), least) for m, s in factors]
    given, other = (
        graph(f"x:INT32[4,{len(factors)}]", lambda x, f=f: part_scaled(x, f, out_zp=zero_point))
        for f in (factors, rounded)
    )
    equal = all(m for m, _ in rounded) and prove(given, other).verdict == "proved"
    assert fires(given, "one-shift") == (equal and rounded != factors)
