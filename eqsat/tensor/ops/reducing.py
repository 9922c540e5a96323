"""Operators that make one element of all along an axis: reductions, which keep the axis, and ARGMAX, which drops it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eqsat.tensor.ops.op import ALONG_AXIS, Attributes, Evaluate, Infer, NotModelled, Op, axis_of, define, wide
from eqsat.tensor.types import Array, Type


def _reduce(attrs: Attributes, xs: Sequence[Type]) -> Type:
    shape = list(xs[0].shape)
    shape[axis_of(attrs, len(shape))] = 1
    return Type(tuple(shape), xs[0].dtype)


def _reducing(
    name: str,
    integer: Evaluate | NotModelled,
    real: Evaluate | NotModelled,
    infer: Infer = _reduce,
    overflows: bool = False,
) -> None:
    define(
        Op(
            name=name,
            kind="axial",
            operands=1,
            infer=infer,
            integer=integer,
            real=real,
            shown=("axis",),
            tosa=True,
            along=ALONG_AXIS,
            overflows=overflows,
        )
    )


def _summed(attrs: Attributes, xs: Sequence[Array], t: Type) -> Array:
    return np.asarray(np.sum(wide(xs[0]), attrs["axis"], keepdims=True))


def _max(attrs: Attributes, xs: Sequence[Array], t: Type) -> Array:
    return np.asarray(np.max(xs[0], attrs["axis"], keepdims=True))


def _min(attrs: Attributes, xs: Sequence[Array], t: Type) -> Array:
    return np.asarray(np.min(xs[0], attrs["axis"], keepdims=True))


def _any(attrs: Attributes, xs: Sequence[Array], t: Type) -> Array:
    return np.asarray(np.any(xs[0], attrs["axis"], keepdims=True))


def _all(attrs: Attributes, xs: Sequence[Array], t: Type) -> Array:
    return np.asarray(np.all(xs[0], attrs["axis"], keepdims=True))


_FLOATS = NotModelled("is defined for floats only, which the reference model computes")

_reducing("reduce_sum", _summed, lambda attrs, xs, t: np.sum(xs[0], attrs["axis"], keepdims=True), overflows=True)
for _name, _evaluate in (("max", _max), ("min", _min), ("any", _any), ("all", _all)):
    _reducing(f"reduce_{_name}", _evaluate, _evaluate)
_reducing("reduce_product", _FLOATS, _FLOATS)


def _argmax(attrs: Attributes, xs: Sequence[Type]) -> Type:
    axis = axis_of(attrs, len(xs[0].shape))
    return Type(xs[0].shape[:axis] + xs[0].shape[axis + 1 :], "INT32")


def _first_largest(attrs: Attributes, xs: Sequence[Array], t: Type) -> Array:
    return np.asarray(np.argmax(xs[0], attrs["axis"]))


_reducing("argmax", _first_largest, _first_largest, _argmax)
