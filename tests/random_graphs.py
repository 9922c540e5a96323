"""Random legal TensorGraphs like networks, of the blocks of `eqsat.checking.random_graphs` and others.

>>> g = random_graph(7)
>>> 5 <= sum(g.op_counts().values()), random_graph(7) == g
(True, True)

Each block reads the newest value or, for forks, an older one.
The blocks here are pieces of networks as ExecuTorch's quantization writes them.
Magnitudes are small enough that no operator overflows, which TOSA leaves undefined.
Equal seeds and profiles give equal graphs.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from eqsat.checking import random_graphs as small
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops.pointwise import DOUBLE_ROUND, SINGLE_ROUND
from eqsat.tensor.types import DType, GraphError, Shape
from tests.term import Term

_SHAPES: tuple[Shape, ...] = (
    *((1, 6, 6, 8), (1, 8, 4, 4), (1, 4, 5, 6), (2, 4, 4, 4), (1, 3, 8, 8)),
    *((1, 16, 12), (4, 6, 8), (1, 24), (6, 10), (1, 1, 20, 6), (2, 3, 2, 4, 5), (12,), (1, 2, 6, 2, 4, 2)),
)


@dataclass(frozen=True, slots=True)
class Profile:
    """A description of random graphs.

    fewest, most: operators of a graph, about. largest: elements of a tensor, at most.
    shapes, dtypes: of the inputs, each drawn as often as it is listed.
    without: operators that are not added.
    """

    fewest: int = 5
    most: int = 40
    largest: int = 1500
    shapes: tuple[Shape, ...] = _SHAPES
    dtypes: tuple[str, ...] = ("INT8",) * 6 + ("INT16",)
    without: frozenset[str] = frozenset()


NETWORK = Profile()
#: Operators that Vela 5.1 refuses on U55 and U65.
#: Source: random graphs compiled with one block at a time.
REFUSED = frozenset(
    {
        *("argmax", "equal", "greater", "greater_equal", "logical_right_shift", "reverse", "transpose_conv2d"),
        *("bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "gather", "scatter", "resize", "intdiv"),
    }
)
PROFILES = {
    "network": NETWORK,
    "vela": replace(NETWORK, dtypes=("INT8",), without=REFUSED),
    "int16": replace(NETWORK, dtypes=("INT16",)),
}


class Unfit(GraphError):
    """The block that was drawn cannot follow the value that was drawn."""


class Builder(small.Builder):
    """Draws and adds operators, which are written in the notation of `tests.term`."""

    def __init__(self, seed: int, profile: Profile) -> None:
        super().__init__(seed, profile.shapes, profile.dtypes)
        self.profile = profile

    def term(self, n: int) -> Term:
        return Term(self.g, n)

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def want(self, condition: bool) -> None:
        """Raises Unfit unless the condition holds."""
        if not condition:
            raise Unfit

    def constant(self, shape: Shape, dtype: str = "INT8", most: int = 127) -> Term:
        return self.term(self.const(shape, dtype, -most, most))

    def unary(self, x: Term) -> Term:
        """Adds a random operator of one operand. Raises Unfit if x is neither INT8 nor INT16."""
        self.want(DType.of(x.dtype).is_activation)
        return self.term(small.map_values(self, x.n))

    def narrowed(self, x: Term, down: int, dtype: str) -> Term:
        """Adds a RESCALE of sums to INT8 or INT16, about divided by 2**down."""
        rounding = SINGLE_ROUND if x.dtype == "INT48" else self.of(SINGLE_ROUND, SINGLE_ROUND, DOUBLE_ROUND)
        return self.term(self.narrow(x.n, down, dtype, rounding_mode=rounding))

    def image(self, x: Term) -> Term:
        """Returns x as [N, H, W, C]."""
        return self.term(self.four(x.n))

    def alike(self, x: Term) -> list[Term]:
        """Returns x and other values of its shape and dtype."""
        return [self.term(v) for v in {*self.values, x.n} if self.g.type(v) == self.g.type(x.n)]


#: Adds operators that read a value, and returns the new values. Raises GraphError if it cannot.
Block = Callable[[Builder, Term], Iterable[Term]]
#: All blocks, and how often each is drawn relative to others.
BLOCKS: list[tuple[Block, float]] = []
#: Dtypes of activations.
BOTH = ("INT8", "INT16")


def block(weight: float, dtypes: Collection[str] = (), rank: int = 0) -> Callable[[Block], Block]:
    """Registers a block of this weight, for values of some dtypes and of one rank, if they are given."""

    def register(grow: Block) -> Block:
        def grown(b: Builder, x: Term) -> Iterable[Term]:
            b.want((not dtypes or x.dtype in dtypes) and rank in (0, len(x.shape)))
            return grow(b, x)

        BLOCKS.append((grown, weight))
        return grow

    return register


# ---- data movement


def factor(b: Builder, n: int) -> int:
    """Returns a random divisor of n other than 1 and n. Raises Unfit if there is none."""
    options = [k for k in range(2, n) if n % k == 0]
    b.want(bool(options))
    return b.of(*options)


@block(3, rank=4)
def layout(b: Builder, x: Term) -> list[Term]:
    """Adds a transpose from NCHW to NHWC or back."""
    return [b.of(x.nhwc(), x.nchw())]


@block(2)
def shuffle(b: Builder, x: Term) -> list[Term]:
    """Adds a channel shuffle along the last axis or, in NCHW, the second."""
    shape = x.shape
    axis = b.of(len(shape) - 1, min(1, len(shape) - 1))
    k = factor(b, shape[axis])
    split = x.reshape(prod(shape[:axis]), k, shape[axis] // k, prod(shape[axis + 1 :]))
    return [split.transpose(0, 2, 1, 3).reshape(*shape)]


@block(1, rank=4)
def pixels(b: Builder, x: Term) -> list[Term]:
    """Adds a PixelShuffle or its inverse by 2, in NCHW."""
    n, c, h, w = x.shape
    if c % 4 == 0 and b.chance(0.6):
        y = x.reshape(n * (c // 4), 2, 2, h, w).transpose(0, 3, 1, 4, 2)
        return [y.reshape(n, c // 4, 2 * h, 2 * w)]
    b.want(h % 2 == 0 and w % 2 == 0)
    y = x.reshape(n * c, h // 2, 2, w // 2, 2).transpose(0, 2, 4, 1, 3)
    return [y.reshape(n, 4 * c, h // 2, w // 2)]


@block(1, rank=4)
def windows(b: Builder, x: Term) -> list[Term]:
    """Adds a window partition of NHWC by 2, alone or merged again after a pointwise operator."""
    n, h, w, c = x.shape
    b.want(h % 2 == 0 and w % 2 == 0 and h * w > 4)
    y = x.reshape(n, h // 2, 2, w // 2, 2, c).transpose(0, 1, 3, 2, 4, 5).reshape(n * h * w // 4, 4, c)
    if b.chance(0.5):
        return [y]
    y = b.unary(y).reshape(n, h // 2, w // 2, 2, 2, c).transpose(0, 1, 3, 2, 4, 5)
    return [y.reshape(n, h, w, c)]


@block(0.7)
def heads(b: Builder, x: Term) -> list[Term]:
    """Adds the views from [.., T, heads * D] to [heads, T, D], as attention wants it."""
    *_, t, c = 1, *x.shape
    b.want(t * c == prod(x.shape))
    k = factor(b, c)
    return [x.reshape(t, k, c // k).transpose(1, 0, 2)]


def _axis(b: Builder, x: Term) -> int:
    """Returns an axis that can be cut."""
    options = [d for d, n in enumerate(x.shape) if n > 1]
    b.want(bool(options))
    return b.of(*options, options[-1])


@block(2)
def part(b: Builder, x: Term) -> list[Term]:
    axis = _axis(b, x)
    n = x.shape[axis]
    size = b.draw_between(1, n - 1)
    return [x.part(b.of(0, n - size, b.draw_between(0, n - size)), size, axis)]


@block(1.5)
def halves(b: Builder, x: Term) -> list[Term]:
    """Adds a CONCAT of slices that cover an axis, in any order, each perhaps after an operator.

    The value itself may be among the operands.
    """
    axis = _axis(b, x)
    cuts = sorted({0, x.shape[axis], *(b.draw_between(1, x.shape[axis] - 1) for _ in range(b.of(1, 2)))})
    pieces = [x.part(low, high - low, axis) for low, high in itertools.pairwise(cuts)]
    if b.chance(0.4):  # the same operator after every slice
        node = b.g.nodes[b.unary(x).n]
        b.want(node.inputs == (x.n,) and not dict(node.attrs).get("per_channel"))
        pieces = [p.made(node.op, node.attrs) for p in pieces]
    elif DType.of(x.dtype).is_activation:
        pieces = [b.of(p, b.unary(p)) for p in pieces]
    pieces = b.of(pieces, pieces, pieces[::-1])
    if b.chance(0.3):
        pieces.insert(b.draw_between(0, len(pieces)), x)
    return [pieces[0].concat(*pieces[1:], axis=axis)]


@block(2, BOTH)
def join(b: Builder, x: Term) -> list[Term]:
    """Adds a CONCAT with values of the same shape, which may be constants, forks of x or CONCATs."""
    axis = b.axis(x.n)
    operands = [x]
    for _ in range(b.draw_between(1, 3)):
        other, constant = b.of(*b.alike(x)), b.constant(x.shape, x.dtype)
        operands.append(b.of(other, b.unary(other), b.unary(other), constant, other.concat(constant, axis=axis)))
    b.rng.shuffle(operands)
    return [operands[0].concat(*operands[1:], axis=axis)]


@block(0.5, BOTH)
def stream(b: Builder, x: Term) -> list[Term]:
    """Adds a streaming state: cached steps (a graph input) and new ones, of which the last remain."""
    axis = _axis(b, x)
    shape = [b.draw_between(1, 3) if d == axis else n for d, n in enumerate(x.shape)]
    b.want(len(b.g.inputs) < 4)
    joined = x.input(shape, x.dtype).concat(x, axis=axis)
    return [joined, joined.part(x.shape[axis], shape[axis], axis)]


@block(1, BOTH, rank=4)
def border(b: Builder, x: Term) -> list[Term]:
    """Adds a PAD of H and W, by a zero point or the lowest value."""
    value = b.of(0, DType.of(x.dtype).limits[0], b.zero(x.dtype))
    return [x.pad([0, 0, *(b.draw_between(0, 2) for _ in range(4)), 0, 0], value)]


# ---- operators that compute


@block(1, BOTH)
def headroom(b: Builder, x: Term) -> list[Term]:
    """Adds a sum of operands that are scaled up, as ExecuTorch adds."""
    up = b.of(4, 10) if x.dtype == "INT16" else b.of(10, 20)
    operands = [v.rescale("INT32", shift=30 - up, in_zp=b.zero(x.dtype)) for v in (x, b.term(b.partner(x.n)))]
    return [b.narrowed(operands[0](b.of("add", "sub"), operands[1]), up, x.dtype)]


@block(0.6, BOTH)
def scaled(b: Builder, x: Term) -> list[Term]:
    """Adds a product with a constant, and perhaps a sum, which one table could replace."""
    ones = (1,) * len(x.shape)
    by = b.constant(b.of(ones, (*ones[1:], x.shape[-1])), "INT32", 100)
    by = b.of(by, by, by - b.constant(ones, "INT32", 9))
    y = b.of((b.term(b.wide(x.n)), by), (by, b.term(b.wide(x.n))))
    product = y[0] * y[1]
    return [b.narrowed(b.of(product, b.constant(ones, "INT32", 5000) + product), DType.of(x.dtype).bits - 2, x.dtype)]


@block(0.5, BOTH)
def masks(b: Builder, x: Term) -> list[Term]:
    """Adds a comparison that is a value."""
    return [b.term(b.wide(x.n))(b.of("equal", "greater", "greater_equal"), b.term(b.wide(b.partner(x.n))))]


@block(0.3, BOTH)
def places(b: Builder, x: Term) -> list[Term]:
    """Adds an ARGMAX that is a value."""
    b.want(len(x.shape) > 1)
    return [x.argmax(b.axis(x.n))]


@block(0.5)
def casts(b: Builder, x: Term) -> list[Term]:
    """Adds a CAST or RESCALE between dtypes; INT16 is sometimes the dtype of what follows."""
    if x.dtype == "INT8":
        return [b.of(x.cast("INT16"), x.cast("BOOL"), x.rescale("INT16", shift=24, in_zp=b.zero("INT8")))]
    shift = 30 + 7 if x.dtype == "INT16" else 30
    return [x.cast("INT8") if x.dtype == "BOOL" else x.rescale("INT8", shift=shift, out_zp=b.zero("INT8"))]


@block(0.5, BOTH)
def per_channel(b: Builder, x: Term) -> list[Term]:
    """Adds a RESCALE with a scale per channel, which may be equal, perhaps behind a shuffle."""
    n, zp = x.shape[-1], b.zero(x.dtype)
    b.want(n > 1)
    if b.chance(0.2):
        return [x.rescale(x.dtype, (1 << 30,) * n, (30,) * n, in_zp=zp, out_zp=zp)]
    (x,) = shuffle(b, x) if b.chance(0.2) else [x]
    scales, shifts = [b.draw_between(1 << 30, (1 << 31) - 1) for _ in range(n)], [b.of(30, 31) for _ in range(n)]
    return [x.rescale(x.dtype, scales, shifts, in_zp=zp, out_zp=b.zero(x.dtype))]


@block(0.3, ("INT8",))
def unsigned(b: Builder, x: Term) -> list[Term]:
    """Adds a RESCALE of an unsigned input."""
    b.want(b.g.nodes[x.n].op == "input")
    return [x.rescale("INT8", in_zp=b.zero("INT8"), out_zp=b.zero("INT8"), input_unsigned=True)]


@block(0.8, ("INT8",))
def softmax(b: Builder, x: Term) -> list[Term]:
    """Adds a quantized softmax: x - max(x), a table, a sum, and a product with a table of the sum."""
    axis = len(x.shape) - 1
    falling = np.round(127 * np.exp(np.arange(-128, 128) / 40 - 3.2)).tolist()
    e = b.narrowed(x.rescale("INT32") - x.reduce("max", axis).rescale("INT32"), 1, "INT8").table(falling)
    s = b.narrowed(e.rescale("INT32").reduce("sum", axis), 4, "INT8").table(falling[::-1])
    return [b.narrowed(e.rescale("INT32") * s.rescale("INT32"), 7, "INT8")]


#: (transpose before, transpose after) an operator on NHWC.
#: They are none, from and to NCHW, or swap height and width.
_LAYOUTS = (*[((0, 1, 2, 3), (0, 1, 2, 3))] * 2, *[((0, 2, 3, 1), (0, 3, 1, 2))] * 2, ((0, 2, 1, 3), (0, 2, 1, 3)))
#: Weights of an operator, at most.
_MOST_WEIGHTS = 1200


def _turned(x: Term, perm: Sequence[int]) -> Term:
    return x if list(perm) == sorted(perm) else x.transpose(*perm)


def _sums(b: Builder, y: Term, dtype: str) -> Term:
    """Adds what follows a convolution: a RESCALE per channel or tensor, perhaps an activation."""
    out = b.narrowed(y, 9 if y.dtype == "INT32" else 8, dtype)
    return b.unary(out) if b.chance(0.3) else out


def _bias(b: Builder, channels: int, dtype: str) -> Term:
    return b.constant((channels if b.chance(0.8) else 1,), DType.of(dtype).accumulator, 3000)


def _fitting(b: Builder, size: int, most: int, below: bool) -> tuple[int, int, int, int, int]:
    """Returns (kernel, stride, dilation, pad before, pad after) that fit `size` without a rest.

    below: whether pads must be smaller than the kernel; the dilation is 1 then. Raises Unfit.
    """
    for _ in range(20):
        kernel, stride, dilation = b.draw_between(1, most), b.of(1, 1, 2), b.of(1, 1, 1, 2)
        dilation = 1 if below else dilation
        before, after = (b.of(0, (kernel - 1) // 2, kernel - 1) for _ in range(2))
        free = size - 1 + before + after - (kernel - 1) * dilation
        if free >= 0 and free % stride == 0:
            return kernel, stride, dilation, before, after
    raise Unfit


def _zero_points(b: Builder, dtype: str) -> dict[str, Any]:
    return {"in_zp": b.zero(dtype), "w_zp": 0 if b.chance(0.9) else b.zero(dtype)}


@block(5, BOTH)
def convolution(b: Builder, x: Term) -> list[Term]:
    """Adds a CONV2D or DEPTHWISE_CONV2D, in NHWC or between transposes from and to NCHW."""
    dtype, (into, back) = x.dtype, b.of(*_LAYOUTS)
    y, zps = _turned(b.image(x), into), _zero_points(b, dtype)
    before = b.of("", "", "", "pad", "shuffle", "slice")
    if before == "pad":
        y = y.pad((0, 0, *(b.draw_between(0, 1) for _ in range(4)), 0, 0), zps["in_zp"])
    elif before == "shuffle":
        (y,) = shuffle(b, y)
    elif before == "slice" and y.shape[3] > 1:
        y = y.part(b.of(0, 1), y.shape[3] - 1, 3)
    _, h, w, c = y.shape
    wide = 1 if b.chance(0.5) and before != "pad" else 3
    (ky, sy, dy, top, bottom), (kx, sx, dx, left, right) = (_fitting(b, n, wide, False) for n in (h, w))
    deep, m = b.chance(0.3), b.of(4, 6, 8, b.draw_between(1, 8))
    m = b.of(1, 1, 2) if deep else m
    weights, out = ((ky, kx, c, m), c * m) if deep else ((m, ky, kx, c), m)
    b.want(prod(weights) <= _MOST_WEIGHTS)
    attrs = makers.conv(dtype, pad=(top, bottom, left, right), stride=(sy, sx), dilation=(dy, dx), **zps)
    operands = b.constant(weights), _bias(b, out, dtype)
    result = _sums(b, y.made("depthwise_conv2d" if deep else "conv2d", attrs, *operands), dtype)
    if b.chance(0.25) and out % 2 == 0 and out > 2:
        (result,) = shuffle(b, result)
    return [_turned(result, back) if b.chance(0.8) else result]


@block(0.7, ("INT8",))
def siblings(b: Builder, x: Term) -> list[Term]:
    """Adds two convolutions over one input, concatenated along the channels."""
    y, zp, zero, scales = b.image(x), b.zero("INT8"), b.zero("INT8"), b.chance(0.5)
    b.want(y.shape[3] <= 64)
    out = []
    for m in (b.of(2, 4), b.of(2, 4)):
        sums = y.made("conv2d", makers.conv("INT8", in_zp=zp), b.constant((m, 1, 1, y.shape[3])), _bias(b, m, "INT8"))
        count = m if scales else 1
        out.append(sums.rescale("INT8", (1 << 30,) * count, (39,) * count, out_zp=zero, per_channel=count > 1))
    return [out[0].concat(out[1], axis=3)]


@block(0.3, BOTH)
def twins(b: Builder, x: Term) -> list[Term]:
    """Adds one convolution computed twice, for readers that scale it differently."""
    y, m = b.image(x), b.draw_between(1, 4)
    operands, attrs = (b.constant((m, 1, 1, y.shape[3])), _bias(b, m, x.dtype)), _zero_points(b, x.dtype)
    sums = [y.made("conv2d", makers.conv(x.dtype, **attrs), *operands) for _ in range(2)]
    return [_sums(b, s, x.dtype) for s in sums]


@block(0.7, BOTH)
def upsampling(b: Builder, x: Term) -> list[Term]:
    """Adds a TRANSPOSE_CONV2D, often of windows that do not overlap."""
    y, m = b.image(x), b.draw_between(1, 6)
    ky, sy, kx, sx = (b.draw_between(1, most) for most in (3, 2, 3, 2))
    pads = [b.of(0, b.draw_between(1 - k, 1)) for k in (ky, ky, kx, kx)]
    if b.chance(0.4):
        ky = kx = sy = sx = 2
        pads = [0, 0, 0, 0]
    weights = (m, ky, kx, y.shape[3])
    b.want(prod(weights) <= _MOST_WEIGHTS)
    attrs = makers.transpose_conv(x.dtype, out_pad=pads, stride=(sy, sx), **_zero_points(b, x.dtype))
    return [_sums(b, y.made("transpose_conv2d", attrs, b.constant(weights), _bias(b, m, x.dtype)), x.dtype)]


@block(0.7, ("INT8",))
def linear(b: Builder, x: Term) -> list[Term]:
    """Adds a linear layer after a flatten, as ExecuTorch writes it: a 1x1 CONV2D."""
    rows = b.of(1, x.shape[0])
    k, m = prod(x.shape) // rows, b.draw_between(1, 5)
    b.want(k * m <= _MOST_WEIGHTS)
    attrs, weights = makers.conv("INT8", **_zero_points(b, "INT8")), b.constant((m, 1, 1, k))
    sums = x.reshape(1, 1, rows, k).made("conv2d", attrs, weights, _bias(b, m, "INT8"))
    return [_sums(b, sums, "INT8").reshape(rows, m)]


@block(1, BOTH, rank=3)
def product(b: Builder, x: Term) -> list[Term]:
    """Adds a MATMUL of two values."""
    n, _, c = x.shape
    values = [v for v in map(b.term, b.values) if v.dtype == x.dtype and len(v.shape) == 3 and v.shape[0] == n]
    other = b.of(*(v for v in values if c in v.shape[1:]), x)
    if other.shape[1] != c or (other.shape[2] == c and b.chance(0.5)):
        other = other.transpose(0, 2, 1)
    y, other = b.of((x, other), (x, other), (other.transpose(0, 2, 1), x.transpose(0, 2, 1)))
    return [b.narrowed(y.made("matmul", makers.matmul(b.zero(x.dtype), b.zero(x.dtype)), other), 8, x.dtype)]


@block(1.5, BOTH)
def pool(b: Builder, x: Term) -> list[Term]:
    """Adds a pooling with strides and padding, that of a maximum perhaps by a PAD."""
    into, back = b.of(*_LAYOUTS)
    y = _turned(b.image(x), into)
    (ky, sy, _, top, bottom), (kx, sx, _, left, right) = (_fitting(b, n, 3, True) for n in y.shape[1:3])
    window = {"stride": (sy, sx), "pad": (top, bottom, left, right)}
    kind = b.of("average", "average", "largest", "padded")
    if kind == "padded":
        y = y.pad((0, 0, *window.pop("pad"), 0, 0), DType.of(x.dtype).limits[0])
    zp = b.zero(x.dtype)
    window |= {"in_zp": zp, "out_zp": b.of(zp, b.zero(x.dtype))} if kind == "average" else {}
    return [_turned((y.average if kind == "average" else y.largest)(ky, kx, **window), back)]


def _of(grow: Callable[[small.Builder, int], int]) -> Block:
    return lambda b, x: [b.term(grow(b, x.n))]


for _grown, _times in Counter((*small.BLOCKS, *(small.combine, small.reduce) * 3)).items():
    block(0.7 * _times, BOTH)(_of(_grown))


# ---- whole graphs


def random_graph(seed: int, profile: Profile = NETWORK) -> TensorGraph:
    """Returns the random graph of a seed and a profile."""
    b = Builder(seed, profile)
    wanted = b.draw_between(profile.fewest, profile.most)
    # each graph prefers a random part of the blocks, so that these meet often
    weights = np.array([w for _, w in BLOCKS]) * b.rng.choice([0.05, 1.0, 4.0], len(BLOCKS), p=[0.5, 0.3, 0.2])
    while _operators(b) < wanted:
        _grow(b, BLOCKS[int(b.rng.choice(len(BLOCKS), p=weights / weights.sum()))][0])
    return b.finish(*_outputs(b))


def _operators(b: Builder) -> int:
    b.g.outputs = b.values
    return sum(b.g.op_counts().values())


def _grow(b: Builder, grow: Block) -> None:
    """Adds one random block, unless it does not fit; the nodes that it had added are not live then."""
    x = b.term(b.values[-1] if b.chance(0.75) else b.of(*b.values))
    grow = part if prod(x.shape) > b.profile.largest // 2 else grow
    inputs = [*b.g.inputs]
    try:
        b.g.outputs = [y.n for y in grow(b, x) if y.shape]
    except GraphError:
        return
    added = [b.g.nodes[n] for n in b.g.live()]
    if all(n.op not in b.profile.without and prod(n.shape) <= 2 * b.profile.largest for n in added if n.op != "const"):
        b.values += b.g.outputs
    else:
        b.g.inputs = inputs


def _outputs(b: Builder) -> list[int]:
    """Returns the newest value, up to three unread ones, and now and then another one.

    Now and then an output is unsigned, occurs twice, or is an input as it is.
    """
    b.g.outputs = b.values
    read = {i for n in b.g.live() for i in b.g.nodes[n].inputs}
    unread, inside = ([v for v in dict.fromkeys(b.values[:-1]) if (v in read) == w] for w in (False, True))
    b.rng.shuffle(unread)
    outputs = [b.values[-1], *unread[:3], *(inside[-1:] if b.chance(0.3) else [])]
    outputs = [*dict.fromkeys(o for o in outputs if b.g.nodes[o].op != "input")]
    last = b.term(outputs[0])
    if last.dtype == "INT8" and b.chance(0.1):
        outputs[0] = last.rescale("INT8", out_zp=b.zero("INT8"), output_unsigned=True).n
    return [*outputs, b.of(outputs[0], b.values[0])] if b.chance(0.1) else outputs
