"""Operators that make one element of all along an axis: reductions, which keep the axis, and ARGMAX, which drops it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from eqsat.tensor.ops.op import (
    ALONG_AXIS,
    Attributes,
    Evaluate,
    NotModelled,
    always,
    axis_of,
    define,
    infer_reduced,
    wide,
)
from eqsat.tensor.types import Type


def _along(function: Callable[..., Any]) -> Evaluate:
    return lambda attrs, xs, t: np.asarray(function(xs[0], attrs["axis"], keepdims=True))


_reducing = partial(define, "axial", operands=1, shown=("axis",), along=ALONG_AXIS)
_FLOATS = NotModelled("is defined for floats only, which the reference model computes")

_reducing(
    "reduce_sum",
    infer=infer_reduced,
    integer=lambda attrs, xs, t: np.asarray(np.sum(wide(xs[0]), attrs["axis"], keepdims=True)),
    overflows=always,
    running=lambda attrs, xs, t: np.asarray(np.cumsum(wide(xs[0]), attrs["axis"])),
)
for _name, _function in (("max", np.max), ("min", np.min), ("any", np.any), ("all", np.all)):
    _reducing(f"reduce_{_name}", infer=infer_reduced, integer=_along(_function))
_reducing("reduce_product", infer=infer_reduced, integer=_FLOATS)


def _argmax(attrs: Attributes, xs: Sequence[Type]) -> Type:
    axis = axis_of(attrs, len(xs[0].shape))
    return Type(xs[0].shape[:axis] + xs[0].shape[axis + 1 :], "INT32")


_reducing("argmax", infer=_argmax, integer=lambda attrs, xs, t: np.asarray(np.argmax(xs[0], attrs["axis"])))
