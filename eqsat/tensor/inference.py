"""Shape and dtype inference of the TOSA operators.

Each function takes (attributes, operand types) and returns the result's type; `eqsat.tensor.ops.OPS` refers to them.
Raises GraphError for operands that do not fit.

Source: TOSA specification 1.0, chapter "Operators".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from eqsat.tensor.dtypes import DType
from eqsat.tensor.types import GraphError, Shape, Type

Infer = Callable[[Mapping[str, Any], Sequence[Type]], Type]


def broadcast(shapes: Iterable[Shape]) -> Shape:
    """TOSA broadcasting: equal ranks, each dim equal or 1."""
    shapes = list(shapes)
    if len({len(s) for s in shapes}) > 1:
        raise GraphError(f"operands of different ranks {shapes}: TOSA broadcasts equal ranks only; reshape first")
    out = []
    for dims in zip(*shapes, strict=True):
        size = max(dims)
        if any(d not in (1, size) for d in dims):
            raise GraphError(f"shapes {shapes} do not broadcast")
        out.append(size)
    return tuple(out)


def same(attrs: Mapping, xs: Sequence[Type]) -> Type:
    return xs[0]


def _axis(attrs: Mapping, rank: int) -> int:
    axis = attrs["axis"]
    if not 0 <= axis < rank:
        raise GraphError(f"axis {axis} is none of the {rank} axes")
    return axis


def _alike(xs: Sequence[Type]) -> None:
    if len({x.dtype for x in xs}) != 1:
        raise GraphError(f"operands of different dtypes {[x.dtype for x in xs]}: cast or rescale first")


def pointwise(dtype: str | None = None) -> Infer:
    def infer(attrs: Mapping, xs: Sequence[Type]) -> Type:
        _alike(xs[-2:])  # the condition of a select is BOOL
        if len(xs) == 3 and xs[0].dtype != "BOOL":
            raise GraphError(f"the condition is {xs[0].dtype}, not BOOL")
        return Type(broadcast(x.shape for x in xs), dtype or xs[-1].dtype)

    return infer


def with_dtype(attrs: Mapping, xs: Sequence[Type]) -> Type:
    return Type(xs[0].shape, attrs["dtype"])


def rescale(attrs: Mapping, xs: Sequence[Type]) -> Type:
    channels = xs[0].shape[-1] if attrs["per_channel"] else 1
    if not len(attrs["multiplier"]) == len(attrs["shift"]) == channels:
        raise GraphError(
            f"{len(attrs['multiplier'])} multipliers and {len(attrs['shift'])} shifts for {channels} channels"
        )
    return with_dtype(attrs, xs)


def mul(attrs: Mapping, xs: Sequence[Type]) -> Type:
    _alike(xs)
    integer = DType.of(xs[0].dtype).kind == "integer"
    return Type(broadcast(x.shape for x in xs), "INT32" if integer else xs[0].dtype)


def table(attrs: Mapping, xs: Sequence[Type]) -> Type:
    lookup = DType.of(xs[0].dtype).lookup
    if lookup is None:
        raise GraphError(f"no table takes {xs[0].dtype}")
    if len(attrs["table"]) != lookup.entries:
        raise GraphError(f"a table of {len(attrs['table'])} entries for {xs[0].dtype}, expected {lookup.entries}")
    return Type(xs[0].shape, lookup.result)


def transpose(attrs: Mapping, xs: Sequence[Type]) -> Type:
    perm, shape = attrs["perms"], xs[0].shape
    if sorted(perm) != list(range(len(shape))):
        raise GraphError(f"perms {perm} is no permutation of the {len(shape)} axes of {shape}")
    return Type(tuple(shape[p] for p in perm), xs[0].dtype)


def reshape(attrs: Mapping, xs: Sequence[Type]) -> Type:
    if any(d < 1 for d in attrs["shape"]) or math.prod(attrs["shape"]) != xs[0].elements:
        raise GraphError(f"cannot reshape {xs[0].shape} to {attrs['shape']}: different numbers of elements")
    return Type(tuple(attrs["shape"]), xs[0].dtype)


def concat(attrs: Mapping, xs: Sequence[Type]) -> Type:
    axis = _axis(attrs, min(len(x.shape) for x in xs))
    _alike(xs)
    rest = {x.shape[:axis] + x.shape[axis + 1 :] for x in xs}
    if len(rest) != 1:
        raise GraphError(f"cannot concatenate {[x.shape for x in xs]} along axis {axis}")
    shape = list(xs[0].shape)
    shape[axis] = sum(x.shape[axis] for x in xs)
    return Type(tuple(shape), xs[0].dtype)


def slice_(attrs: Mapping, xs: Sequence[Type]) -> Type:
    for d, start, size in zip(xs[0].shape, attrs["start"], attrs["size"], strict=True):
        if start < 0 or size < 1 or start + size > d:
            raise GraphError(f"slice start {attrs['start']} size {attrs['size']} leaves the tensor {xs[0].shape}")
    return Type(tuple(attrs["size"]), xs[0].dtype)


def pad(attrs: Mapping, xs: Sequence[Type]) -> Type:
    p = attrs["pads"]
    if len(p) != 2 * len(xs[0].shape) or min(p, default=0) < 0:
        raise GraphError(f"pads {p} for the shape {xs[0].shape}: give two numbers, not below 0, per axis")
    return Type(tuple(d + p[2 * i] + p[2 * i + 1] for i, d in enumerate(xs[0].shape)), xs[0].dtype)


def tile(attrs: Mapping, xs: Sequence[Type]) -> Type:
    if min(attrs["multiples"], default=1) < 1:
        raise GraphError(f"multiples {attrs['multiples']} below 1")
    return Type(tuple(d * m for d, m in zip(xs[0].shape, attrs["multiples"], strict=True)), xs[0].dtype)


def reverse(attrs: Mapping, xs: Sequence[Type]) -> Type:
    _axis(attrs, len(xs[0].shape))
    return xs[0]


def reduce(attrs: Mapping, xs: Sequence[Type]) -> Type:
    shape = list(xs[0].shape)
    shape[_axis(attrs, len(shape))] = 1
    return Type(tuple(shape), xs[0].dtype)


def argmax(attrs: Mapping, xs: Sequence[Type]) -> Type:
    a = _axis(attrs, len(xs[0].shape))
    return Type(xs[0].shape[:a] + xs[0].shape[a + 1 :], "INT32")


def _window(size: int, before: int, after: int, kernel: int, stride: int, dilation: int = 1) -> int:
    if min(kernel, stride, dilation) < 1 or min(before, after) < 0:
        raise GraphError(
            f"a window of {kernel} with stride {stride}, dilation {dilation} and pads {before}, {after}: pads are at least 0, the others 1"
        )
    return (size - 1 + before + after - (kernel - 1) * dilation) // stride + 1


def _accumulator(x: Type) -> str:
    return DType.of(x.dtype).accumulator


def _channels(x: int, weights: int, bias: Shape, out: int) -> None:
    if x != weights or bias not in ((out,), (1,)):
        raise GraphError(
            f"{x} channels meet weights for {weights}; the bias of shape {bias} is for {out} output channels"
        )


def conv(kh_axis: int, channels: Callable[[Shape], int]) -> Infer:
    def infer(attrs: Mapping, xs: Sequence[Type]) -> Type:
        (n, h, w, c), k = xs[0].shape, xs[1].shape
        _channels(c, k[-1 if kh_axis else 2], xs[2].shape, channels(k))
        top, bottom, left, right = attrs["pad"]
        (sy, sx), (dy, dx) = attrs["stride"], attrs["dilation"]
        return Type(
            (
                n,
                _window(h, top, bottom, k[kh_axis], sy, dy),
                _window(w, left, right, k[kh_axis + 1], sx, dx),
                channels(k),
            ),
            _accumulator(xs[0]),
        )

    return infer


def transpose_conv(attrs: Mapping, xs: Sequence[Type]) -> Type:
    (n, h, w, c), (oc, kh, kw, ic) = xs[0].shape, xs[1].shape
    _channels(c, ic, xs[2].shape, oc)
    top, bottom, left, right = attrs["out_pad"]
    sy, sx = attrs["stride"]
    if min(sy, sx) < 1:
        raise GraphError(f"strides {sy}, {sx} below 1")
    return Type((n, (h - 1) * sy + top + bottom + kh, (w - 1) * sx + left + right + kw, oc), _accumulator(xs[0]))


def matmul(attrs: Mapping, xs: Sequence[Type]) -> Type:
    (n, h, c), (m, d, w) = xs[0].shape, xs[1].shape
    if (n, c) != (m, d):
        raise GraphError(f"cannot multiply {xs[0].shape} by {xs[1].shape}")
    return Type((n, h, w), _accumulator(xs[0]))


def pool(attrs: Mapping, xs: Sequence[Type]) -> Type:
    n, h, w, c = xs[0].shape
    top, bottom, left, right = attrs["pad"]
    (ky, kx), (sy, sx) = attrs["kernel"], attrs["stride"]
    return Type((n, _window(h, top, bottom, ky, sy), _window(w, left, right, kx, sx), c), xs[0].dtype)


def declared(attrs: Mapping, xs: Sequence[Type]) -> Type:
    return Type(attrs["shape"], attrs["dtype"])


def fx(attrs: Mapping, xs: Sequence[Type]) -> Type:
    return Type(broadcast(x.shape for x in xs), attrs["dtype"])


def reduce_fx(attrs: Mapping, xs: Sequence[Type]) -> Type:
    return Type(reduce(attrs, xs).shape, attrs["dtype"])


def leaf(attrs: Mapping, xs: Sequence[Type]) -> Type:
    raise GraphError("a leaf has no inferred type")
