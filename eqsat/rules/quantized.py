"""Rules for RESCALE, CLAMP, TABLE and other pointwise operators, which evaluate a chain of operators on one INT8 value
as a function of 256 points.

A `Curve` is such a function.
The fact curve(x, y) = c means that y = c(x) in every element; known(y) = k means that y is the constant k.
A curve grows along pointwise operators whose operands all come from one x or are constants of one element.
The dtypes in between do not matter.
If y is INT8 again, y is one TABLE of x, equal to the bit.
Examples are RESCALE, MUL by a constant and RESCALE, and x * sigmoid(x).

A sum or product of two curves behind a RESCALE is a function of two INT8 values, so it has 65,536 results.
Two RESCALEs of an operand become one RESCALE if all of these results stay the same.
Converters from TFLite write residual sums with two RESCALEs, and Vela fuses only one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from eqsat.egraph.kinds import (
    Binary,
    Call,
    ChannelRescale,
    Clamp,
    Constant,
    LeafValue,
    Rescale,
    SignedRescale,
    Slice,
    Unary,
    Value,
    op,
)
from eqsat.egraph.rule import rule
from eqsat.egraph.terms import extern, fact, symbols, type_of
from eqsat.tensor import makers
from eqsat.tensor.ops import OPS, evaluate_op, infer
from eqsat.tensor.ops.pointwise import SINGLE_ROUND
from eqsat.tensor.types import DType, GraphError, Type

#: Every INT8 value.
_POINTS = np.arange(-128, 128)

#: The largest shift for which the product of a result of INT8 fits in INT64.
_LARGEST_SHIFT = 52

#: Operators that may leave every value as it is.
MaybeIdentity = Annotated[Call, op("clamp", "rescale", "identity")]
ClampOrTable = Annotated[Call, op("clamp", "table")]
#: Operators on two sums.
Arithmetic = Annotated[Call, op("add", "sub", "mul", name="arithmetic")]


@dataclass(frozen=True, slots=True)
class Curve:
    """A function of an INT8 value; a constant is such a function, too, and ignores the value.

    values: the bytes of its 256 results in INT64.
    dtype: the dtype of the results.
    steps: 0 is the identity itself, 1 is one CLAMP or TABLE, which gains nothing, 2 is anything else.
    """

    values: bytes
    dtype: str
    steps: int

    @property
    def points(self) -> NDArray[np.int64]:
        """Its 256 results, for values from -128 to 127."""
        return np.frombuffer(self.values, np.int64)

    @property
    def stored(self) -> NDArray[Any]:
        """Its results in the numpy type of their dtype."""
        return self.points.astype(DType.of(self.dtype).storage)

    @staticmethod
    def of(points: NDArray[Any], dtype: str, steps: int) -> Curve:
        """Returns the curve through these 256 points."""
        return Curve(np.ascontiguousarray(points, dtype=np.int64).tobytes(), dtype, steps)


IDENTITY = Curve.of(_POINTS, "INT8", 0)
#: Fact curve(x, y) = c: y = c(x) in every element, where x is INT8.
curve = fact("curve", Value, Value, gives=Curve)
#: Fact known(y): the constant that y is.
known = fact("known", Value, gives=Constant)


@extern
def start(x: Type) -> Curve | None:
    """Returns the identity curve of an INT8 value."""
    return IDENTITY if x.dtype == "INT8" else None


def evaluate_table(call: Call, *operands: tuple[NDArray[Any], str]) -> tuple[NDArray[Any], str]:
    """Returns the result of an operator and its dtype, for operands with their dtypes.

    Raises GraphError if the operator cannot be evaluated.
    """
    t = infer(call.op, call.attrs, [Type(values.shape, dtype) for values, dtype in operands])
    return evaluate_op(call.op, call.attrs, [values for values, _ in operands], t), t.dtype


@extern
def may_be_operand(k: Constant) -> bool:
    """Tells whether a constant is of the dtypes of quantized values and of their sums, or one integer."""
    return k.node.dtype in ("INT8", "INT32") or (k.data.size == 1 and DType.of(k.node.dtype).is_integral)


@extern
def result(call: Call, *constants: Constant) -> Constant | None:
    """Returns the result of an operator on constants.

    In most cases the operator is the RESCALE of an INT8 constant to the scale of its neighbour.
    """
    try:
        return LeafValue.constant(*evaluate_table(call, *((k.data, k.node.dtype) for k in constants)))
    except GraphError:
        return None


@extern
def constant_curve(k: Constant) -> Curve | None:
    """Returns the curve of a constant that has one element."""
    is_number = k.data.size == 1 and DType.of(k.node.dtype).is_integral
    return Curve.of(np.full(256, k.data.item()), k.node.dtype, 2) if is_number else None


@extern
def follow(f: Call, *curves: Curve) -> Curve | None:
    """Returns the curve of operator f applied to one or two curves of the same value."""
    if any(not DType.of(c.dtype).is_integral for c in curves):
        return None
    try:
        points, dtype = evaluate_table(f, *((c.stored, c.dtype) for c in curves))
    except GraphError:
        return None
    single = f.op in ("clamp", "table") and curves[0].steps == 0
    return Curve.of(points, dtype, 1 if single else 2) if DType.of(dtype).is_integral else None


@extern
def as_one_op(c: Curve) -> ClampOrTable | None:
    """Returns a curve as one operator: a CLAMP if the curve only limits values, otherwise a TABLE.

    Returns None if the curve is already one operator, or the identity.
    """
    if c.dtype != "INT8" or c.steps < 2 or c.values == IDENTITY.values:
        return None
    low, high = int(c.points.min()), int(c.points.max())
    if np.array_equal(c.points, np.clip(_POINTS, low, high)):
        return Call("clamp", makers.clamp(c.dtype, low, high))
    return Call("table", makers.table(c.points.tolist()))


@extern
def is_identity(c: Curve) -> bool:
    """Tells whether a curve of one or more operators leaves all 256 values unchanged."""
    return bool(c.steps) and c.dtype == "INT8" and c.values == IDENTITY.values


# ---- scales -------------------------------------------------------------------------------------


def real_scale(call: Call) -> NDArray[Any]:
    """Returns the factors of a RESCALE, an array with one per channel or one for all."""
    scales: NDArray[Any] = np.array(call.attr("multiplier"), float) * 2.0 ** -np.array(call.attr("shift"), float)
    return scales


def integer_scale(scale: float) -> tuple[int, int] | None:
    """Returns (multiplier, shift) with multiplier * 2**-shift nearest to `scale`, which is above 0.

    The multiplier has 31 bits (TOSA 1.0, RESCALE). Returns None if the shift is not from 2 to 62.
    """
    mantissa, exponent = math.frexp(scale)
    multiplier = round(mantissa * 2**31)
    if multiplier == 2**31:
        multiplier, exponent = 2**30, exponent + 1
    return (multiplier, 31 - exponent) if 2 <= 31 - exponent <= 62 else None


# ---- functions of two INT8 values ---------------------------------------------------------------


def _beside(other: Any, place: int, x: Any) -> tuple[Any, Any]:
    """Returns the operands of an operator of which x is the one number `place`."""
    return (other, x) if place else (x, other)


@extern
def one_scale(
    place: int, narrow: Rescale, total: Arithmetic, second: SignedRescale, first: SignedRescale, x: Type, other: Curve
) -> Rescale | None:
    """Returns the single RESCALE of x that may replace second(first(x)) in narrow(total(...)).

    place: the number of that operand of `total`. other: the curve of the other one.
    Returns None if no such RESCALE is defined for all INT8 values, and gives the same result for all 65,536 pairs.
    """

    def results(curve: Curve) -> bytes | None:
        return _results(narrow, total, *_beside(other, place, curve))

    found = integer_scale(float((real_scale(first) * real_scale(second))[0]))
    curve = follow.fn(second, c) if x.dtype == "INT8" and (c := follow.fn(first, IDENTITY)) else None
    wanted = results(curve) if found and curve else None
    if found is None or wanted is None:
        return None
    for mode in dict.fromkeys((second.attr("rounding_mode"), SINGLE_ROUND)):
        attrs = makers.rescale(second.attr("dtype"), *found, in_zp=first.attr("in_zp")[0], rounding_mode=mode)
        merged = Call("rescale", attrs)
        once = follow.fn(merged, IDENTITY) if _takes_all(merged, x) else None
        if once and results(once) == wanted:
            return merged
    return None


def _takes_all(rescale: Call, x: Type) -> bool:
    """Whether TOSA defines a RESCALE for all values of a dtype."""
    allowed = OPS["rescale"].allowed
    return allowed is None or not allowed(dict(rescale.attrs), [x])


def _results(narrow: Call, total: Call, left: Curve, right: Curve) -> bytes | None:
    """Returns the results of narrow(total(left, right)) for all pairs of INT8 values, None if it is not defined."""
    operands = (left.stored.reshape(256, 1), left.dtype), (right.stored.reshape(1, 256), right.dtype)
    try:
        return evaluate_table(narrow, evaluate_table(total, *operands))[0].tobytes()
    except GraphError:
        return None


# ---- factors per channel ------------------------------------------------------------------------


@extern
def with_one_shift(f: ChannelRescale, x: Type) -> ChannelRescale | None:
    """Returns a RESCALE of INT32 to INT8 with equal shifts, whose multipliers are rounded.

    If Vela does not fuse a RESCALE, it makes a product of each run of channels with equal shifts (U55 and U65).
    Returns None if a result changes for any value of INT32, or if the shifts are equal.
    """
    a, shifts = dict(f.attrs), np.array(f.attr("shift"), np.int64)
    least, most = int(shifts.min()), int(shifts.max())
    if (x.dtype, a["dtype"], a["rounding_mode"], a["output_unsigned"]) != ("INT32", "INT8", SINGLE_ROUND, False):
        return None
    if not 32 <= least < most <= _LARGEST_SHIFT:  # every INT32 is small enough for a shift from 32 on
        return None
    fewer, exact = shifts - least, np.array(a["multiplier"], np.int64)
    rounded = (exact + (1 << fewer >> 1)) >> fewer
    results = np.arange(*DType.of("INT8").limits) + 1 - a["out_zp"][0]
    if not rounded.all() or (_reaching(results, exact, shifts) != _reaching(results, rounded, shifts - fewer)).any():
        return None
    return f.with_attrs(multiplier=tuple(rounded.tolist()), shift=(least,) * len(shifts))


def _reaching(results: NDArray[np.int64], multiplier: NDArray[np.int64], shift: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the least INT32 whose rounded product reaches each result, by channel; limits stand for all beyond."""
    m, s = multiplier[:, None], shift[:, None]
    low, high = DType.of("INT32").limits
    least: NDArray[np.int64] = np.clip(-(((1 << (s - 1)) - (results << s)) // m), low, high + 1)
    return least


# ---- other dtypes -------------------------------------------------------------------------------


def _limits(f: Clamp, dtype: str) -> tuple[int, int]:
    low, high = (DType.of(dtype).from_bytes(f.attr(name)) for name in ("min_val", "max_val"))
    return int(low), int(high)


@extern
def combine_clamps(f: Clamp, g: Clamp, x: Type) -> Clamp | None:
    """Returns two successive CLAMPs, g and then f, as one CLAMP.

    Both are monotone, so the limits of the new CLAMP are f of the limits of g.
    """
    if not DType.of(x.dtype).is_integral:
        return None
    low, high = (DType.of(x.dtype).to_bytes(int(np.clip(v, *_limits(f, x.dtype)))) for v in _limits(g, x.dtype))
    return f.with_attrs(min_val=low, max_val=high)


@extern
def leaves_all(f: Call, x: Type) -> bool:
    """Tells whether an operator leaves every value unchanged.

    These are IDENTITY, a CLAMP to the limits of the dtype, and a RESCALE by one that keeps dtype, sign and zero point.
    """
    if f.op == "clamp":
        return DType.of(x.dtype).is_integral and _limits(f, x.dtype) == DType.of(x.dtype).limits
    if f.op == "identity":
        return True
    a = dict(f.attrs)
    same = a["dtype"] == x.dtype and a["input_unsigned"] == a["output_unsigned"] and a["in_zp"] == a["out_zp"]
    return same and all(m == 1 << s for m, s in zip(a["multiplier"], a["shift"], strict=True))


f, g, either = symbols("f", Unary), symbols("g", Binary), symbols("either", MaybeIdentity)
c, d = symbols("c d", Clamp)
narrow = symbols("narrow", Rescale)
second, first = symbols("second first", SignedRescale)
total = symbols("total", Arithmetic)
scales, cut = symbols("scales", ChannelRescale), symbols("cut", Slice)
x, y, z = symbols("x y z", Value)
k = symbols("k", Constant)
rule = partial(rule, family="quantized")

RULES = [
    rule("pointwise-identity", either(x), x, where=leaves_all(either, x), removes=True),
    rule("clamp-clamp", c(d(x)), combine_clamps(c, d, x)(x)),
    rule("one-shift", scales(cut(x)), with_one_shift(scales, cut(x))(cut(x))),
    rule("curve-table", y, as_one_op(curve(x, y))(x)),
    rule("curve-identity", y, x, where=is_identity(curve(x, y))),
    rule("known-leaf", known(k), k, where=may_be_operand(k)),
    rule("known-unary", known(f(y)), result(f, known(y))),
    rule("known-binary", known(g(y, z)), result(g, known(y), known(z))),
    rule("curve-start", curve(x, x), start(x), where=type_of(x)),
    rule("curve-unary", curve(x, f(y)), follow(f, curve(x, y))),
    rule("curve-left", curve(x, g(y, z)), follow(g, curve(x, y), constant_curve(known(z)))),
    rule("curve-right", curve(x, g(z, y)), follow(g, constant_curve(known(z)), curve(x, y))),
    rule("curve-both", curve(x, g(y, z)), follow(g, curve(x, y), curve(x, z))),
    *(
        rule(
            f"rescale-twice-{side}",
            narrow(total(*_beside(z, place, second(first(x))))),
            narrow(total(*_beside(z, place, one_scale(place, narrow, total, second, first, x, curve(y, z))(x)))),
        )
        for place, side in enumerate(("left", "right"))
    ),
]
