"""Concat, slice and pad: their algebra among themselves, across pointwise ops, and into convolutions and pools.

A slice goes towards the inputs (it shrinks what it passes), a pad towards the outputs (there a convolution may take it), a
concat both ways, but never where its operands would be wider than now. A vector of operands is rewritten with egglog's own
vector primitives, so these rules hold for any number of operands; only a slice that spans operands has a rule per number.
Removals delete the e-node that does nothing: a class keeps no way to compute itself from itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eqsat.egraph.attributes import Call, LeafValue
from eqsat.egraph.engine import Extern, Rule
from eqsat.tensor.dtypes import DType
from eqsat.tensor.ops import evaluate_op, infer
from eqsat.tensor.types import GraphError, Shape, Type, attrs_of

#: The most operands that a slice may span; wider spans are rare and every number is a rule of its own.
MOST_SPANNED = 4


@dataclass(frozen=True, slots=True)
class Span:
    """Where an operand of a concat lies: it begins at `start` along `axis` of the result."""

    axis: int
    start: int
    shape: Shape

    @property
    def end(self) -> int:
        return self.start + self.shape[self.axis]


def _cut(start, size) -> Call:
    return Call("slice", attrs_of({"start": tuple(start), "size": tuple(size)}))


def _first_span(g: Call, x: Type):
    return (Span(g.attr("axis"), 0, x.shape),)


def _next_span(before: Span, x: Type):
    return (Span(before.axis, before.end, x.shape),)


# ---- slices -------------------------------------------------------------------------------------


def _does_nothing(f: Call, x: Type):
    """A slice that covers everything or a pad by nothing."""
    return (
        () if (f.op == "slice" and f.attr("size") == x.shape) or (f.op == "pad" and not any(f.attr("pads"))) else None
    )


def _slice_slice(f: Call, g: Call):
    if (f.op, g.op) != ("slice", "slice"):
        return None
    return (_cut((a + b for a, b in zip(f.attr("start"), g.attr("start"), strict=True)), f.attr("size")),)


def _slice_for(f: Call, x: Type):
    """The slice of an operand that broadcasts: what f does to its result, except along the broadcast axes."""
    if f.op != "slice" or len(f.attr("size")) != len(x.shape):
        return None
    return (
        _cut(
            (0 if n == 1 else s for s, n in zip(f.attr("start"), x.shape, strict=True)),
            (1 if n == 1 else s for s, n in zip(f.attr("size"), x.shape, strict=True)),
        ),
    )


def _slice_axial(f: Call, g: Call, x: Type):
    """slice f (g x) = g' (slice f' x): g a reduction that f leaves whole, or a per-channel rescale, whose scales are sliced."""
    if f.op != "slice":
        return None
    start, size = list(f.attr("start")), list(f.attr("size"))
    if g.op == "rescale":
        channels = slice(start[-1], start[-1] + size[-1])
        return g.with_attrs(multiplier=g.attr("multiplier")[channels], shift=g.attr("shift")[channels]), f
    if g.op.startswith("reduce_"):
        start[g.attr("axis")], size[g.attr("axis")] = 0, x.shape[g.attr("axis")]
        return g, _cut(start, size)
    return None


def _slice_const(f: Call, leaf: LeafValue):
    node = leaf.node
    if f.op not in ("slice", "pad") or not leaf.is_const or DType.of(node.dtype).carried:
        return None
    t = infer(f.op, f.attrs, [Type(node.shape, node.dtype)])
    return (LeafValue.constant(evaluate_op(f.op, f.attrs, [node.attr("value").data], t), node.dtype),)


# ---- slices of concats --------------------------------------------------------------------------


def _part(f: Call, s: Span) -> Call | None:
    """What slice f takes from the operand at s, or None."""
    start, size = list(f.attr("start")), list(f.attr("size"))
    low = max(start[s.axis], s.start)
    high = min(start[s.axis] + size[s.axis], s.end)
    if low >= high:
        return None
    start[s.axis], size[s.axis] = low - s.start, high - low
    return _cut(start, size)


def _slice_spans(f: Call, *spans: Span):
    """The parts of neighbouring operands that slice f takes, when these are all that it takes and it takes of each."""
    if f.op != "slice":
        return None
    axis = spans[0].axis
    start = f.attr("start")[axis]
    if start < spans[0].start or start + f.attr("size")[axis] > spans[-1].end:
        return None
    parts = tuple(_part(f, s) for s in spans)
    return None if None in parts else parts


def _slice_beside(f: Call, g: Call, result: Type):
    """(axis) of concat g, if slice f leaves that axis whole."""
    axis = g.attr("axis")
    return (
        (axis,)
        if f.op == "slice" and f.attr("size") != result.shape and f.attr("size")[axis] == result.shape[axis]
        else None
    )


def _cut_operand(f: Call, axis: int, x: Type):
    start, size = list(f.attr("start")), list(f.attr("size"))
    start[axis], size[axis] = 0, x.shape[axis]
    return (_cut(start, size),)


# ---- concats ------------------------------------------------------------------------------------


def _contiguous(g: Call, a: Call, b: Call):
    """Slices a and b of one tensor, b beginning where a ends along the axis of concat g: the slice that is both."""
    if (a.op, b.op) != ("slice", "slice"):
        return None
    axis, start, size = g.attr("axis"), list(a.attr("start")), list(a.attr("size"))
    start[axis] += size[axis]
    size[axis] = b.attr("size")[axis]
    if (tuple(start), tuple(size)) != (b.attr("start"), b.attr("size")):
        return None
    size[axis] += a.attr("size")[axis]
    return (_cut(a.attr("start"), size),)


def _concat_const(g: Call, a: LeafValue, b: LeafValue):
    if not (a.is_const and b.is_const) or DType.of(a.node.dtype).carried:
        return None
    return (
        LeafValue.constant(
            np.concatenate([a.node.attr("value").data, b.node.attr("value").data], g.attr("axis")), a.node.dtype
        ),
    )


def _no_wider(a: Type, b: Type):
    return () if DType.of(a.dtype).size <= DType.of(b.dtype).size else None


# ---- pads ---------------------------------------------------------------------------------------


def _pads(f: Call) -> list[tuple[int, int]]:
    p = f.attr("pads")
    return list(zip(p[::2], p[1::2], strict=True))


def _with_pads(f: Call, pads) -> Call:
    return f.with_attrs(pads=tuple(n for pair in pads for n in pair))


def _slice_pad(f: Call, g: Call, x: Type):
    """slice f (pad g x) = pad g' (slice f' x): where f meets x, and what of the pad it keeps."""
    if (f.op, g.op) != ("slice", "pad"):
        return None
    low = [s - before for s, (before, _) in zip(f.attr("start"), _pads(g), strict=True)]
    high = [a + n for a, n in zip(low, f.attr("size"), strict=True)]
    start = [max(a, 0) for a in low]
    size = [min(b, n) - a for a, b, n in zip(start, high, x.shape, strict=True)]
    if min(size) < 1:
        return None
    return _with_pads(g, ((max(-a, 0), max(b - n, 0)) for a, b, n in zip(low, high, x.shape, strict=True))), _cut(
        start, size
    )


def _pad_pad(f: Call, g: Call):
    if (f.op, g.op) != ("pad", "pad") or f.attr("value") != g.attr("value"):
        return None
    return (_with_pads(f, ((a + c, b + d) for (a, b), (c, d) in zip(_pads(f), _pads(g), strict=True))),)


def image(f: Call, value: int, dtype: str) -> tuple[int, str] | None:
    """Value and dtype of pointwise f on one integer, or None."""
    if not DType.of(dtype).is_integral:
        return None
    try:
        t = infer(f.op, f.attrs, [Type((1,), dtype)])
        out = evaluate_op(f.op, f.attrs, [np.array([value], DType.of(dtype).storage)], t)
    except GraphError:
        return None
    return (int(out[0]), t.dtype) if DType.of(t.dtype).is_integral else None


def _pad_unary(g: Call, f: Call, x: Type):
    """g (pad f x) = pad f' (g x): the padded value goes through g."""
    found = image(g, f.attr("value")[0], x.dtype) if f.op == "pad" else None
    return None if found is None else (f.with_attrs(value=(found[0],)),)


def _grown(pad: tuple[int, ...], p: Call, kernel: tuple[int, int]) -> tuple[int, ...] | None:
    """A window's pad with those of PAD p added, if p pads H and W only and the pads stay below the kernel, as Vela wants them."""
    n, h, w, c = _pads(p)
    if any(n) or any(c) or not any((*h, *w)):
        return None
    out = tuple(a + b for a, b in zip(pad, (*h, *w), strict=True))
    return out if max(out[:2]) < kernel[0] and max(out[2:]) < kernel[1] else None


def _pad_conv(f: Call, p: Call, weights: Type):
    """The convolution that pads by itself: its padding is worth in_zp."""
    if p.op != "pad" or f.op not in ("conv2d", "depthwise_conv2d") or p.attr("value") != f.attr("in_zp"):
        return None
    sides = weights.shape[1:3] if f.op == "conv2d" else weights.shape[:2]
    grown = _grown(f.attr("pad"), p, tuple((k - 1) * d + 1 for k, d in zip(sides, f.attr("dilation"), strict=True)))
    return None if grown is None else (f.with_attrs(pad=grown),)


def _pad_pool(f: Call, p: Call, x: Type):
    """A max pool ignores its padding, as if it were the least value. An average pool does not count it: no such rule."""
    if (
        p.op != "pad"
        or f.op != "max_pool2d"
        or not DType.of(x.dtype).is_integral
        or p.attr("value")[0] != DType.of(x.dtype).limits[0]
    ):
        return None
    grown = _grown(f.attr("pad"), p, f.attr("kernel"))
    return None if grown is None else (f.with_attrs(pad=grown),)


EXTERNS = [
    Extern("first_span", 2, 1, _first_span),
    Extern("next_span", 2, 1, _next_span),
    Extern("does_nothing", 2, 0, _does_nothing),
    Extern("slice_slice", 2, 1, _slice_slice),
    Extern("is_slice", 1, 0, lambda f: () if f.op == "slice" else None),
    Extern("slice_for", 2, 1, _slice_for),
    Extern("slice_axial", 3, 2, _slice_axial),
    Extern("slice_const", 2, 1, _slice_const),
    *(Extern(f"slice_spans{k}", k + 1, k, _slice_spans) for k in range(1, MOST_SPANNED + 1)),
    Extern("slice_beside", 3, 1, _slice_beside),
    Extern("cut_operand", 3, 1, _cut_operand),
    Extern("contiguous", 3, 1, _contiguous),
    Extern("concat_const", 3, 1, _concat_const),
    Extern("no_wider", 2, 0, _no_wider),
    Extern("same_dtype", 2, 0, lambda s, u: () if s.dtype == u.dtype else None),
    Extern("with_dtype_of", 2, 1, lambda s, u: (Type(s.shape, u.dtype),)),
    Extern("slice_pad", 3, 2, _slice_pad),
    Extern("pad_pad", 2, 1, _pad_pad),
    Extern("pad_unary", 3, 1, _pad_unary),
    Extern("pad_conv", 3, 1, _pad_conv),
    Extern("pad_pool", 3, 1, _pad_pool),
]

R = Rule.of("slicing")


def _spanning(k: int) -> Rule:
    """slice f (concat xs) where f takes of k neighbouring operands."""
    body = ["(= t (Ax f (Cat g xs)))", "(span g xs i0 x0 r0)"]
    for n in range(1, k):
        body += [f"(= i{n} (+ i{n - 1} 1))", f"(span g xs i{n} x{n} r{n})"]
    parts = [f"(Ax f{n} x{n})" for n in range(k)]
    whole = parts[0] if k == 1 else f"(Cat g (vec-of {' '.join(parts)}))"
    statement = (
        "a slice of one operand of a concat = a slice of that operand"
        if k == 1
        else f"a slice that spans {k} operands = concat of {k} slices"
    )
    return R(
        f"slice-concat-{k}",
        statement,
        tuple(body),
        f"(union t {whole})",
        (" ".join(f"f{n}" for n in range(k)), f"slice_spans{k}", f"f {' '.join(f'r{n}' for n in range(k))}"),
    )


HELPERS = [
    R(
        "span-first",
        "where the first operand of a sliced concat lies",
        ("(= t (Ax f (Cat g xs)))", "(element xs 0 x)", "(= s (type x))"),
        "(span g xs 0 x r)",
        ("", "is_slice", "f"),
        ("r", "first_span", "g s"),
        analysis=True,
    ),
    R(
        "span-next",
        "where the following operands lie",
        ("(span g xs i w q)", "(= j (+ i 1))", "(element xs j x)", "(= s (type x))"),
        "(span g xs j x r)",
        ("r", "next_span", "q s"),
        analysis=True,
    ),
    R(
        "cut",
        "a slice adjusted to one operand of a concat",
        ("(= t (Cut f a x))", "(= s (type x))"),
        "(union t (Ax r x))",
        ("r", "cut_operand", "f a s"),
    ),
    R(
        "split-first",
        "a vector with a concat in it, split before its first element",
        ("(= t (Cat g xs))", "(element xs i (Cat g ys))"),
        "(split xs 0 (vec-empty) xs)",
        analysis=True,
    ),
    R(
        "split-next",
        "the same, split before the following ones",
        ("(split xs i p q)", "(< 0 (vec-length q))", "(= j (+ i 1))"),
        "(split xs j (vec-push p (vec-get q 0)) (vec-remove q 0))",
        analysis=True,
    ),
    R(
        "strip-first",
        "operands of a concat without the f that they share: the first",
        ("(= t (Cat g xs))", "(element xs 0 (P1 f x))", "(= s (type t))", "(= u (type x))"),
        "(set (stripped xs f u 1) (vec-of x))",
        ("", "no_wider", "u s"),
        analysis=True,
    ),
    R(
        "strip-next",
        "the following ones",
        ("(= ys (stripped xs f u i))", "(element xs i (P1 f x))", "(= s (type x))", "(= j (+ i 1))"),
        "(set (stripped xs f u j) (vec-push ys x))",
        ("", "same_dtype", "s u"),
        analysis=True,
    ),
]

RULES = [
    R(
        "axial-nothing",
        "slice of everything = x, pad by nothing = x (removal)",
        ("(= t (Ax f x))", "(= s (type x))"),
        "(union t x) (delete (Ax f x))",
        ("", "does_nothing", "f s"),
    ),
    R(
        "concat-single",
        "concat [x] = x (removal)",
        ("(= t (Cat g xs))", "(= 1 (vec-length xs))", "(element xs 0 x)"),
        "(union t x) (delete (Cat g xs))",
    ),
    R(
        "slice-slice",
        "slice f (slice g x) = slice (f after g) x",
        ("(= t (Ax f (Ax g x)))",),
        "(union t (Ax r x))",
        ("r", "slice_slice", "f g"),
    ),
    R(
        "slice-const",
        "slice const = const', pad const = const'",
        ("(= t (Ax f (Leaf c)))",),
        "(union t (Leaf r))",
        ("r", "slice_const", "f c"),
    ),
    *(_spanning(k) for k in range(1, MOST_SPANNED + 1)),
    R(
        "slice-concat-beside",
        "slice f (concat xs) = concat of the sliced operands, f along other axes",
        ("(= t (Ax f c))", "(= c (Cat g xs))", "(= s (type c))"),
        '(union t (Cat g (unstable-vec-map (unstable-fn "Cut" f a) xs)))',
        ("a", "slice_beside", "f g s"),
    ),
    R(
        "concat-slices",
        "concat [.. slice a x, slice b x ..] = concat [.. slice (a and b) x ..], b beginning where a ends",
        ("(= t (Cat g xs))", "(element xs i (Ax a x))", "(= j (+ i 1))", "(element xs j (Ax b x))"),
        "(union t (Cat g (vec-set (vec-remove xs j) i (Ax r x))))",
        ("r", "contiguous", "g a b"),
    ),
    R(
        "concat-const",
        "concat [.. const, const ..] = concat [.. const' ..]",
        ("(= t (Cat g xs))", "(element xs i (Leaf a))", "(= j (+ i 1))", "(element xs j (Leaf b))"),
        "(union t (Cat g (vec-set (vec-remove xs j) i (Leaf r))))",
        ("r", "concat_const", "g a b"),
    ),
    R(
        "concat-flat",
        "concat [.. concat ys ..] = concat [.. ys ..], same axis",
        ("(= t (Cat g xs))", "(element xs i (Cat g ys))", "(split xs i p q)"),
        "(union t (Cat g (vec-append p ys (vec-remove q 0))))",
    ),
    R(
        "slice-unary",
        "slice (f x) = f (slice x)",
        ("(= t (Ax a (P1 f x)))",),
        "(union t (P1 f (Ax a x)))",
        ("", "is_slice", "a"),
    ),
    R(
        "slice-binary",
        "slice (f x y) = f (slice x) (slice y), whole where an operand broadcasts",
        ("(= t (Ax a (P2 f x y)))", "(= s (type x))", "(= u (type y))"),
        "(union t (P2 f (Ax p x) (Ax q y)))",
        ("p", "slice_for", "a s"),
        ("q", "slice_for", "a u"),
    ),
    R(
        "slice-select",
        "slice (select c x y) = select (slice c) (slice x) (slice y)",
        ("(= t (Ax a (P3 f x y z)))", "(= s (type x))", "(= u (type y))", "(= v (type z))"),
        "(union t (P3 f (Ax p x) (Ax q y) (Ax r z)))",
        ("p", "slice_for", "a s"),
        ("q", "slice_for", "a u"),
        ("r", "slice_for", "a v"),
    ),
    R(
        "slice-axial",
        "slice (reduce x) = reduce (slice x) along other axes; slice (rescale x) = rescale' (slice x), its scales sliced",
        ("(= t (Ax a (Ax f x)))", "(= s (type x))"),
        "(union t (Ax r (Ax p x)))",
        ("r p", "slice_axial", "a f s"),
    ),
    R(
        "push-concat-unary",
        "f (concat xs) = concat of f x, where that is no wider",
        ("(= t (P1 f c))", "(= c (Cat g xs))", "(= s (type t))", "(= u (type c))"),
        '(union t (Cat g (unstable-vec-map (unstable-fn "P1" f) xs)))',
        ("", "no_wider", "s u"),
    ),
    R(
        "pull-concat-unary",
        "concat [f x, f y ..] = f (concat [x, y ..]), where that is no wider",
        ("(= t (Cat g xs))", "(= ys (stripped xs f u n))", "(= n (vec-length xs))", "(= s (type t))"),
        "(let c (Cat g ys)) (set (type c) r) (union t (P1 f c))",
        ("r", "with_dtype_of", "s u"),
    ),
    R(
        "slice-pad",
        "slice (pad x) = pad' (slice' x)",
        ("(= t (Ax f (Ax g x)))", "(= s (type x))"),
        "(union t (Ax p (Ax r x)))",
        ("p r", "slice_pad", "f g s"),
    ),
    R(
        "pad-pad",
        "pad f (pad g x) = pad (f + g) x, same value",
        ("(= t (Ax f (Ax g x)))",),
        "(union t (Ax r x))",
        ("r", "pad_pad", "f g"),
    ),
    R(
        "pad-unary",
        "f (pad v x) = pad (f v) (f x)",
        ("(= t (P1 f (Ax p x)))", "(= s (type x))"),
        "(union t (Ax r (P1 f x)))",
        ("r", "pad_unary", "f p s"),
    ),
    R(
        "pad-conv",
        "conv (pad zp x) = conv that pads more, zp its input's zero point",
        ("(= t (M3 f (Ax p x) w b))", "(= s (type w))"),
        "(union t (M3 r x w b))",
        ("r", "pad_conv", "f p s"),
    ),
    R(
        "pad-pool",
        "max_pool (pad least x) = max_pool that pads more",
        ("(= t (M1 f (Ax p x)))", "(= s (type x))"),
        "(union t (M1 r x))",
        ("r", "pad_pool", "f p s"),
    ),
    *HELPERS,
]
