"""Rules for CONCAT with slices and pointwise operators.

A concat crosses operators in both directions, except where its operands would become wider.
The rules rewrite a vector of operands with egglog's own vector primitives, so they hold for any number of operands.

If operands can be merged, only those at the first such place are merged, so a concat of n operands becomes at most n
others.
If any two neighbours were merged, there would be one concat for each way to divide the operands, 2^n in all.
"""

from __future__ import annotations

from functools import partial

from eqsat.egraph.externs import extern
from eqsat.egraph.kinds import Concat, Index, Slice, Unary, Value, Values
from eqsat.egraph.rule import rule
from eqsat.egraph.terms import LHS, each, element, fact, joined, length, symbols
from eqsat.rules.across import axes_of
from eqsat.rules.slicing import Sliceable, slice_call
from eqsat.tensor.dtypes import DType
from eqsat.tensor.types import Type

#: Fact taken(s, concat, xs, n): what slice s of the concat of xs takes from the first n operands.
taken = fact("taken", Slice, Concat, Values, Index, gives=Values)
#: Fact stripped(xs, f, t, n): the first n operands of xs without the f that they share.
#: t is the type of the first one without f, and all have its dtype.
#: If there are several such vectors, the fact is one of them.
stripped = fact("stripped", Values, Unary, Type, Index, gives=Values)
#: Fact first_pair(concat, xs): the first place where two successive operands become one slice.
first_pair = fact("first_pair", Concat, Values, gives=Index)


def _bounds(f: Slice, concat: Concat, joined: Type, x: Type) -> tuple[int, int]:
    """Returns where slice f of a concat begins and ends within operand x, which ends where `joined` ends."""
    axis: int = concat.attr("axis")
    before = joined.shape[axis] - x.shape[axis]
    low = f.attr("start")[axis] - before
    return max(low, 0), min(low + f.attr("size")[axis], x.shape[axis])


@extern
def part(f: Slice, concat: Concat, joined: Type, x: Type) -> Slice | None:
    """Returns the slice that slice f of a concat takes from operand x, or None if it takes nothing of it.

    joined: the type of the concat up to and including x.
    """
    low, high = _bounds(f, concat, joined, x)
    start, size, axis = list(f.attr("start")), list(f.attr("size")), concat.attr("axis")
    start[axis], size[axis] = low, high - low
    return slice_call(start, size) if low < high else None


@extern
def misses(f: Slice, concat: Concat, joined: Type, x: Type) -> bool:
    """Tells whether slice f of a concat takes nothing of operand x; `joined` as in `part`."""
    low, high = _bounds(f, concat, joined, x)
    return low >= high


@extern
def both(concat: Concat, f: Slice, g: Slice) -> Slice | None:
    """Returns the single slice that equals the concat of slices f and g of one tensor.

    Returns None unless g begins where f ends along the axis of the concat.
    """
    axis, start, size = concat.attr("axis"), list(f.attr("start")), list(f.attr("size"))
    start[axis] += size[axis]
    size[axis] = g.attr("size")[axis]
    if (tuple(start), tuple(size)) != (g.attr("start"), g.attr("size")):
        return None
    size[axis] += f.attr("size")[axis]
    return slice_call(f.attr("start"), size)


@extern
def are_neighbours(concat: Concat, f: Slice, g: Slice) -> bool:
    """Tells whether slice g begins where slice f ends along the axis of the concat."""
    return both.fn(concat, f, g) is not None


@extern
def beside(call: Sliceable, concat: Concat, operand: Type, result: Type) -> bool:
    """Tells whether an operator keeps all axes and does not act along the axis of a concat."""
    return len(operand.shape) == len(result.shape) and concat.attr("axis") not in axes_of(call, operand)


@extern
def no_wider(x: Type, y: Type) -> bool:
    """Tells whether an element of x takes at most as many bytes as an element of y."""
    return DType.of(x.dtype).size <= DType.of(y.dtype).size


@extern
def same_dtype(x: Type, y: Type) -> bool:
    """Tells whether two tensors have the same dtype."""
    return x.dtype == y.dtype


s, r = symbols("s r", Slice)
f, a, concat = symbols("f", Unary), symbols("a", Sliceable), symbols("concat", Concat)
x = symbols("x", Value)
xs = symbols("xs", Values)
i, t = symbols("i", Index), symbols("t", Type)
shared = concat(xs[f(x), ...])
rule = partial(rule, family="slicing")


RULES = [
    rule("concat-single", concat([x]), x, removes=True),
    rule("slice-concat", s(concat(xs)), concat(taken(s, concat, xs, length(xs)))),
    rule("taken-first", taken(s, concat, xs, 0), [], where=s(concat(xs))),
    rule(
        "taken-next",
        taken(s, concat, xs, i + 1),
        taken(s, concat, xs, i) + [part(s, concat, joined(concat, xs, i + 1), x)(x)],
        where=element(xs, i, x),
    ),
    rule(
        "taken-nothing",
        taken(s, concat, xs, i + 1),
        taken(s, concat, xs, i),
        where=(element(xs, i, x), misses(s, concat, joined(concat, xs, i + 1), x)),
    ),
    rule(
        "pair-slices",
        first_pair(concat, xs),
        i,
        where=(concat(xs), element(xs, i, s(x)), element(xs, i + 1, r(x)), are_neighbours(concat, s, r)),
    ),
    rule(
        "concat-slices",
        concat(xs[..., s(x), r(x), ...]),
        concat(xs[..., both(concat, s, r)(x), ...]),
        where=element(xs, first_pair(concat, xs), s(x)),
    ),
    rule(
        "push-concat-unary",
        a(concat(xs)),
        concat(each(a, xs)),
        where=(beside(a, concat, concat(xs), LHS), no_wider(LHS, concat(xs))),
    ),
    rule("pull-concat-unary", concat(xs), f(concat(stripped(xs, f, t, length(xs))))),
    rule("strip-first", stripped(xs, f, x, 1), [x], where=(shared, no_wider(x, shared))),
    rule(
        "strip-next",
        stripped(xs, f, t, i + 1),
        stripped(xs, f, t, i) + [x],
        where=(element(xs, i, f(x)), same_dtype(x, t)),
    ),
]
