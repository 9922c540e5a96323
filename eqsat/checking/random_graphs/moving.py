"""Blocks of data movement: transposes, views, slices, pads, concats, as networks string them together."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from eqsat.checking.random_graphs.builder import MOST_ELEMENTS, Builder
from eqsat.tensor.dtypes import DType

#: (weight, block): a block adds operators behind a value and gives the new values. It raises Unfit if it cannot.
Block = Callable[[Builder, int], list[int]]
BLOCKS: list[tuple[float, Block]] = []
_HIGHEST_RANK = 6


def block(weight: float) -> Callable[[Block], Block]:
    def register(fn: Block) -> Block:
        BLOCKS.append((weight, fn))
        return fn

    return register


def _factor(b: Builder, n: int) -> int:
    """A divisor of n other than 1 and n."""
    options = [k for k in range(2, n) if n % k == 0]
    b.want(bool(options))
    return b.of(*options)


@block(3)
def layout(b: Builder, x: int) -> list[int]:
    """NCHW to NHWC or back."""
    b.want(len(b.shape(x)) == 4)
    return [b.transpose(x, *b.of((0, 2, 3, 1), (0, 3, 1, 2)))]


@block(2)
def permute(b: Builder, x: int) -> list[int]:
    return [b.transpose(x, *(int(p) for p in b.rng.permutation(len(b.shape(x)))))]


@block(1.5)
def there_and_back(b: Builder, x: int) -> list[int]:
    """transpose, something pointwise, the inverse transpose; a reader in each layout."""
    perm = [int(p) for p in b.rng.permutation(len(b.shape(x)))]
    y = b.unary(b.transpose(x, *perm))
    back = b.transpose(y, *(perm.index(i) for i in range(len(perm))))
    return [y, back] if b.chance(0.3) else [back]


@block(1.5)
def merge(b: Builder, x: int) -> list[int]:
    """A view that joins two neighbouring dims."""
    shape = b.shape(x)
    b.want(len(shape) > 2)
    i = b.int(0, len(shape) - 2)
    return [b.reshape(x, *shape[:i], shape[i] * shape[i + 1], *shape[i + 2 :])]


@block(1.5)
def split(b: Builder, x: int) -> list[int]:
    """A view that splits a dim."""
    shape = b.shape(x)
    b.want(len(shape) < _HIGHEST_RANK)
    i = b.int(0, len(shape) - 1)
    k = _factor(b, shape[i])
    return [b.reshape(x, *shape[:i], k, shape[i] // k, *shape[i + 1 :])]


@block(0.7)
def units(b: Builder, x: int) -> list[int]:
    """A view that adds or drops a dim of 1."""
    shape = list(b.shape(x))
    if 1 in shape and len(shape) > 1 and b.chance(0.5):
        shape.remove(1)
    else:
        b.want(len(shape) < _HIGHEST_RANK)
        shape.insert(b.int(0, len(shape)), 1)
    return [b.reshape(x, *shape)]


@block(0.4)
def flatten(b: Builder, x: int) -> list[int]:
    return [b.reshape(x, 1, b.size(x))]


@block(2)
def shuffle(b: Builder, x: int) -> list[int]:
    """A channel shuffle along the last axis or, in NCHW, the second."""
    shape = b.shape(x)
    axis = b.of(len(shape) - 1, min(1, len(shape) - 1))
    k = _factor(b, shape[axis])
    before, after = prod(shape[:axis]), prod(shape[axis + 1 :])
    y = b.transpose(b.reshape(x, before, k, shape[axis] // k, after), 0, 2, 1, 3)
    return [b.reshape(y, *shape)]


@block(1)
def pixels(b: Builder, x: int) -> list[int]:
    """PixelShuffle or its inverse by 2, in NCHW."""
    b.want(len(b.shape(x)) == 4)
    n, c, h, w = b.shape(x)
    if c % 4 == 0 and b.chance(0.6):
        y = b.transpose(b.reshape(x, n * (c // 4), 2, 2, h, w), 0, 3, 1, 4, 2)
        return [b.reshape(y, n, c // 4, 2 * h, 2 * w)]
    b.want(h % 2 == 0 and w % 2 == 0)
    y = b.transpose(b.reshape(x, n * c, h // 2, 2, w // 2, 2), 0, 2, 4, 1, 3)
    return [b.reshape(y, n, 4 * c, h // 2, w // 2)]


@block(1)
def windows(b: Builder, x: int) -> list[int]:
    """Window partition of NHWC by 2, with the merge back behind something pointwise or without."""
    b.want(len(b.shape(x)) == 4)
    n, h, w, c = b.shape(x)
    b.want(h % 2 == 0 and w % 2 == 0 and h * w > 4)
    y = b.transpose(b.reshape(x, n, h // 2, 2, w // 2, 2, c), 0, 1, 3, 2, 4, 5)
    y = b.reshape(y, n * h * w // 4, 4, c)
    if b.chance(0.5):
        return [y]
    y = b.reshape(b.unary(y), n, h // 2, w // 2, 2, 2, c)
    return [b.reshape(b.transpose(y, 0, 1, 3, 2, 4, 5), n, h, w, c)]


@block(0.7)
def heads(b: Builder, x: int) -> list[int]:
    """[.., T, heads * D] to [heads, T, D], as attention wants it."""
    y = b.three(x)
    n, t, c = b.shape(y)
    b.want(n == 1)
    k = _factor(b, c)
    return [b.transpose(b.reshape(y, t, k, c // k), 1, 0, 2)]


# ---- slices, pads, concats ----------------------------------------------------------------------


def _axis(b: Builder, x: int, least: int = 2) -> int:
    options = [d for d, n in enumerate(b.shape(x)) if n >= least]
    b.want(bool(options))
    return b.of(*options, options[-1])


@block(2)
def part(b: Builder, x: int) -> list[int]:
    axis = _axis(b, x)
    n = b.shape(x)[axis]
    size = b.int(1, n - 1)
    return [b.slice(x, axis, b.of(0, n - size, b.int(0, n - size)), size)]


@block(0.6)
def inner(b: Builder, x: int) -> list[int]:
    """A slice along every axis."""
    sizes = [b.int(max(1, n - 2), n) for n in b.shape(x)]
    return [
        b.add(
            "slice", x, start=tuple(b.int(0, n - s) for n, s in zip(b.shape(x), sizes, strict=True)), size=tuple(sizes)
        )
    ]


@block(1.5)
def halves(b: Builder, x: int) -> list[int]:
    """Slices that cover an axis, each on its way, joined again: in order or not, whole or in part."""
    axis = _axis(b, x)
    n = b.shape(x)[axis]
    cuts = sorted({0, n, *(b.int(1, n - 1) for _ in range(b.int(1, 2)))})
    pieces = [b.slice(x, axis, a, z - a) for a, z in zip(cuts, cuts[1:], strict=False)]
    shared = b.chance(0.4)
    pieces = [p if b.chance(0.5) or shared else b.unary(p) for p in pieces]
    if shared:  # the same operator behind every slice
        attrs = b.g.nodes[b.clamp(pieces[0])].attrs
        pieces = [b.g.add_with("clamp", (p,), attrs) for p in pieces]
    if b.chance(0.3):
        pieces = pieces[::-1]
    if b.chance(0.3):
        pieces.insert(b.int(0, len(pieces)), x)
    return [b.concat(axis, *pieces)]


@block(2)
def join(b: Builder, x: int) -> list[int]:
    """Concat with values of the same shape, constants or forks of x, sometimes one concat inside another or several layouts."""
    axis = b.int(0, len(b.shape(x)) - 1)
    others = [b.of(*b.like(x), x) for _ in range(b.int(1, 3))]
    for i, o in enumerate(others):
        kind = b.int(0, 5)
        if kind == 0:
            constants = [
                b.const(b.shape(x), b.dtype(x), *((0, 1) if b.dtype(x) == "BOOL" else (-100, 100))) for _ in range(2)
            ]
            others[i] = b.of(constants[0], b.concat(axis, *constants))
        elif kind <= 2 and DType.of(b.dtype(x)).is_activation:
            others[i] = b.unary(o)
        elif kind == 3 and len(others) > 1:
            others[i] = b.concat(axis, o, x)
    operands = [x, *others]
    b.rng.shuffle(operands)
    return [b.concat(axis, *map(int, operands))]


@block(1)
def spans(b: Builder, x: int) -> list[int]:
    """A slice that begins in one operand of a concat and ends in another, or lies within one, or beside the axis."""
    axis = _axis(b, x, 1)
    joined = b.concat(axis, x, b.of(*b.like(x), x), b.unary(x))
    n = b.shape(joined)[axis]
    if b.chance(0.3):
        return [*part(b, joined)]
    size = b.int(1, n - 1)
    return [b.slice(joined, axis, b.int(0, n - size), size)]


@block(0.5)
def stream(b: Builder, x: int) -> list[int]:
    """A streaming state: the cached steps (a graph input) and the new ones, of which the last stay."""
    axis = _axis(b, x)
    n = b.shape(x)[axis]
    shape = list(b.shape(x))
    shape[axis] = b.int(1, 3)
    b.want(len(b.g.inputs) < 4 and DType.of(b.dtype(x)).is_activation)
    joined = b.concat(axis, b.input(shape, b.dtype(x)), x)
    return [joined, b.slice(joined, axis, n, shape[axis])]


@block(1.5)
def border(b: Builder, x: int) -> list[int]:
    """A pad: of H and W or of any axes, by a zero point, the least value or anything."""
    rank, (low, _) = len(b.shape(x)), DType.of(b.dtype(x)).limits
    b.want(DType.of(b.dtype(x)).is_activation)
    pads = [b.of(0, 0, 1, 2) for _ in range(2 * rank)]
    if rank == 4 and b.chance(0.6):
        pads = [0, 0, *(b.int(0, 1) for _ in range(4)), 0, 0]
    y = b.pad(x, pads, b.of(0, low, b.zero(b.dtype(x))))
    if b.chance(0.2):
        y = b.pad(y, [b.int(0, 1) for _ in pads], b.of(0, low))
    return [y]


@block(0.5)
def tile(b: Builder, x: int) -> list[int]:
    multiples = [b.of(1, 1, 2, 3) for _ in b.shape(x)]
    b.want(b.size(x) * prod(multiples) <= MOST_ELEMENTS)
    return [b.add("tile", x, multiples=tuple(multiples))]


@block(0.5)
def reverse(b: Builder, x: int) -> list[int]:
    return [b.add("reverse", x, axis=b.int(0, len(b.shape(x)) - 1))]
