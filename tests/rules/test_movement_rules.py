"""Data movement by itself and across operators: each rule fires, is exact, and leaves its near misses alone."""

from typing import Any

from hypothesis import strategies as st

from tests.rules import cases
from tests.rules.cases import Drawn, convolved, cut, siblings, turned  # noqa: F401 - rows use it
from tests.rules.checks import check, slices
from tests.term import Term, graph

order = st.permutations(range(4))


def one(x: Drawn) -> Any:
    """Of one operand, of each element."""
    return cases.pointwise(x, cases.widened, lambda v: v.cast("INT16"), lambda v: v("abs"))


def two(x: Drawn, y: Term) -> Any:
    return x.pick(Term.max, Term.min, Term.__gt__)(x, y)


def any_two(x: Drawn, y: Term) -> Any:
    return two(*x.draw(st.permutations([x, y])))


def axial(x: Drawn) -> Any:
    """An operator along some axes, of which none vanishes."""
    axis = x.pick(*(d for d, n in enumerate(x.shape) if n > 1))
    kind = x.pick("slice", "pad", "tile", "reverse", "max", "min", "sum")
    if kind == "slice":
        start, size = x.draw(slices(x.shape))
        keep = [n if 1 in (n, size[d]) else size[d] for d, n in enumerate(x.shape)]
        return cut(x, [0 if k == n else s for s, k, n in zip(start, keep, x.shape, strict=True)], keep)
    if kind == "pad":
        return x.pad([x.number(0, 2) if n > 1 else 0 for n in x.shape for _ in range(2)], x.number(-128, 127))
    if kind == "tile":
        return x("tile", multiples=tuple(2 if d == axis else 1 for d in range(len(x.shape))))
    return x.reverse(axis) if kind == "reverse" else x.reduce(kind, axis)


def unit_axis(x: Drawn) -> Any:
    """x tiled or padded along one of its axes of size 1."""
    axis = x.pick(*(d for d, n in enumerate(x.shape) if n == 1))
    if x.pick(True, False):
        return x("tile", multiples=tuple(x.number(2, 3) if d == axis else 1 for d in range(len(x.shape))))
    return x.pad([n for d in range(len(x.shape)) for n in ((1, 2) if d == axis else (0, 0))], 3)


def widest(x: Drawn) -> int:
    """An axis longer than 1."""
    return x.pick(*(d for d, n in enumerate(x.shape) if n > 1))


def joined(x: Drawn, axis: int, others: int = 2) -> Any:
    """A concat of x and of others like it, in any order."""
    first, *more = x.draw(st.permutations([x, *siblings(x, axis, others)]))
    return first.concat(*more, axis=axis)


def stack(x: Drawn, axis: int) -> Any:
    """x, 1 long along the axis, beside two more such."""
    first, *more = x.draw(st.permutations([x, cases.like(x), cases.like(x)]))
    return first.concat(*more, axis=axis)


def stacked_where_it_is_1(x: Drawn) -> Any:
    return stack(x, x.shape.index(1))


#: Scales that differ between three channels.
SCALES = {"multiplier": [1 << 30, 1500000000, 1100000000], "shift": [30, 31, 32], "in_zp": 2, "out_zp": -5}
of_three, with_unit = st.permutations([2, 3, 4]), st.permutations([1, 2, 3])
TABLE = """
move-move              INT8[block]           turned(turned(x))
move-move    INT8[2,3]  x.transpose(1, 0).reshape(2, 3).transpose(1, 0)  not of_inputs    # no common axes
move-identity          INT8[block]           x.reshape(*x.shape).clamp(-9, 9)
move-identity          INT8[block]           x.transpose(*range(len(x.shape))).clamp(-9, 9)
- move-identity        INT8[block]           turned(x)
- move-identity        INT8[block]           flat(x)
move-const             INT8[block]           (lambda c: c.max(x.reshape(*c.shape)))(turned(counted(x)))

push-unary             INT8[block]           turned(one(x))
pull-unary             INT8[block]           one(turned(x))
push-binary            INT8[block]           turned(any_two(x, broadcast(x)))
- push-binary          INT8[3,4] INT8[1,4] | INT8[3,4] INT8[3,1]  flat(either(x, y))  # merges y's axis that broadcasts
pull-binary-left       INT8[block]           (lambda v: two(v, broadcast(v)))(turned(x))
pull-binary-right      INT8[block]           (lambda v: two(broadcast(v), v))(turned(x))
- pull-binary-left     INT8[3,2,1] INT8[2,3,4]  x.transpose(1, 0, 2).max(y)           # is not the result's movement
push-select            INT8[block]           turned((x > like(x))('select', x, like(x)))
pull-select-0          INT8[block]           (lambda v: v('select', like(v), like(v)))(turned(x > x))
pull-select-1          INT8[block]           (lambda v: (like(v) > like(v))('select', v, like(v)))(turned(x))
pull-select-2          INT8[block]           (lambda v: (like(v) > like(v))('select', like(v), v))(turned(x))

push-unary             INT32[of_three]       turned(axial(x))
pull-unary             INT32[of_three]       axial(turned(x))
push-unary             INT8[4,3,2]           x.part(1, 2).reshape(6, 2)               # of the outer factor
- push-unary           INT8[4,3,2]           x.part(1, 2, 1).reshape(8, 2)            # of the inner factor
- pull-unary           INT8[3,4]             flat(x).part(2, x.pick(3, 5))            # ends within a split axis
pull-units             INT8[with_unit]       unit_axis(turned(x))
push-units             INT8[with_unit]       turned(unit_axis(x))
push-units             INT8[with_unit]       flat(turned(unit_axis(x)))               # merged into others
- pull-units           INT8[2,1,3]           turned(x)('tile', multiples=(2, 1, 1))   # has a place in the order
- push-units           INT8[1,3]             x('tile', multiples=(4, 1)).reshape(2, 2, 3)  # the new axis is split
pull-unary             INT8[2,3,3]           x.transpose(1, 0, 2).rescale('INT8', **SCALES)
push-unary             INT8[2,3,3]           x.rescale('INT8', **SCALES).transpose(1, 0, 2)
- pull-unary           INT8[2,3,3]           x.transpose(0, 2, 1).rescale('INT8', **SCALES)
- push-unary           INT8[2,3,3]           x.rescale('INT8', **SCALES).transpose(0, 2, 1)

push-concat            INT8[block]           turned(joined(x, axis_of(x)))
pull-concat            INT8[block]           (lambda v: joined(v, widest(v)))(turned(x))
pull-concat-units      INT8[with_unit]       stacked_where_it_is_1(turned(x))
- push-concat          INT8[2,3]             flat(joined(x, 1, 1))                    # ends up inside a merged axis
- pull-concat          INT8[4,3,2]           joined(x.transpose(1, 0, 2).reshape(12, 2), 0, 1)  # the view made
push-concat-units      INT8[3,2,1,4]         stack(x, 2).transpose(*order)
push-concat-units      INT8[3,2,1,4]         flat(stack(x, 2).transpose(*order))      # interleaved
- push-concat-units    INT8[3,2]             flat(x.concat(*siblings(x, 1, 1), axis=1))  # longer than 1
"""
test_fires_and_is_exact, test_spares_near_misses = cases.of_table(globals(), TABLE, fires_on=12, spares=4)


def test_a_residual_block_keeps_no_movement():
    """Both branches and the shortcut carry the same movement: it ends up on the outside, where it meets its inverse."""

    def block(x: Term) -> Term:
        nchw = x.transpose(0, 3, 1, 2)
        return nchw.clamp(-50, 50).max(cases.looked_up(nchw)).transpose(0, 2, 3, 1)

    frozen = check(graph("x:INT8[1,4,5,3]", block))
    (x,) = (frozen.handle[n] for n in frozen.source.inputs)
    assert any(
        e.op == "maximum" and all(any(f.children == (x,) for f in frozen.classes[c]) for c in e.children)
        for e in frozen.classes[frozen.handle[frozen.source.outputs[0]]]
    )
