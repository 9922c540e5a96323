"""Rules for CONCAT with slices and pointwise operators.

A concat crosses operators in both directions, except where its operands would become wider.
The rules rewrite a vector of operands with egglog's own vector primitives, so they hold for any number of operands.

If operands can be merged, only those at the first such place are merged, so a concat of n operands becomes at most n
others.
If any two neighbours were merged, there would be one concat for each way to divide the operands, 2^n in all.
"""

from __future__ import annotations

from functools import partial

from eqsat.egraph.kinds import Concat, Slice, Value, Values
from eqsat.egraph.rule import rule
from eqsat.egraph.terms import LHS, each, element, extern, fact, joined, length, symbols
from eqsat.rules.across import axes_of
from eqsat.rules.slicing import Sliceable, slice_call
from eqsat.tensor.types import DType, Type

#: Fact taken(s, concat, xs, n): what slice s of the concat of xs takes from the first n operands.
taken = fact("taken", Slice, Concat, Values, int, gives=Values)
#: Fact first_pair(concat, xs): the first place where two successive operands become one slice.
first_pair = fact("first_pair", Concat, Values, gives=int)


@extern
def part(f: Slice, concat: Concat, joined: Type, x: Type) -> Slice | None:
    """Returns the slice that slice f of a concat takes from operand x, or None if it takes nothing of it.

    joined: the type of the concat up to and including x.
    """
    axis, start, size = concat.attr("axis"), list(f.attr("start")), list(f.attr("size"))
    low = start[axis] - (joined.shape[axis] - x.shape[axis])
    start[axis] = max(low, 0)
    size[axis] = min(low + size[axis], x.shape[axis]) - start[axis]
    return slice_call(start, size) if size[axis] > 0 else None


@extern
def misses(f: Slice, concat: Concat, joined: Type, x: Type) -> bool:
    """Tells whether slice f of a concat takes nothing of operand x; `joined` as in `part`."""
    return part.fn(f, concat, joined, x) is None


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


s, r = symbols("s r", Slice)
a, concat = symbols("a", Sliceable), symbols("concat", Concat)
x = symbols("x", Value)
xs = symbols("xs", Values)
i = symbols("i", int)
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
]
