"""Sums of products as polynomials in the prime fields.

These are convolutions, MATMUL, sums along axes and over windows, and interpolation.
A sum in which only one element is not constant stays a function of that element,
so copies, reordered channels and BatchNorm written as convolutions equal what they replace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqsat.proof.field import EXACT_WEIGHTS, LANES, Lanes, Term
from eqsat.proof.functions import Ints
from eqsat.proof.steps import LARGEST, Undecidable
from eqsat.proof.values import UNLIMITED, Terms, Value, limits_of, merge, unique
from eqsat.tensor.ops.indexing import grid
from eqsat.tensor.ops.windows import reciprocal
from eqsat.tensor.types import DType, Shape, Type

Attributes = Mapping[str, Any]
Floats = NDArray[np.float64]
#: Absolute weights of one sum below which 64 bits hold it unreduced: lanes are below 2^31.
_MOST_WEIGHT = 1 << 31


class _Window:
    """A window that moves over planes, for one operator and input shape.

    weights: [kernel height, kernel width, input channels (1 if depthwise), output channels].
    channel: the input channel of each output channel if depthwise, else None.
    """

    def __init__(self, attrs: Attributes, shape: Shape, channel: Ints | None, out: Type) -> None:
        self.shape, self.channel, self.out = shape, channel, out
        self.pad, self.stride, self.dilation = attrs["pad"], attrs["stride"], attrs.get("dilation", (1, 1))

    def terms(self, weights: Ints) -> list[Term]:
        """Returns the weighted sum under the window as linear maps of the input's lanes."""
        return [
            (self._tap(i, j, part, weights[i, j, part].astype(np.float64)), most)
            for i, j in np.argwhere(weights.any((2, 3))).tolist()
            for part, most in _exact_parts(weights[i, j])
        ]

    def _tap(self, i: int, j: int, part: slice, weights: Floats) -> Callable[[Floats], Floats]:
        (top, bottom, left, right), (_, oh, ow, _) = self.pad, self.out.shape
        (sy, sx), (dy, dx) = self.stride, self.dilation

        def linear(x: Floats) -> Floats:
            x = x.reshape(self.shape)
            if any(self.pad):
                x = np.pad(x, ((0, 0), (top, max(bottom, 0)), (left, max(right, 0)), (0, 0)))
            view = x[:, i * dy : i * dy + (oh - 1) * sy + 1 : sy, j * dx : j * dx + (ow - 1) * sx + 1 : sx]
            if self.channel is None:
                return np.asarray(view[..., part] @ weights)
            return np.asarray((view if view.shape[-1] == len(self.channel) else view[..., self.channel]) * weights[0])

        return linear

    def sums(self, weights: Ints, x: Ints) -> Ints:
        """Returns the weighted sums [results] of integers [elements]; they stay below 2^53."""
        total = np.zeros(self.out.shape)
        for linear, _ in self.terms(weights):
            total += linear(x.astype(np.float64))
        return total.astype(np.int64).reshape(-1)

    def places(self, at: Ints, code: Ints, kernel: Shape) -> tuple[Ints, Ints]:
        """Returns flat indices into the input and into the weights.

        at: flat indices of results. code: for each, the flat index of a tap in the kernel.
        kernel: the shape of the weights.
        """
        n, y, x, channel = np.unravel_index(at, self.out.shape)
        i, j, c = np.unravel_index(code, kernel[:3])
        place = (
            n,
            y * self.stride[0] - self.pad[0] + i * self.dilation[0],
            x * self.stride[1] - self.pad[2] + j * self.dilation[1],
            c if self.channel is None else self.channel[channel],
        )
        return np.ravel_multi_index(place, self.shape, "clip"), np.ravel_multi_index((i, j, c, channel), kernel)

    def limits(self, weights: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints]:
        """Returns the lowest and highest sum per output channel, given the input channels' own."""
        if any(self.pad):
            low, high = np.minimum(low, 0), np.maximum(high, 0)
        up, down = (f(weights, 0).sum((0, 1)) for f in (np.maximum, np.minimum))
        if self.channel is None:
            return up.T @ low + down.T @ high, up.T @ high + down.T @ low
        low, high = low[self.channel], high[self.channel]
        return up[0] * low + down[0] * high, up[0] * high + down[0] * low


def _exact_parts(weights: Ints) -> Iterator[tuple[slice, int]]:
    """Yields slices of input channels whose sums are exact, and the largest absolute weight sum. Raises Undecidable."""
    absolute, size = np.abs(weights), len(weights)
    while True:
        parts = [slice(k, k + size) for k in range(0, len(weights), size)]
        most = [int(absolute[part].sum(0).max()) for part in parts]
        if max(most) <= EXACT_WEIGHTS:
            break
        if size == 1:
            raise Undecidable(f"a weight of {max(most)}")
        size = -(-size // 2)
    yield from zip(parts, most)


def convolve(
    t: Terms,
    attrs: Attributes,
    x: Value,
    weights: Ints,
    channel: Ints | None,
    bias: Ints,
    zero_point: int,
    out: Type,
    bias_first: bool = False,
) -> Value:
    """Returns the term of a convolution: sums of weights * (input - zero point), plus the bias.

    bias_first: whether the bias is added before the products, as in a TRANSPOSE_CONV2D.
    Raises Undecidable if a sum may overflow on its way.
    """
    w = _Window(attrs, x.shape, channel, out)
    low, high = (y - zero_point for y in t.limits(x))
    least, most = low.reshape(-1, x.shape[-1]).min(0), high.reshape(-1, x.shape[-1]).max(0)
    negative, positive = w.limits(weights, np.minimum(least, 0), np.maximum(most, 0))
    first = bias if bias_first else np.zeros(1, np.int64)
    _check_on_the_way(int((negative + first).min()), int((positive + first).max()), out.dtype)
    varies = (low < high).astype(np.int64)
    count = w.sums((weights != 0).astype(np.int64), varies)
    many, parts = count > 1, []
    if many.any():
        plain, constants = _without_summands(t, t.plain(x))
        lanes = t.field.total(t.lanes(plain), w.terms(weights)).reshape(LANES, -1)
        ends = [y.reshape(-1, x.shape[-1]) for y in t.limits(plain)]
        bottom, top = w.limits(weights, ends[0].min(0), ends[1].max(0))
        summand = w.sums(weights, constants - zero_point).reshape(out.shape) + bias
        low, high, summand = (np.broadcast_to(y, out.shape).reshape(-1)[many] for y in (bottom, top, summand))
        degree = t.degree_of(plain)
        sums = t.affine_root(lanes[:, many], summand.shape, UNLIMITED, (low, high), summand, degree)
        parts.append((many, t.accumulate(sums, out.dtype)))
    if not many.all():
        parts.append((~many, _of_one(t, w, x, weights, zero_point, bias, count)))
    return merge(out.shape, out.dtype, parts)


def _of_one(t: Terms, w: _Window, x: Value, weights: Ints, zero_point: int, bias: Ints, count: Ints) -> Value:
    """Returns the sums in which at most one element is not constant."""
    low, high = (y - zero_point for y in t.limits(x))
    few = np.flatnonzero(count <= 1)
    rest = np.broadcast_to(bias, w.out.shape).reshape(-1)[few]
    if (low == high).any():
        rest = rest + w.sums(weights, np.where(low == high, low, 0))[few]
    codes = np.arange(weights[..., 0].size).reshape(weights.shape[:3])[..., None] * (weights != 0)
    code = w.sums(codes, (low < high).astype(np.int64))[few]
    place, which = w.places(few, code, weights.shape)
    factor = np.where(count[few] == 1, weights.reshape(-1)[which], 0)
    one = t.accumulate(t.line(x.take(place), factor, rest - factor * zero_point, UNLIMITED), w.out.dtype)
    return t.plain(one) if (count > 1).any() else one


def convolution(t: Terms, op: str, attrs: Attributes, xs: Sequence[Value], out: Type) -> Value | None:
    """Returns the term of a CONV2D, DEPTHWISE_CONV2D or TRANSPOSE_CONV2D with constant weights and bias, else None."""
    weights, bias = (t.concrete(v) for v in xs[1:])
    if weights is None or bias is None:
        return None
    x, channel = xs[0], None
    weights, bias = weights - attrs["w_zp"][0], np.broadcast_to(bias, out.shape[-1:])
    zero_point = attrs["in_zp"][0]
    if op == "depthwise_conv2d":
        kh, kw, c, m = weights.shape
        weights, channel = weights.reshape(kh, kw, 1, c * m), np.repeat(np.arange(c), m)
    else:
        weights = weights.transpose(1, 2, 3, 0)
    is_transposed = op == "transpose_conv2d"
    if is_transposed:
        x, attrs = _spread_apart(t, x, attrs, weights.shape, zero_point, out)
        weights = weights[::-1, ::-1]
    return convolve(t, attrs, x, weights, channel, bias, zero_point, out, is_transposed)


def _spread_apart(
    t: Terms, x: Value, attrs: Attributes, kernel: Sequence[int], zero_point: int, out: Type
) -> tuple[Value, Attributes]:
    """Returns input and attributes of the plain convolution that equals a transposed one.

    The input has zero points between and around its elements; the kernel is to be reversed.
    """
    n, h, w, c = x.shape
    (sy, sx), (top, _, left, _) = attrs["stride"], attrs["out_pad"]
    up, before = kernel[0] - 1 + top, kernel[1] - 1 + left
    shape = n, out.shape[1] + kernel[0] - 1, out.shape[2] + kernel[1] - 1, c
    at = np.full(shape, x.elements)
    rows, columns = np.arange(h) * sy + up, np.arange(w) * sx + before
    inside = np.ix_(
        np.arange(n),
        np.flatnonzero((rows >= 0) & (rows < shape[1])),
        np.flatnonzero((columns >= 0) & (columns < shape[2])),
        np.arange(c),
    )
    at[np.ix_(np.arange(n), rows[inside[1].reshape(-1)], columns[inside[2].reshape(-1)], np.arange(c))] = np.arange(
        x.elements
    ).reshape(x.shape)[inside]
    return t.with_constant(x, zero_point).take(at, shape), {"pad": (0, 0, 0, 0), "stride": (1, 1)}


def average(t: Terms, attrs: Attributes, x: Value, out: Type) -> Value:
    """Returns the term of AVG_POOL2D. Raises Undecidable for a window that lies outside of the input."""
    kernel, channels = attrs["kernel"], x.shape[-1]
    ones, every = np.ones((*kernel, 1, channels), np.int64), np.arange(channels)
    zero_point, sums = attrs["in_zp"][0], Type(out.shape, "INT32")
    counts, variant = _window_counts(attrs, x, out.shape)
    if not counts[0]:
        raise Undecidable("a window that lies outside")
    total = convolve(t, attrs, x, ones, every, np.zeros(channels, np.int64), zero_point, sums)
    m, s = reciprocal(counts)
    means = t.recognize(t.step(total, [("scale", m, 1 << (s - 1), s)], UNLIMITED, variant))
    return t.step(means, [("affine", 1, attrs["out_zp"][0]), ("clip", *DType.of(out.dtype).limits)], out.dtype)


def _window_counts(attrs: Attributes, x: Value, out: Shape) -> tuple[Ints, Ints]:
    """Returns the numbers of elements that windows over x see, ascending, and the index among them for each result."""
    seen = []
    for d in (0, 1):
        places = (
            np.arange(out[1 + d])[:, None] * attrs["stride"][d] - attrs["pad"][2 * d] + np.arange(attrs["kernel"][d])
        )
        seen.append(((places >= 0) & (places < x.shape[1 + d])).sum(1))
    counts, index = unique((seen[0][:, None] * seen[1]).reshape(-1))
    return counts, np.broadcast_to(index.reshape(1, *out[1:3], 1), out).reshape(-1)


def matmul(t: Terms, attrs: Attributes, xs: Sequence[Value], out: Type) -> Value:
    """Returns the term of MATMUL, with the constants taken out. Raises Undecidable if a sum may overflow on its way."""
    factors = tuple(zip(xs, (attrs["in_zp"][0], attrs["w_zp"][0])))
    left, right = (t.field.reduce(t.lanes(v) - zp).reshape(LANES, *v.shape) for v, zp in factors)
    one, other = ((constants_of(t, t.plain(v)) - zp).reshape(v.shape) for v, zp in factors)
    a, b = ([limit.reshape(v.shape[0], -1) - zp for limit in t.limits(v)] for v, zp in factors)
    ends = corners((a[0].min(1), a[1].max(1)), (b[0].min(1), b[1].max(1)))
    _check_on_the_way(int(ends[0].min()) * left.shape[-1], int(ends[1].max()) * left.shape[-1], out.dtype)
    low, high = (np.broadcast_to((end * left.shape[-1]).reshape(-1, 1, 1), out.shape).reshape(-1) for end in ends)
    lanes, summand = t.field.matmul(left, right).reshape(LANES, -1), np.matmul(one, other).reshape(-1)
    degree = sum(t.degree_of(v) for v in xs)
    product = product_root(t, lanes, (low, high), summand, degree, UNLIMITED)
    return replace(t.accumulate(product, out.dtype), shape=out.shape)


def _check_on_the_way(least: int, most: int, dtype: str) -> None:
    """Raises Undecidable if a sum may overflow before its last summand, which depends on their order.

    least, most: bounds of the sums of all negative and of all positive summands.
    """
    limits = limits_of(dtype)
    if least < limits[0] or most > limits[1]:
        raise Undecidable("a sum that may overflow on its way")


def product_root(t: Terms, lanes: Lanes, limits: tuple[Ints, Ints], summand: Ints, degree: int, dtype: str) -> Value:
    """Returns products as roots, from which the product `summand` of their constants is taken out, as in sums."""
    limits = limits[0] - summand, limits[1] - summand
    return t.affine_root(t.field.reduce(lanes - summand), summand.shape, dtype, limits, summand, degree)


def corners(a: tuple[Ints, Ints], b: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """Returns the limits of products, given those of the factors."""
    products = np.stack([x * y for x in a for y in b])
    return products.min(0), products.max(0)


def weigh(t: Terms, x: Value, at: Ints, weights: Ints, shape: tuple[int, ...], dtype: str) -> Value:
    """Returns weighted sums of elements of x, within the exact range.

    at, weights: [terms, results]; the weights broadcast.
    The constants are taken out, so that a sum is a function of its other part.
    """
    low, high = (y[at] for y in t.limits(x))
    weights = np.broadcast_to(weights, at.shape)
    varies = (low < high) & (weights != 0)
    rest = np.where(low == high, weights * low, 0).sum(0)
    single = varies.sum(0) <= 1
    parts = []
    if single.any():
        first = varies[:, single].argmax(0)
        everywhere = np.flatnonzero(single)
        one = (x if single.all() else t.plain(x)).take(at[first, everywhere])
        factor = np.where(varies[first, everywhere], weights[first, everywhere], 0)
        parts.append((single, t.bound(t.line(one, factor, rest[everywhere], dtype))))
    if not single.all():
        chosen = ~single
        low, high = (y[at[:, chosen]] * weights[:, chosen] for y in t.within(x))
        x, constants = _without_summands(t, t.plain(x))
        lanes = t.lanes(x)
        if np.abs(weights).sum(0).max() >= _MOST_WEIGHT:
            raise Undecidable("weights of a sum that 64 bits have no room for")
        total: Lanes = np.zeros((LANES, int(chosen.sum())), np.int64)
        for places, factors in zip(at[:, chosen], weights[:, chosen]):
            total += lanes[:, places] * factors
        total = t.field.reduce(total)
        constants = constants[at[:, chosen]]
        if (np.abs(constants).astype(np.float64) * np.abs(weights[:, chosen])).sum(0).max() >= LARGEST:
            raise Undecidable("a sum that 64 bits have no room for")
        summand = (constants * weights[:, chosen]).sum(0)
        limits = np.minimum(low, high).sum(0) - summand, np.maximum(low, high).sum(0) - summand
        parts.append((chosen, t.affine_root(total, summand.shape, dtype, limits, summand, t.degree_of(x))))
    return merge(shape, dtype, parts)


def _without_summands(t: Terms, x: Value) -> tuple[Value, Ints]:
    """Returns the value without the summands b of its functions, and these summands [elements]."""
    used, inverse = unique(x.functions)
    functions = t.functions.divide(used, np.ones(len(used), np.int64))
    return replace(x, functions=functions[inverse]), constants_of(t, x)


def constants_of(t: Terms, x: Value) -> Ints:
    """Returns the summands b of the value's functions, [elements]."""
    return t.functions.column("b")[x.functions]


def reduce_sum(t: Terms, attrs: Attributes, x: Value, out: Type) -> Value:
    at = np.moveaxis(np.arange(x.elements).reshape(x.shape), attrs["axis"], 0)
    at, limits = at.reshape(len(at), -1), limits_of(out.dtype)
    low, high = (np.cumsum(y[at], 0)[:-1] for y in t.within(x))
    overflows = (low < limits[0]).any(0) | (high > limits[1]).any(0)  # on the way, which depends on the order
    if overflows.any():
        t.note(t.field.digest(t.symbol("running sums"), t.lanes(x)[:, at[:, overflows]]), *limits)
    return weigh(t, x, at, np.ones((len(at), 1), np.int64), out.shape, out.dtype)


def interpolate(t: Terms, attrs: Attributes, x: Value, out: Type) -> Value:
    """Returns the term of a bilinear RESIZE, a weighted sum of four elements.

    Weights of equal elements are added up. Source: TOSA specification 1.0, RESIZE.
    """
    scale, offset = attrs["scale"], attrs["offset"]
    along = []
    for d, (numerator, denominator) in enumerate((scale[:2], scale[2:])):
        near, far, after = grid(out.shape[1 + d], x.shape[1 + d], (numerator, denominator), offset[d])
        same = near == far
        along.append([(near, np.where(same, numerator, numerator - after)), (far, np.where(same, 0, after))])
    places = np.arange(x.elements).reshape(x.shape)
    at, weights = [], []
    for rows, by_row in along[0]:
        for columns, by_column in along[1]:
            at.append(places[:, rows][:, :, columns].reshape(-1))
            both = (by_row[:, None] * by_column)[None, :, :, None]
            weights.append(np.broadcast_to(both, out.shape).reshape(-1))
    return weigh(t, x, np.array(at), np.array(weights), out.shape, out.dtype)
