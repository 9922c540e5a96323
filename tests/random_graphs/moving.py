"""Blocks of data movement: transposes and views as networks have them."""

from __future__ import annotations

from math import prod

from tests.random_graphs.builder import Builder, block

_HIGHEST_RANK = 6


def _factor(b: Builder, n: int) -> int:
    """Returns a random divisor of n other than 1 and n. Raises Unfit if there is none."""
    options = [k for k in range(2, n) if n % k == 0]
    b.want(bool(options))
    return b.of(*options)


@block(3)
def layout(b: Builder, x: int) -> list[int]:
    """Adds a transpose from NCHW to NHWC or back."""
    b.want(len(b.shape(x)) == 4)
    return [b.transpose(x, *b.of((0, 2, 3, 1), (0, 3, 1, 2)))]


@block(2)
def permute(b: Builder, x: int) -> list[int]:
    return [b.transpose(x, *(int(p) for p in b.rng.permutation(len(b.shape(x)))))]


@block(1.5)
def there_and_back(b: Builder, x: int) -> list[int]:
    """Adds a transpose, a pointwise operator and the inverse transpose, read in one or both layouts."""
    perm = [int(p) for p in b.rng.permutation(len(b.shape(x)))]
    y = b.unary(b.transpose(x, *perm))
    back = b.transpose(y, *(perm.index(i) for i in range(len(perm))))
    return [y, back] if b.chance(0.3) else [back]


@block(1.5)
def merge(b: Builder, x: int) -> list[int]:
    """Adds a view that joins two neighbouring dims."""
    shape = b.shape(x)
    b.want(len(shape) > 2)
    i = b.between(0, len(shape) - 2)
    return [b.reshape(x, *shape[:i], shape[i] * shape[i + 1], *shape[i + 2 :])]


@block(1.5)
def split(b: Builder, x: int) -> list[int]:
    """Adds a view that splits a dim."""
    shape = b.shape(x)
    b.want(len(shape) < _HIGHEST_RANK)
    i = b.between(0, len(shape) - 1)
    k = _factor(b, shape[i])
    return [b.reshape(x, *shape[:i], k, shape[i] // k, *shape[i + 1 :])]


@block(0.7)
def units(b: Builder, x: int) -> list[int]:
    """Adds a view that adds or drops a dim of 1."""
    shape = list(b.shape(x))
    if 1 in shape and len(shape) > 1 and b.chance(0.5):
        shape.remove(1)
    else:
        b.want(len(shape) < _HIGHEST_RANK)
        shape.insert(b.between(0, len(shape)), 1)
    return [b.reshape(x, *shape)]


@block(0.4)
def flatten(b: Builder, x: int) -> list[int]:
    return [b.reshape(x, 1, b.size(x))]


@block(2)
def shuffle(b: Builder, x: int) -> list[int]:
    """Adds a channel shuffle along the last axis or, in NCHW, the second."""
    shape = b.shape(x)
    axis = b.of(len(shape) - 1, min(1, len(shape) - 1))
    k = _factor(b, shape[axis])
    before, after = prod(shape[:axis]), prod(shape[axis + 1 :])
    y = b.transpose(b.reshape(x, before, k, shape[axis] // k, after), 0, 2, 1, 3)
    return [b.reshape(y, *shape)]


@block(1)
def pixels(b: Builder, x: int) -> list[int]:
    """Adds a PixelShuffle or its inverse by 2, in NCHW."""
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
    """Adds a window partition of NHWC by 2, alone or merged again after a pointwise operator."""
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
    """Adds the views from [.., T, heads * D] to [heads, T, D], as attention wants it."""
    y = b.three(x)
    n, t, c = b.shape(y)
    b.want(n == 1)
    k = _factor(b, c)
    return [b.transpose(b.reshape(y, t, k, c // k), 1, 0, 2)]
