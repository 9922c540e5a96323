"""Operators that only move elements: transpose, reshape, concat, slice, pad, tile, reverse."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from eqsat.tensor.ops.op import ALONG_AXIS, Along, Attributes, AxisPlacement, alike, axis_of, define, same
from eqsat.tensor.types import Array, GraphError, Type

# ---- movement -----------------------------------------------------------------------------------


def _transpose(attrs: Attributes, xs: Sequence[Type]) -> Type:
    perm, shape = attrs["perms"], xs[0].shape
    if sorted(perm) != list(range(len(shape))):
        raise GraphError(f"perms {perm} is no permutation of the {len(shape)} axes of {shape}")
    return Type(tuple(shape[p] for p in perm), xs[0].dtype)


def _reshape(attrs: Attributes, xs: Sequence[Type]) -> Type:
    if any(d < 1 for d in attrs["shape"]) or math.prod(attrs["shape"]) != xs[0].elements:
        raise GraphError(f"cannot reshape {xs[0].shape} to {attrs['shape']}: different numbers of elements")
    return Type(tuple(attrs["shape"]), xs[0].dtype)


define(
    "move",
    "transpose",
    1,
    _transpose,
    lambda attrs, xs, t: xs[0].transpose(attrs["perms"]),
    shown=("perms",),
    copies=True,
)
define(
    "move",
    "reshape",
    1,
    _reshape,
    lambda attrs, xs, t: xs[0].reshape(attrs["shape"]),
    shown=("shape",),
    folded=(("shape", "SHAPE"),),
    copies=True,
)
define("pointwise", "identity", 1, same, lambda attrs, xs, t: xs[0], copies=True)


# ---- concat -------------------------------------------------------------------------------------


def _concat(attrs: Attributes, xs: Sequence[Type]) -> Type:
    axis = axis_of(attrs, min(len(x.shape) for x in xs))
    alike(xs)
    rest = {x.shape[:axis] + x.shape[axis + 1 :] for x in xs}
    if len(rest) != 1:
        raise GraphError(f"cannot concatenate {[x.shape for x in xs]} along axis {axis}")
    shape = list(xs[0].shape)
    shape[axis] = sum(x.shape[axis] for x in xs)
    return Type(tuple(shape), xs[0].dtype)


define(
    "concat",
    "concat",
    -1,
    _concat,
    lambda attrs, xs, t: np.concatenate(xs, axis=attrs["axis"]),
    shown=("axis",),
    along=Along(lambda attrs, shape: (attrs["axis"],), lambda attrs, p: {"axis": p.to[attrs["axis"]]}),
    copies=True,
)


# ---- along axes ---------------------------------------------------------------------------------


def _slice(attrs: Attributes, xs: Sequence[Type]) -> Type:
    for d, start, size in zip(xs[0].shape, attrs["start"], attrs["size"], strict=True):
        if start < 0 or size < 1 or start + size > d:
            raise GraphError(f"slice start {attrs['start']} size {attrs['size']} leaves the tensor {xs[0].shape}")
    return Type(tuple(attrs["size"]), xs[0].dtype)


def _slice_across(attrs: Attributes, p: AxisPlacement) -> Attributes:
    start, size = [0] * len(p.out_shape), list(p.out_shape)
    for d, to in p.to.items():
        start[to], size[to] = attrs["start"][d] * p.inner[d], attrs["size"][d] * p.inner[d]
    return {"start": tuple(start), "size": tuple(size)}


define(
    "axial",
    "slice",
    1,
    _slice,
    lambda attrs, xs, t: xs[0][tuple(slice(s, s + n) for s, n in zip(attrs["start"], attrs["size"], strict=True))],
    shown=("start", "size"),
    folded=(("start", "SHAPE"), ("size", "SHAPE")),
    along=Along(lambda attrs, shape: tuple(d for d, n in enumerate(shape) if attrs["size"][d] != n), _slice_across),
    copies=True,
)


def _pad(attrs: Attributes, xs: Sequence[Type]) -> Type:
    pads, shape = attrs["pads"], xs[0].shape
    if len(pads) != 2 * len(shape) or min(pads, default=0) < 0:
        raise GraphError(f"pads {pads} for the shape {shape}: give two numbers, not below 0, per axis")
    return Type(tuple(d + pads[2 * i] + pads[2 * i + 1] for i, d in enumerate(shape)), xs[0].dtype)


def _evaluate_pad(attrs: Attributes, xs: Sequence[Array], t: Type) -> Array:
    pads = attrs["pads"]
    widths = [(pads[2 * i], pads[2 * i + 1]) for i in range(xs[0].ndim)]
    return np.pad(xs[0], widths, constant_values=attrs["value"][0]) if widths else xs[0]


def _pad_across(attrs: Attributes, p: AxisPlacement) -> Attributes:
    pads = [0] * (2 * len(p.out_shape))
    for d, to in p.to.items():
        pads[2 * to : 2 * to + 2] = [n * p.inner[d] for n in attrs["pads"][2 * d : 2 * d + 2]]
    return {"pads": tuple(pads)}


define(
    "axial",
    "pad",
    1,
    _pad,
    _evaluate_pad,
    shown=("pads",),
    folded=(("pads", "SHAPE"), ("value", "in0")),
    along=Along(
        lambda attrs, shape: tuple(d for d in range(len(shape)) if any(attrs["pads"][2 * d : 2 * d + 2])), _pad_across
    ),
    copies=True,
)


def _tile(attrs: Attributes, xs: Sequence[Type]) -> Type:
    if min(attrs["multiples"], default=1) < 1:
        raise GraphError(f"multiples {attrs['multiples']} below 1")
    return Type(tuple(d * m for d, m in zip(xs[0].shape, attrs["multiples"], strict=True)), xs[0].dtype)


def _tile_across(attrs: Attributes, p: AxisPlacement) -> Attributes:
    multiples = [1] * len(p.out_shape)
    for d, to in p.to.items():
        multiples[to] = attrs["multiples"][d]
    return {"multiples": tuple(multiples)}


define(
    "axial",
    "tile",
    1,
    _tile,
    lambda attrs, xs, t: np.tile(xs[0], attrs["multiples"]),
    shown=("multiples",),
    folded=(("multiples", "SHAPE"),),
    along=Along(lambda attrs, shape: tuple(d for d, n in enumerate(attrs["multiples"]) if n != 1), _tile_across),
    copies=True,
)


def _reverse(attrs: Attributes, xs: Sequence[Type]) -> Type:
    axis_of(attrs, len(xs[0].shape))
    return xs[0]


define(
    "axial",
    "reverse",
    1,
    _reverse,
    lambda attrs, xs, t: np.flip(xs[0], attrs["axis"]),
    shown=("axis",),
    along=ALONG_AXIS,
    copies=True,
)
