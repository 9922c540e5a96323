"""Pointwise operators, and SELECT."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqsat.proof.extrema import extremum
from eqsat.proof.functions import Ints
from eqsat.proof.linear import constants_of, corners, product_root
from eqsat.proof.steps import LARGEST
from eqsat.proof.values import UNLIMITED, Steps, Terms, Value, join, limits_of, merge, unique, unique_rows
from eqsat.tensor.ops import OPS
from eqsat.tensor.ops.pointwise import DOUBLE_ROUND, INEXACT_ROUND
from eqsat.tensor.types import Attrs, DType, Type

Attributes = Mapping[str, Any]
#: Commutative operators.
COMMUTATIVE = frozenset(
    {"add", "mul", "maximum", "minimum", "equal", "logical_and", "logical_or", "logical_xor"}
    | {f"bitwise_{name}" for name in ("and", "or", "xor")}
)
#: Operators of two operands that give the same numbers in every dtype.
_OF_NUMBERS = frozenset({*COMMUTATIVE, "greater", "greater_equal", "arithmetic_right_shift", "intdiv"} - {"mul"})
#: Operators that are a maximum or a minimum; BOOL is 0 or 1.
_EXTREMA = {"maximum": "max", "minimum": "min", "logical_or": "max", "logical_and": "min"}


def rescale(t: Terms, attrs: Attributes, x: Value, out: Type) -> Value | None:
    """Returns the term of RESCALE; None for inexact rounding, and for unsigned values that are no finite functions."""
    if attrs["rounding_mode"] == INEXACT_ROUND:
        return None
    t.require_allowed("rescale", attrs, [x])
    m, s = (np.array(attrs[k], np.int64) for k in ("multiplier", "shift"))
    variant = np.broadcast_to(np.arange(len(m)), x.shape or (1,)).reshape(-1)
    if attrs["input_unsigned"] or attrs["output_unsigned"]:

        def function(value: Ints, row: Ints) -> Ints:
            scales = {"multiplier": m[row], "shift": s[row], "per_channel": True}
            return _compute("rescale", {**attrs, **scales}, [value], [x.dtype], out)

        return t.tabulate(x, function, out.dtype, variant)
    before, behind = [("affine", 1, -attrs["in_zp"][0])], [("affine", 1, attrs["out_zp"][0])]
    behind.append(("clip", *DType.of(out.dtype).limits))
    single = ("scale", m, np.left_shift(np.int64(1), s - 1), s)
    twice = (s > 31) & (attrs["rounding_mode"] == DOUBLE_ROUND)
    if not twice.any():
        return t.step(x, [*before, single, *behind], out.dtype, variant)
    if twice.all():
        return t.step(x, [*before, ("double", m, s), *behind], out.dtype, variant)
    x, mask = t.plain(x), twice[variant]
    parts = [
        (chosen, t.step(x.take(np.flatnonzero(chosen)), [*before, scale, *behind], out.dtype, variant[chosen]))
        for chosen, scale in ((mask, ("double", m, s)), (~mask, single))
    ]
    return merge(x.shape, out.dtype, parts)


def unary(t: Terms, op: str, attrs: Attrs, x: Value, out: Type) -> Value:
    """Returns the term of a pointwise operator of one operand."""
    values, dtype = dict(attrs), DType.of(out.dtype)
    t.require_allowed(op, values, [x])
    steps: Steps | None = None
    if op == "clamp":
        steps = [("clip", *(dtype.from_bytes(values[k]) for k in ("min_val", "max_val")))]
    elif op == "negate":
        steps = [("affine", -1, values["out_zp"][0] + values["in_zp"][0]), ("clip", *dtype.limits)]
    elif op == "logical_not":
        steps = [("affine", -1, 1)]
    elif op == "bitwise_not":
        steps = [("affine", -1, -1)]
    elif op == "cast" and not t.outside(x, *dtype.limits).any():
        steps = []
    if steps is not None:
        return t.step(x, steps, out.dtype)

    def function(value: Ints, _: Ints) -> Ints:
        return _compute(op, values, [value], [x.dtype], out)

    if op == "table" and x.members > 1 and (order := _order(values["table"])):
        flat = t.tabulate(x.flat(), function, out.dtype)
        if flat is not None:
            kind = x.extremum if order > 0 else {"max": "min", "min": "max"}[x.extremum]
            return replace(x, roots=flat.roots, functions=flat.functions, dtype=out.dtype, extremum=kind)
    done = t.tabulate(x, function, out.dtype)
    if done is None and op == "abs":
        return _absolute(t, x, out)
    return done or t.apply(t.symbol(op, attrs, x.dtype, out.dtype), out.shape, out.dtype, t.lanes(x))


def _absolute(t: Terms, x: Value, out: Type) -> Value:
    """Returns the term of ABS of any number of values: itself if none is negative, else one symbol for x and -x."""
    if (t.limits(x)[0] >= 0).all():
        return replace(x, dtype=out.dtype)
    lanes = t.lanes(x)
    negative = t.field.reduce(-lanes)
    one = np.where(lanes[0] > negative[0], negative, lanes)
    return t.apply(t.symbol("abs"), out.shape, out.dtype, one, limits=(0, limits_of(out.dtype)[1]))


def _order(table: Sequence[int]) -> int:
    """Returns 1 if the table never falls, -1 if it never rises, else 0."""
    change = np.diff(table)
    return int((change >= 0).all()) - int((change <= 0).all() and (change < 0).any())


def _compute(op: str, attrs: Attributes, values: Sequence[Ints], dtypes: Sequence[str], out: Type) -> Ints:
    """Returns the op table's integer results, in their dtype unless it must not be left."""
    operands = [v if d == UNLIMITED else v.astype(DType.of(d).storage) for v, d in zip(values, dtypes)]
    result = np.asarray(OPS[op].integer(attrs, operands, Type(values[0].shape, out.dtype)))  # type: ignore[operator]
    if out.dtype != UNLIMITED and not OPS[op].overflows(attrs):
        result = result.astype(DType.of(out.dtype).storage)
    return result.astype(np.int64)


def binary(t: Terms, op: str, attrs: Attrs, xs: Sequence[Value], out: Type) -> Value:
    """Returns the term of a pointwise operator: a function of one root where an operand is constant or both have it."""
    if op not in _EXTREMA and not any(t.is_constant(v).all() for v in xs):
        # a set would be hashed once for each of its repetitions
        xs = [t.plain(v) if v.elements < prod(out.shape) else v for v in xs]
    t.require_allowed(op, dict(attrs), xs)
    x, y = (v.broadcast(out.shape) for v in xs)
    fixed = t.is_constant(x), t.is_constant(y)
    same = _same_root(t, x, y) & ~fixed[0] & ~fixed[1]
    cases: Sequence[tuple[NDArray[np.bool_], Callable[[Value, Value], Value]]] = (
        (fixed[1], lambda a, b: _with_constant(t, op, attrs, a, b, out, False)),
        (fixed[0] & ~fixed[1], lambda a, b: _with_constant(t, op, attrs, b, a, out, True)),
        (same, lambda a, b: _of_one_root(t, op, attrs, a, b, out)),
        (~(fixed[0] | fixed[1] | same), lambda a, b: _of_two(t, op, attrs, a, b, out)),
    )
    parts = []
    for mask, function in cases:
        if mask.all():
            return replace(function(x, y), shape=out.shape)
        if mask.any():
            at = np.flatnonzero(mask)
            v = function(x.take(at), y.take(at))
            parts.append((mask, t.plain(v)))
    return merge(out.shape, out.dtype, parts)


def _same_root(t: Terms, x: Value, y: Value) -> NDArray[np.bool_]:
    if x.members > 1 or y.members > 1:
        return np.zeros(x.elements, bool)
    return np.asarray((x.roots == y.roots).all(0))


def _constant_steps(op: str, attrs: Attributes, c: Ints, on_left: bool, beyond: int) -> Steps | None:
    """Returns the steps of an operator with constants c as second operand, or None.

    on_left: the constants are the first operand. beyond: a number larger than any value.
    """
    sign = -1 if on_left else 1
    if op == "add":
        return [("affine", 1, c)]
    if op == "sub":
        return [("affine", sign, -sign * c)]
    if op == "mul":
        shift = attrs["shift"][0]
        return [("scale", c, 1 << (shift - 1), shift)] if shift else [("affine", c, 0)]
    if op in ("maximum", "logical_or"):
        return [("clip", c, beyond)]
    if op in ("minimum", "logical_and"):
        return [("clip", -beyond, c)]
    if op in ("greater", "greater_equal"):
        return [("affine", sign, -sign * c + (op == "greater_equal")), ("clip", 0, 1)]
    if op == "arithmetic_right_shift" and not on_left and ((c >= 0) & (c < 32)).all():
        return [("scale", 1, np.where(c > 0, 1 << np.maximum(c - 1, 0), 0) if attrs["round"] else 0, c)]
    return None


def _with_constant(t: Terms, op: str, attrs: Attrs, x: Value, constant: Value, out: Type, on_left: bool) -> Value:
    c, variant = unique(t.limits(constant)[0])
    steps = _constant_steps(op, dict(attrs), c, on_left, LARGEST)
    if steps is not None:
        result = t.step(x, steps, out.dtype, variant)
        return t.bound(result) if OPS[op].overflows(dict(attrs)) else t.wrap(result, out.dtype)

    def function(value: Ints, row: Ints) -> Ints:
        pair = [(value, x.dtype), (c[row], constant.dtype)][:: -1 if on_left else 1]
        return _compute(op, dict(attrs), [v for v, _ in pair], [d for _, d in pair], out)

    done = t.tabulate(x, function, out.dtype, variant)
    if done is not None:
        return t.bound(done)
    return _symbol(t, op, attrs, [constant, x] if on_left else [x, constant], out)


def _of_one_root(t: Terms, op: str, attrs: Attrs, x: Value, y: Value, out: Type) -> Value:
    """Returns the term of an operator on two functions of one root, which is one of this root if both are finite."""
    pairs, inverse = unique(x.functions * len(t.functions) + y.functions)
    one, other = pairs // len(t.functions), pairs % len(t.functions)
    if not (t.functions.is_finite(one).all() and t.functions.is_finite(other).all()):
        return _of_two_roots(t, op, attrs, x, y, out)
    numbers = t.functions.together(
        one, other, lambda a, b, _: _compute(op, dict(attrs), [a, b], [x.dtype, y.dtype], out)
    )
    return t.bound(replace(x, functions=numbers[inverse], dtype=out.dtype))


def _of_two(t: Terms, op: str, attrs: Attrs, x: Value, y: Value, out: Type) -> Value:
    """Returns the term of an operator on two roots, by tables of pairs where these are wanted."""
    if t.pairs is not None:
        mask, lifted = t.pairs.lift(t, [x, y])
        if mask.any():
            one, other = lifted
            parts = [(mask, _of_one_root(t, op, attrs, one, other, out))]
            if not mask.all():
                a, b = (v.take(np.flatnonzero(~mask)) for v in (x, y))
                parts.append((~mask, t.plain(_of_two_roots(t, op, attrs, a, b, out))))
            return merge((x.elements,), out.dtype, parts)
    return _of_two_roots(t, op, attrs, x, y, out)


def _of_two_roots(t: Terms, op: str, attrs: Attrs, x: Value, y: Value, out: Type) -> Value:
    if op in _EXTREMA:
        return extremum(t, _EXTREMA[op], [x, y], (x.elements,), out.dtype)
    if op in ("greater", "greater_equal", "equal"):
        return _compare(t, op, attrs, x, y, out)
    if op not in ("add", "sub", "mul"):
        return _symbol(t, op, attrs, [x, y], out)
    if op != "mul":
        return _sum(t, x, y, 1 if op == "add" else -1, out)
    product = t.field.reduce(t.lanes(x) * t.lanes(y))
    ends = corners(t.within(x), t.within(y))
    degree = t.degree_of(x) + t.degree_of(y)
    shift = dict(attrs)["shift"][0]
    if not shift:
        summand = constants_of(t, t.plain(x)) * constants_of(t, t.plain(y))
        return t.wrap(product_root(t, product, ends, summand, degree, UNLIMITED), out.dtype)
    v = t.root(product, (x.elements,), UNLIMITED, ends, degree)  # only the shifted product must fit the dtype
    return t.bound(t.step(v, [("scale", 1, 1 << (shift - 1), shift)], out.dtype))


def _sum(t: Terms, x: Value, y: Value, sign: int, out: Type) -> Value:
    """Returns the term of x + sign * y: a function of their sum without constants and the common factor."""
    x, y = (t.plain(v) for v in (x, y))
    a, b = t.functions.column("a"), t.functions.column("b")
    factor = np.gcd(a[x.functions], a[y.functions])
    summand = b[x.functions] + sign * b[y.functions]
    parts = []
    for v in (x, y):
        rows, inverse = unique_rows(v.functions, factor)
        parts.append(replace(v, functions=t.functions.divide(rows[:, 0], rows[:, 1])[inverse]))
    lanes = t.field.reduce(t.lanes(parts[0]) + sign * t.lanes(parts[1]))
    (low, high), other = t.within(x), t.within(y)[::sign]
    limits = -((summand - low - sign * other[0]) // factor), (high + sign * other[1] - summand) // factor
    degree = max(t.degree_of(v) for v in parts)
    return t.affine_root(lanes, (x.elements,), out.dtype, limits, summand, degree, factor)


def _compare(t: Terms, op: str, attrs: Attrs, x: Value, y: Value, out: Type) -> Value:
    """Returns the term of a comparison: a function of the difference, whose sign exchanged operands do not change."""
    if not DType.of(x.dtype).is_integral:
        return _symbol(t, op, attrs, [x, y], out)
    difference = t.field.reduce(t.lanes(x) - t.lanes(y))
    turned = difference[0] > t.field.primes[0] // 2
    difference[:, turned] = t.field.reduce(-difference[:, turned])
    (a, b), (c, d) = t.limits(x), t.limits(y)
    low, high = np.where(turned, c - b, a - d), np.where(turned, d - a, b - c)
    root = t.root(difference, (x.elements,), UNLIMITED, (low, high), max(t.degree_of(x), t.degree_of(y)))
    variant = turned.astype(np.int64)
    signed: tuple[Any, ...] = ("affine", np.array([1, -1]), int(op == "greater_equal"))
    if op != "equal":
        return t.step(root, [signed, ("clip", 0, 1)], out.dtype, variant)
    above, below = (t.step(root, [("affine", sign, 1), ("clip", 0, 1)], out.dtype) for sign in (1, -1))
    return _of_one_root(t, "logical_and", (), above, below, out)


def _symbol(t: Terms, op: str, attrs: Attrs, xs: Sequence[Value], out: Type) -> Value:
    lanes = [t.lanes(v) for v in xs]
    if op in COMMUTATIVE:
        turned = lanes[0][0] > lanes[1][0]
        lanes = [np.where(turned, lanes[1], lanes[0]), np.where(turned, lanes[0], lanes[1])]
    limits: tuple[Any, Any] | None = (0, 1) if out.dtype == "BOOL" else None
    if op == "intdiv":  # the lowest value by -1 is beyond the highest
        (lowest, highest), (least, most) = limits_of(out.dtype), t.limits(xs[1])
        limits = lowest, highest + ((t.limits(xs[0])[0] <= lowest) & (least <= -1) & (most >= -1))
    dtypes = () if op in _OF_NUMBERS else (xs[0].dtype, out.dtype)
    return t.apply(t.symbol(op, attrs, *dtypes), (xs[0].elements,), out.dtype, *lanes, limits=limits)


def select(t: Terms, xs: Sequence[Value], out: Type) -> Value:
    """Returns the term of SELECT: select(c, x) + select(not c, y), so that `not` exchanges the values."""
    condition, x, y = (v.broadcast(out.shape) for v in xs)
    low, high = t.limits(condition)
    equal = (t.lanes(x) == t.lanes(y)).all(0)
    sure = (low == high) | equal
    parts = []
    if sure.any():
        at = np.flatnonzero(sure)
        both = join([t.plain(x), t.plain(y)])
        parts.append((sure, both.take(at + np.where((low[at] == 0) & ~equal[at], x.elements, 0))))
    if not sure.all():
        at = np.flatnonzero(~sure)
        c, a, b = condition.take(at), x.take(at), y.take(at)
        chosen = _of_condition(t, c, a, b, out.dtype)
        parts.append((~sure, t.plain(chosen) if parts else chosen))
    return merge(out.shape, out.dtype, parts)


def _of_condition(t: Terms, c: Value, x: Value, y: Value, dtype: str) -> Value:
    if (t.is_constant(x) & t.is_constant(y)).all():
        (high, _), (low, _) = t.limits(x), t.limits(y)
        return t.line(c, high - low, low, dtype)  # which exchanges maximum and minimum if it falls
    c, x, y = (t.plain(v) for v in (c, x, y))
    if t.pairs is not None:
        mask, lifted = t.pairs.lift(t, [c, x, y])
        if mask.all():
            c, x, y = lifted
    one_root = _same_root(t, c, x) | t.is_constant(x)
    one_root &= _same_root(t, c, y) | t.is_constant(y)
    finite = all(t.is_finite(v) for v in (c, x, y))
    if one_root.all() and finite:  # x * c + y * (1 - c), as functions of one root
        size = len(t.functions)
        rows, inverse = unique((c.functions * size + x.functions) * size + y.functions)
        cs, xs, ys = rows // size**2, rows // size % size, rows % size
        together = t.functions.together
        taken = together(together(xs, ys, lambda a, b, _: a - b), cs, lambda d, k, _: d * k)
        return replace(c, functions=together(taken, ys, lambda d, b, _: d + b)[inverse], dtype=dtype)
    opposite = t.step(c, [("affine", -1, 1)], "BOOL")
    same, functions = (x.functions == y.functions) & t.may_move(x), x.functions
    x, y = (t.strip(v, same) for v in (x, y))  # select(c, f(x), f(y)) = f(select(c, x, y))
    one, other = (t.field.apply(t.symbol("select"), t.lanes(k), t.lanes(v)) for k, v in ((c, x), (opposite, y)))
    (a, b), (d, e) = t.limits(x), t.limits(y)
    limits = np.minimum(a, d), np.maximum(b, e)
    selected = t.root(
        t.field.reduce(one + other),
        (c.elements,),
        UNLIMITED if same.any() else dtype,
        limits if DType.of(dtype).is_integral else None,
    )
    return replace(selected, functions=np.where(same, functions, selected.functions), dtype=dtype)
