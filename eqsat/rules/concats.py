"""Rules for CONCAT with slices, pointwise operators and constants.

A concat crosses operators in both directions, except where its operands would become wider.
The rules rewrite a vector of operands with egglog's own vector primitives, so they hold for any number of operands.
Only the rule for a slice that spans several operands exists once for each number of operands.

If operands can be merged, only those at the first such place are merged, so a concat of n operands becomes at most n
others.
If any two neighbours were merged, there would be one concat for each way to divide the operands, 2^n in all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from eqsat.egraph.attributes import LeafValue
from eqsat.egraph.externs import extern
from eqsat.egraph.kinds import Concat, Constant, Index, Slice, Unary, Value, Values
from eqsat.egraph.rule import Rule, rule
from eqsat.egraph.terms import LHS, each, element, fact, length, let, postponed, symbols, typed
from eqsat.egraph.tree import Term, term
from eqsat.rules.crossing import axes_of
from eqsat.rules.slicing import Sliceable, slice_call
from eqsat.tensor.dtypes import DType
from eqsat.tensor.types import Shape, Type

#: Maximum number of operands that a slice may span; wider spans are rare, and each number needs a separate rule.
MOST_SPANNED = 4


@dataclass(frozen=True, slots=True)
class Span:
    """The place of a concat's operand in the result.

    start: where the operand begins along `axis` of the result.
    shape: the shape of the operand.
    """

    axis: int
    start: int
    shape: Shape

    @property
    def end(self) -> int:
        """Where the next operand begins along `axis` of the result."""
        return self.start + self.shape[self.axis]


#: Fact span(concat, xs, i, x): the place in the result of x, operand i of a concat that is sliced.
span = fact("span", Concat, Values, Index, Value, gives=Span)
#: Fact stripped(xs, f, t, n): the first n operands of xs without the f that they share.
#: t is the type of the first one without f, and all have its dtype.
#: If there are several such vectors, the fact is one of them.
stripped = fact("stripped", Values, Unary, Type, Index, gives=Values)
#: Fact first_pair(concat, xs): the first place where two successive operands become one slice or one constant.
#: Fact first_concat(concat, xs): the first place of an operand that is a concat along the same axis.
first_pair = fact("first_pair", Concat, Values, gives=Index)
first_concat = fact("first_concat", Concat, Values, gives=Index)


@extern
def first_span(concat: Concat, x: Type) -> Span:
    """Returns the place of the first operand in the result of a concat."""
    return Span(concat.attr("axis"), 0, x.shape)


@extern
def next_span(before: Span, x: Type) -> Span:
    """Returns the place of the operand that follows the operand at another place."""
    return Span(before.axis, before.end, x.shape)


@extern
def parts(f: Slice, *spans: Span) -> tuple[Slice, ...] | None:
    """Returns the slices that slice f of a concat takes from several neighbouring operands.

    Returns None unless f takes elements of each of these operands and of no others.
    """
    axis, start = spans[0].axis, f.attr("start")[spans[0].axis]
    if start < spans[0].start or start + f.attr("size")[axis] > spans[-1].end:
        return None
    taken = tuple(_part(f, s) for s in spans)
    return tuple(t for t in taken if t is not None) if None not in taken else None


def _part(f: Slice, s: Span) -> Slice | None:
    """Returns the slice that slice f takes of the operand at s, or None if it takes nothing."""
    start, size = list(f.attr("start")), list(f.attr("size"))
    low = max(start[s.axis], s.start)
    high = min(start[s.axis] + size[s.axis], s.end)
    if low >= high:
        return None
    start[s.axis], size[s.axis] = low - s.start, high - low
    return slice_call(start, size)


#: A slice adjusted to the size of its operand along one axis, by the rule "cut".
cut = postponed("cut", Slice, int)


@extern
def whole_axis(f: Slice, concat: Concat, result: Type) -> int | None:
    """Returns the axis of a concat if slice f keeps that axis whole and cuts another axis."""
    axis: int = concat.attr("axis")
    size = f.attr("size")
    return axis if size != result.shape and size[axis] == result.shape[axis] else None


@extern
def adjusted_slice(f: Slice, axis: int, x: Type) -> Slice:
    """Returns slice f changed to take all of x along the axis."""
    start, size = list(f.attr("start")), list(f.attr("size"))
    start[axis], size[axis] = 0, x.shape[axis]
    return slice_call(start, size)


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
def both_constants(concat: Concat, j: Constant, k: Constant) -> Constant:
    """Returns the single constant that equals the concat of two successive constants."""
    return LeafValue.constant(np.concatenate([j.data, k.data], concat.attr("axis")), j.node.dtype)


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


@extern
def with_dtype_of(x: Type, y: Type) -> Type:
    """Returns the type with the shape of x and the dtype of y."""
    return Type(x.shape, y.dtype)


s, r = symbols("s r", Slice)
f, a, concat = symbols("f", Unary), symbols("a", Sliceable), symbols("concat", Concat)
x, y = symbols("x y", Value)
xs, ys = symbols("xs ys", Values)
j, k = symbols("j k", Constant)
i, axis, t = symbols("i", Index), symbols("axis", int), symbols("t", Type)
shared = concat(xs[f(x), ...])
rule = partial(rule, family="slicing")


def pair(first: Term, second: Term) -> tuple[Term, ...]:
    """Returns the conditions that a concat has two successive operands, at places i and i + 1."""
    return concat(xs), element(xs, i, first), element(xs, i + 1, second)


def spanning(count: int) -> Rule:
    """Returns the rule that turns a slice of `count` operands of a concat into a concat of `count` slices."""
    operands = [symbols(f"x{n}", Value) for n in range(count)]
    spans = (span(concat, xs, i + n, x) for n, x in enumerate(operands))

    def sliced(*taken: Term) -> Term:
        slices = [t(x) for t, x in zip(taken, operands, strict=True)]
        return slices[0] if count == 1 else term(concat(slices))

    return rule(f"slice-concat-{count}", s(concat(xs)), let(parts(s, *spans), sliced))


RULES = [
    rule("concat-single", concat([x]), x, removes=True),
    *(spanning(count) for count in range(1, MOST_SPANNED + 1)),
    rule("slice-concat-beside", s(concat(xs)), concat(each(cut(s, whole_axis(s, concat, concat(xs))), xs))),
    rule("pair-slices", first_pair(concat, xs), i, where=(*pair(s(x), r(x)), are_neighbours(concat, s, r))),
    rule("pair-const", first_pair(concat, xs), i, where=pair(j, k)),
    rule("first-concat", first_concat(concat, xs), i, where=(concat(xs), element(xs, i, concat(ys)))),
    rule(
        "concat-slices",
        concat(xs[..., s(x), r(x), ...]),
        concat(xs[..., both(concat, s, r)(x), ...]),
        where=element(xs, first_pair(concat, xs), s(x)),
    ),
    rule(
        "concat-const",
        concat(xs[..., j, k, ...]),
        concat(xs[..., both_constants(concat, j, k), ...]),
        where=element(xs, first_pair(concat, xs), j),
    ),
    rule(
        "concat-flat",
        concat(xs[..., concat(ys), ...]),
        concat(xs[..., ys, ...]),
        where=element(xs, first_concat(concat, xs), concat(ys)),
    ),
    rule(
        "push-concat-unary",
        a(concat(xs)),
        concat(each(a, xs)),
        where=(beside(a, concat, concat(xs), LHS), no_wider(LHS, concat(xs))),
    ),
    rule(
        "pull-concat-unary",
        concat(xs),
        f(typed(concat(stripped(xs, f, t, length(xs))), with_dtype_of(LHS, t))),
    ),
    rule("span-first", span(concat, xs, 0, x), first_span(concat, x), where=s(concat(xs[x, ...]))),
    rule(
        "span-next",
        span(concat, xs, i + 1, y),
        next_span(span(concat, xs, i, x), y),
        where=element(xs, i + 1, y),
    ),
    rule("cut", cut(s, axis)(x), adjusted_slice(s, axis, x)(x)),
    rule("strip-first", stripped(xs, f, x, 1), [x], where=(shared, no_wider(x, shared))),
    rule(
        "strip-next",
        stripped(xs, f, t, i + 1),
        stripped(xs, f, t, i) + [x],
        where=(element(xs, i, f(x)), same_dtype(x, t)),
    ),
]
