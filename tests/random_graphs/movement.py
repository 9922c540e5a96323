"""Blocks of data movement: transposes and views as networks have them; slices, pads, concats, tiles and reversals."""

from __future__ import annotations

import itertools
from math import prod

from eqsat.tensor.dtypes import DType
from tests.random_graphs.builder import BOTH, Builder, block
from tests.term import Term

_HIGHEST_RANK = 6


def factor(b: Builder, n: int) -> int:
    """Returns a random divisor of n other than 1 and n. Raises Unfit if there is none."""
    options = [k for k in range(2, n) if n % k == 0]
    b.want(bool(options))
    return b.of(*options)


@block(3, rank=4)
def layout(b: Builder, x: Term) -> list[Term]:
    """Adds a transpose from NCHW to NHWC or back."""
    return [x.transpose(*b.of((0, 2, 3, 1), (0, 3, 1, 2)))]


@block(2)
def permute(b: Builder, x: Term) -> list[Term]:
    return [x.transpose(*b.perm(x))]


@block(1.5)
def there_and_back(b: Builder, x: Term) -> list[Term]:
    """Adds a transpose, a pointwise operator and the inverse transpose, read in one or both layouts."""
    perm = b.perm(x)
    y = b.unary(x.transpose(*perm))
    back = y.transpose(*(perm.index(i) for i in range(len(perm))))
    return [y, back] if b.chance(0.3) else [back]


@block(1.5)
def merge(b: Builder, x: Term) -> list[Term]:
    """Adds a view that joins two neighbouring dims."""
    shape = x.shape
    b.want(len(shape) > 2)
    i = b.between(0, len(shape) - 2)
    return [x.reshape(*shape[:i], shape[i] * shape[i + 1], *shape[i + 2 :])]


@block(1.5)
def split(b: Builder, x: Term) -> list[Term]:
    """Adds a view that splits a dim."""
    shape = x.shape
    b.want(len(shape) < _HIGHEST_RANK)
    i = b.between(0, len(shape) - 1)
    k = factor(b, shape[i])
    return [x.reshape(*shape[:i], k, shape[i] // k, *shape[i + 1 :])]


@block(0.7)
def units(b: Builder, x: Term) -> list[Term]:
    """Adds a view that adds or drops a dim of 1."""
    shape = list(x.shape)
    if 1 in shape and len(shape) > 1 and b.chance(0.5):
        shape.remove(1)
    else:
        b.want(len(shape) < _HIGHEST_RANK)
        shape.insert(b.between(0, len(shape)), 1)
    return [x.reshape(*shape)]


@block(0.4)
def flatten(b: Builder, x: Term) -> list[Term]:
    return [x.reshape(1, prod(x.shape))]


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
    y = b.three(x)
    n, t, c = y.shape
    b.want(n == 1)
    k = factor(b, c)
    return [y.reshape(t, k, c // k).transpose(1, 0, 2)]


# ---- slices, pads, concats, tiles and reversals


def _axis(b: Builder, x: Term, least: int = 2) -> int:
    options = [d for d, n in enumerate(x.shape) if n >= least]
    b.want(bool(options))
    return b.of(*options, options[-1])


def _alike(b: Builder, x: Term) -> list[Term]:
    """Returns the values of x's shape and dtype, and x itself."""
    return [*(v for v in b.values if (v.shape, v.dtype) == (x.shape, x.dtype)), x]


@block(2)
def part(b: Builder, x: Term) -> list[Term]:
    axis = _axis(b, x)
    n = x.shape[axis]
    size = b.between(1, n - 1)
    return [x.part(b.of(0, n - size, b.between(0, n - size)), size, axis)]


@block(0.6)
def inner(b: Builder, x: Term) -> list[Term]:
    """Adds a slice along every axis."""
    sizes = [b.between(max(1, n - 2), n) for n in x.shape]
    return [x.slice([b.between(0, n - s) for n, s in zip(x.shape, sizes, strict=True)], sizes)]


@block(1.5)
def halves(b: Builder, x: Term) -> list[Term]:
    """Adds a CONCAT of slices that cover an axis, in any order, each perhaps after an operator.

    The value itself may be among the operands.
    """
    axis = _axis(b, x)
    n = x.shape[axis]
    cuts = sorted({0, n, *(b.between(1, n - 1) for _ in range(b.between(1, 2)))})
    pieces = [x.part(a, z - a, axis) for a, z in itertools.pairwise(cuts)]
    shared = b.chance(0.4)
    pieces = [p if b.chance(0.5) or shared else b.unary(p) for p in pieces]
    if shared:  # the same operator after every slice
        b.want(DType.of(x.dtype).is_activation)
        attrs = b.g.nodes[b.clamp(pieces[0]).n].attrs
        pieces = [p.made("clamp", attrs) for p in pieces]
    if b.chance(0.3):
        pieces = pieces[::-1]
    if b.chance(0.3):
        pieces.insert(b.between(0, len(pieces)), x)
    return [b.concat(axis, *pieces)]


@block(2)
def join(b: Builder, x: Term) -> list[Term]:
    """Adds a CONCAT with values of the same shape, which may be constants, forks of x or CONCATs."""
    axis = b.between(0, len(x.shape) - 1)
    others = [b.of(*_alike(b, x)) for _ in range(b.between(1, 3))]
    ends = (0, 1) if x.dtype == "BOOL" else (-100, 100)
    for i, o in enumerate(others):
        kind = b.between(0, 5)
        if kind == 0:
            constants = [b.const(x.shape, x.dtype, *ends) for _ in range(2)]
            others[i] = b.of(constants[0], b.concat(axis, *constants))
        elif kind <= 2 and DType.of(x.dtype).is_activation:
            others[i] = b.unary(o)
        elif kind == 3 and len(others) > 1:
            others[i] = b.concat(axis, o, x)
    operands = [x, *others]
    b.rng.shuffle(operands)
    return [b.concat(axis, *operands)]


@block(1)
def spans(b: Builder, x: Term) -> list[Term]:
    """Adds a SLICE of a CONCAT, which may lie within one operand or span several."""
    axis = _axis(b, x, 1)
    joined = b.concat(axis, x, b.of(*_alike(b, x)), b.unary(x))
    n = joined.shape[axis]
    if b.chance(0.3):
        return part(b, joined)
    size = b.between(1, n - 1)
    return [joined.part(b.between(0, n - size), size, axis)]


@block(0.5)
def stream(b: Builder, x: Term) -> list[Term]:
    """Adds a streaming state: cached steps (a graph input) and new ones, of which the last remain."""
    axis = _axis(b, x)
    shape = list(x.shape)
    shape[axis] = b.between(1, 3)
    b.want(len(b.g.inputs) < 4 and DType.of(x.dtype).is_activation)
    joined = b.concat(axis, b.input(shape, x.dtype), x)
    return [joined, joined.part(x.shape[axis], shape[axis], axis)]


@block(1.5, BOTH)
def border(b: Builder, x: Term) -> list[Term]:
    """Adds a PAD of H and W or of any axes, by a zero point or the lowest value."""
    rank, low = len(x.shape), DType.of(x.dtype).limits[0]
    pads = [b.of(0, 0, 1, 2) for _ in range(2 * rank)]
    if rank == 4 and b.chance(0.6):
        pads = [0, 0, *(b.between(0, 1) for _ in range(4)), 0, 0]
    y = b.pad(x, pads, b.of(0, low, b.zero(x.dtype)))
    return [b.pad(y, [b.between(0, 1) for _ in pads], b.of(0, low)) if b.chance(0.2) else y]


@block(0.5)
def tile(b: Builder, x: Term) -> list[Term]:
    multiples = [b.of(1, 1, 2, 3) for _ in x.shape]
    b.want(prod(x.shape) * prod(multiples) <= b.largest)
    return [x("tile", multiples=multiples)]


@block(0.5)
def reverse(b: Builder, x: Term) -> list[Term]:
    return [x.reverse(b.between(0, len(x.shape) - 1))]
