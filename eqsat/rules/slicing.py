"""Rules for slices, pads and concats: they merge them, move them across other operators, and fuse slices and pads into
convolutions and pooling operators.

A slice moves towards the inputs, because it makes the tensors that it passes smaller.
A pad moves towards the outputs, where it may become the padding of a convolution.
A concat crosses operators in both directions, except where its operands would become wider.
Removals delete the e-node that does nothing, so that no e-class can be computed from itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from math import prod
from typing import Annotated

import numpy as np

from eqsat.egraph.kinds import (
    Call,
    Concat,
    Constant,
    Conv2d,
    LeafValue,
    MaxPool,
    Pad,
    PaddingConvolution,
    Single,
    Slice,
    Unary,
    Value,
    Values,
    op,
    such,
)
from eqsat.egraph.rule import rule
from eqsat.egraph.terms import LHS, each, element, extern, fact, joined, length, let, symbols
from eqsat.rules.across import along_of, axes_of, take_along
from eqsat.rules.quantized import evaluate_table
from eqsat.rules.weights import is_product, kernel_of
from eqsat.tensor.ops import OPS, evaluate_op, infer
from eqsat.tensor.types import DType, GraphError, Type, attrs_of

#: Maximum number of elements of a slice before a convolution, as a share of the elements of the slice behind it.
_FEWER = 0.5

SliceOrPad = Annotated[Call, op("slice", "pad")]
#: An operator of one operand that a slice along other axes crosses; separate rules merge it with slices and pads.
Sliceable = Annotated[Call, such("sliceable", Single, lambda call: call.op not in ("slice", "pad"))]


def slice_call(start: Iterable[int], size: Iterable[int]) -> Call:
    """Returns a SLICE; start and size are in elements, by axis."""
    return Call("slice", attrs_of({"start": tuple(start), "size": tuple(size)}))


@extern
def does_nothing(f: SliceOrPad, x: Type) -> bool:
    """Tells whether a slice takes all elements, or a pad adds none."""
    return bool(f.attr("size") == x.shape) if f.op == "slice" else not any(f.attr("pads"))


@extern
def takes_channels(f: Slice, x: Type) -> bool:
    """Tells whether a slice cuts no axis but the last one."""
    return bool(f.attr("size")[:-1] == x.shape[:-1])


@extern
def constant_part(f: SliceOrPad, leaf: Constant) -> Constant:
    """Returns a constant after a slice or pad."""
    t = infer(f.op, f.attrs, [leaf.type])
    return LeafValue.constant(evaluate_op(f.op, f.attrs, [leaf.data], t), leaf.node.dtype)


# ---- slices -------------------------------------------------------------------------------------


@extern
def after(f: Slice, g: Slice) -> Slice:
    """Returns the single slice that equals slice g followed by slice f."""
    return slice_call((a + b for a, b in zip(f.attr("start"), g.attr("start"), strict=True)), f.attr("size"))


@extern
def exchange(f: Slice, g: Sliceable, x: Type, result: Type) -> tuple[Sliceable, Slice] | None:
    """Returns g' and f' such that f (g x) = g' (f' x), for a slice f of operator g.

    f' takes all of an axis along which g acts; the result is None if f does not.
    Attributes that follow the axis, such as scales, are sliced with it.
    """
    start, size = list(f.attr("start")), list(f.attr("size"))
    if len(x.shape) != len(result.shape):
        return None
    for d in axes_of(g, x):
        if along_of(g).following:
            g = take_along(g, range(start[d], start[d] + size[d]))
        elif size[d] != result.shape[d]:
            return None
        else:
            start[d], size[d] = 0, x.shape[d]
    return g, slice_call(start, size)


# ---- slices of windows --------------------------------------------------------------------------


def _find_taps(f: Call, x: Type, result: Type, kernel: tuple[int, int], axis: int) -> range:
    """Returns the taps along H (0) or W (1), without outer taps that see only padding, at most as many as the
    padding is long."""
    stride, dilation, size = f.attr("stride")[axis], f.attr("dilation")[axis], x.shape[1 + axis]
    low, high = f.attr("pad")[2 * axis : 2 * axis + 2]
    first = [tap * dilation - low for tap in range(kernel[axis])]
    seen = [
        tap for tap, at in enumerate(first) if any(0 <= at + stride * r < size for r in range(result.shape[1 + axis]))
    ] or [0]
    most = kernel[axis] - 1 - high // dilation
    return range(min(seen[0], low // dilation), max(seen[-1], most) + 1)


@extern
def without_unseen(
    f: PaddingConvolution, x: Type, weights: Constant, result: Type
) -> tuple[PaddingConvolution, Constant] | None:
    """Returns f' and weights' such that f x weights = f' x weights', without outer taps that see only padding.

    A kernel that is larger than the image has such taps.
    Padding has the value of the zero point, so it adds nothing.
    """
    kernel, at = kernel_of(f, weights.node.shape), OPS[f.op].kernel_axis
    taps = [_find_taps(f, x, result, kernel, axis) for axis in (0, 1)]
    if [len(t) for t in taps] == list(kernel):
        return None
    pads, kept = list(f.attr("pad")), weights.data
    for axis, t in enumerate(taps):
        pads[2 * axis] -= t[0] * f.attr("dilation")[axis]
        pads[2 * axis + 1] -= (kernel[axis] - len(t) - t[0]) * f.attr("dilation")[axis]
        kept = kept.take(t, at + axis)
    return f.with_attrs(pad=tuple(pads)), LeafValue.constant(kept, weights.node.dtype)


@extern
def slice_input(
    s: Slice, f: PaddingConvolution, x: Type, weights: Type, result: Type
) -> tuple[PaddingConvolution, Slice] | None:
    """Returns f' and s' such that s (f x weights) = f' (s' x) weights, for a slice s of images, rows and columns.

    s' takes the elements that the windows of these results see, and f' pads where they see padding.
    A slice is often a copy, so s' must have far fewer elements than s (`_FEWER`).
    """
    (n, *starts, _), (images, *sizes, channels) = s.attr("start"), s.attr("size")
    if channels != result.shape[3] or s.attr("size") == result.shape:
        return None
    kernel, first, count, pads = kernel_of(f, weights.shape), [], [], []
    for k in (0, 1):
        stride, low = f.attr("stride")[k], f.attr("pad")[2 * k]
        begin = starts[k] * stride - low
        end = begin + (sizes[k] - 1) * stride + (kernel[k] - 1) * f.attr("dilation")[k] + 1
        first.append(max(begin, 0))
        count.append(min(end, x.shape[1 + k]) - first[-1])
        pads += [max(-begin, 0), max(end - x.shape[1 + k], 0)]
    if min(count) < 1 or images * prod(count) * x.shape[3] > _FEWER * prod(s.attr("size")):
        return None
    return f.with_attrs(pad=tuple(pads)), slice_call((n, *first, 0), (images, *count, x.shape[3]))


@extern
def slice_later(s: Slice, x: Type, weights: Type) -> Slice | None:
    """Returns s' such that f (s x) weights = s' (f x weights), for a slice s of all channels.

    The steps of a recurrent network multiply many slices of a tensor by one matrix.
    With this rule, these products become a single one.
    """
    size = s.attr("size")
    return slice_call(s.attr("start"), (*size[:3], weights.shape[0])) if size[3] == x.shape[3] else None


# ---- pads ---------------------------------------------------------------------------------------


def _pads(f: Call) -> list[tuple[int, int]]:
    p = f.attr("pads")
    return list(zip(p[::2], p[1::2], strict=True))


def _with_pads(f: Call, pads: Iterable[tuple[int, int]]) -> Call:
    return f.with_attrs(pads=tuple(n for pair in pads for n in pair))


@extern
def pad_later(f: Slice, g: Pad, x: Type) -> tuple[Pad, Slice] | None:
    """Returns g' and f' such that f (g x) = g' (f' x), for a slice f of a pad g.

    f' is the part of slice f that lies in x, and g' is the part of the pad that f keeps.
    Returns None if f takes nothing of x.
    """
    low = [s - before for s, (before, _) in zip(f.attr("start"), _pads(g), strict=True)]
    high = [a + n for a, n in zip(low, f.attr("size"), strict=True)]
    start = [max(a, 0) for a in low]
    size = [min(b, n) - a for a, b, n in zip(start, high, x.shape, strict=True)]
    if min(size) < 1:
        return None
    kept = _with_pads(g, ((max(-a, 0), max(b - n, 0)) for a, b, n in zip(low, high, x.shape, strict=True)))
    return kept, slice_call(start, size)


@extern
def add_pads(f: Pad, g: Pad) -> Pad | None:
    """Returns two successive pads with the same value as one pad."""
    if f.attr("value") != g.attr("value"):
        return None
    return _with_pads(f, ((a + c, b + d) for (a, b), (c, d) in zip(_pads(f), _pads(g), strict=True)))


@extern
def with_image(f: Pad, g: Unary, x: Type) -> Pad | None:
    """Returns a pad whose value is operator g applied to the value of pad f."""
    if not DType.of(x.dtype).is_integral:
        return None
    try:
        value, dtype = evaluate_table(g, (np.array(f.attr("value"), DType.of(x.dtype).storage), x.dtype))
    except GraphError:
        return None
    return f.with_attrs(value=(int(value[0]),)) if DType.of(dtype).is_integral else None


def _grown(pad: tuple[int, ...], p: Call, kernel: tuple[int, int]) -> tuple[int, ...] | None:
    """Returns the sum of a window's pad and of PAD p, or None unless p pads only H and W, and Vela allows it for the
    kernel."""
    n, h, w, c = _pads(p)
    if any(n) or any(c) or not any((*h, *w)):
        return None
    out = tuple(a + b for a, b in zip(pad, (*h, *w), strict=True))
    return out if max(out[:2]) < kernel[0] and max(out[2:]) < kernel[1] else None


@extern
def padding(f: PaddingConvolution, p: Pad, weights: Type) -> PaddingConvolution | None:
    """Returns a convolution whose own padding replaces the PAD before it.

    The padding of a convolution has the value in_zp, so the result is None for a PAD with another value.
    """
    if p.attr("value") != f.attr("in_zp"):
        return None
    (height, width), (down, right) = kernel_of(f, weights.shape), f.attr("dilation")
    grown = _grown(f.attr("pad"), p, ((height - 1) * down + 1, (width - 1) * right + 1))
    return None if grown is None else f.with_attrs(pad=grown)


@extern
def padding_pool(f: MaxPool, p: Pad, x: Type) -> MaxPool | None:
    """Returns a max pool whose own padding replaces the PAD before it, if the PAD's value is the minimum of its dtype.

    A max pool ignores its padding, as if it had the minimum value.
    An average pool does not count its padding, so there is no such rule for it.
    """
    if not DType.of(x.dtype).is_integral or p.attr("value")[0] != DType.of(x.dtype).limits[0]:
        return None
    grown = _grown(f.attr("pad"), p, f.attr("kernel"))
    return None if grown is None else f.with_attrs(pad=grown)


# ---- concats ------------------------------------------------------------------------------------
#
# The rules rewrite a vector of operands with egglog's own vector primitives, so they hold for any number of operands.
# If operands can be merged, only those at the first such place are merged, so a concat of n operands becomes at most n
# others. If any two neighbours were merged, there would be one concat for each way to divide the operands, 2^n in all.

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
p, q = symbols("p q", Pad)
either, a = symbols("either", SliceOrPad), symbols("a", Sliceable)
f = symbols("f", Unary)
full = symbols("full", Conv2d)
conv, pool = symbols("conv", PaddingConvolution), symbols("pool", MaxPool)
k = symbols("k", Constant)
x, w, b = symbols("x w b", Value)
concat, xs, i = symbols("concat", Concat), symbols("xs", Values), symbols("i", int)
rule = partial(rule, family="slicing")

RULES = [
    rule("axial-nothing", either(x), x, where=does_nothing(either, x), removes=True),
    rule("slice-const", either(k), constant_part(either, k)),
    rule("slice-slice", s(r(x)), after(s, r)(x)),
    rule("slice-unary", s(a(x)), let(exchange(s, a, x, a(x)), lambda b, r: b(r(x)))),
    rule(
        "slice-conv-window",
        s(conv(x, w, b)),
        let(slice_input(s, conv, x, w, conv(x, w, b)), lambda g, r: g(r(x), w, b)),
    ),
    rule("product-of-slice", full(s(x), w, b), slice_later(s, x, w)(full(x, w, b)), where=is_product(full, w)),
    rule("conv-unseen-taps", conv(x, k, b), let(without_unseen(conv, x, k, conv(x, k, b)), lambda g, v: g(x, v, b))),
    rule("slice-pad", s(p(x)), let(pad_later(s, p, x), lambda q, r: q(r(x)))),
    rule("pad-pad", p(q(x)), add_pads(p, q)(x)),
    rule("pad-unary", f(p(x)), with_image(p, f, x)(f(x))),
    rule("pad-conv", conv(p(x), w, b), padding(conv, p, w)(x, w, b)),
    rule("pad-pool", pool(p(x)), padding_pool(pool, p, x)(x)),
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
