"""Rules for CONCAT with slices and pointwise operators.

A concat crosses operators in both directions, except where its operands would become wider.
The rules rewrite a vector of operands with egglog's own vector primitives, so they hold for any number of operands.
Only the rule for a slice that spans several operands exists once for each number of operands.

If operands can be merged, only those at the first such place are merged, so a concat of n operands becomes at most n
others.
If any two neighbours were merged, there would be one concat for each way to divide the operands, 2^n in all.
"""

from __future__ import annotations

from functools import partial
from itertools import accumulate

from eqsat.egraph.externs import extern
from eqsat.egraph.kinds import Concat, Index, Slice, Unary, Value, Values
from eqsat.egraph.rule import Rule, rule
from eqsat.egraph.terms import LHS, each, element, fact, joined, length, let, postpone, symbols
from eqsat.egraph.tree import Term, term
from eqsat.rules.across import axes_of
from eqsat.rules.slicing import Sliceable, slice_call
from eqsat.tensor.dtypes import DType
from eqsat.tensor.types import Type

#: Maximum number of operands that a slice may span; wider spans are rare, and each number needs a separate rule.
MOST_SPANNED = 4


#: Fact stripped(xs, f, t, n): the first n operands of xs without the f that they share.
#: t is the type of the first one without f, and all have its dtype.
#: If there are several such vectors, the fact is one of them.
stripped = fact("stripped", Values, Unary, Type, Index, gives=Values)
#: Fact first_pair(concat, xs): the first place where two successive operands become one slice.
first_pair = fact("first_pair", Concat, Values, gives=Index)


@extern
def parts(f: Slice, concat: Concat, first: Type, *operands: Type) -> tuple[Slice, ...] | None:
    """Returns the slices that slice f of a concat takes from several neighbouring operands.

    first: the type of the concat up to the first of these operands.
    Returns None unless f takes elements of each of these operands and of no others.
    """
    axis: int = concat.attr("axis")
    ends = list(accumulate((x.shape[axis] for x in operands[1:]), initial=first.shape[axis]))
    starts = [first.shape[axis] - operands[0].shape[axis], *ends[:-1]]
    low, high = f.attr("start")[axis], f.attr("start")[axis] + f.attr("size")[axis]
    if not (starts[0] <= low < ends[0] and starts[-1] < high <= ends[-1]):
        return None
    return tuple(
        _within(f, axis, max(low - start, 0), min(high, end) - max(low, start))
        for start, end in zip(starts, ends, strict=True)
    )


def _within(f: Slice, axis: int, start: int, size: int) -> Slice:
    """Returns slice f with another start and size along an axis."""
    starts, sizes = list(f.attr("start")), list(f.attr("size"))
    starts[axis], sizes[axis] = start, size
    return slice_call(starts, sizes)


#: A slice adjusted to the size of its operand along one axis, by the rule "cut".
cut = postpone("cut", Slice, int)


@extern
def whole_axis(f: Slice, concat: Concat, result: Type) -> int | None:
    """Returns the axis of a concat if slice f keeps that axis whole and cuts another axis."""
    axis: int = concat.attr("axis")
    size = f.attr("size")
    return axis if size != result.shape and size[axis] == result.shape[axis] else None


@extern
def adjust_slice(f: Slice, axis: int, x: Type) -> Slice:
    """Returns slice f changed to take all of x along the axis."""
    return _within(f, axis, 0, x.shape[axis])


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
i, axis, t = symbols("i", Index), symbols("axis", int), symbols("t", Type)
shared = concat(xs[f(x), ...])
rule = partial(rule, family="slicing")


def spanning(count: int) -> Rule:
    """Returns the rule that turns a slice of `count` operands of a concat into a concat of `count` slices."""
    operands = [symbols(f"x{n}", Value) for n in range(count)]
    there = tuple(element(xs, i + n, x) for n, x in enumerate(operands))

    def sliced(*taken: Term) -> Term:
        slices = [t(x) for t, x in zip(taken, operands, strict=True)]
        return slices[0] if count == 1 else term(concat(slices))

    return rule(
        f"slice-concat-{count}",
        s(concat(xs)),
        let(parts(s, concat, joined(concat, xs, i + 1), *operands), sliced),
        where=there,
    )


RULES = [
    rule("concat-single", concat([x]), x, removes=True),
    *(spanning(count) for count in range(1, MOST_SPANNED + 1)),
    rule("slice-concat-beside", s(concat(xs)), concat(each(cut(s, whole_axis(s, concat, concat(xs))), xs))),
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
    rule("cut", cut(s, axis)(x), adjust_slice(s, axis, x)(x)),
    rule("strip-first", stripped(xs, f, x, 1), [x], where=(shared, no_wider(x, shared))),
    rule(
        "strip-next",
        stripped(xs, f, t, i + 1),
        stripped(xs, f, t, i) + [x],
        where=(element(xs, i, f(x)), same_dtype(x, t)),
    ),
]
