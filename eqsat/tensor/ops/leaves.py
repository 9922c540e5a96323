"""Inputs, constants, and operators that are carried without being known.

The latter are opaque ops, their further results, and ops of FX above TOSA's level.
"""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.tensor.ops.op import ALONG_AXIS, Attributes, NotModelled, Op, axis_of, broadcast, declared_type, define
from eqsat.tensor.types import GraphError, Type

_LEAF = NotModelled("has no operands to compute from")
_UNKNOWN = NotModelled("cannot be evaluated here: only the reference model or torch knows what it does")


def _leaf(attrs: Attributes, xs: Sequence[Type]) -> Type:
    raise GraphError("a leaf has no inferred type")


def _call(attrs: Attributes, xs: Sequence[Type]) -> Type:
    return Type(broadcast([x.shape for x in xs]), attrs["dtype"])


def _reduction(attrs: Attributes, xs: Sequence[Type]) -> Type:
    shape = list(xs[0].shape)
    shape[axis_of(attrs, len(shape))] = 1
    return Type(tuple(shape), attrs["dtype"])


define(
    Op(
        name="input",
        kind="leaf",
        operands=0,
        infer=_leaf,
        integer=_LEAF,
        real=_LEAF,
        tosa=False,
        shown=lambda attrs: f"input {attrs['name']}",
    )
)
define(
    Op(
        name="const",
        kind="leaf",
        operands=0,
        infer=_leaf,
        integer=_LEAF,
        real=_LEAF,
        tosa=False,
        shown=(),
    )
)
define(
    Op(
        name="opaque",
        kind="opaque",
        operands=-1,
        infer=declared_type,
        integer=_UNKNOWN,
        real=_UNKNOWN,
        tosa=False,
        shown=lambda attrs: str(attrs["tosa"]).lower(),
    )
)
# An item is one result of an opaque op that has several.
define(
    Op(
        name="item",
        kind="opaque",
        operands=1,
        infer=declared_type,
        integer=_UNKNOWN,
        real=_UNKNOWN,
        tosa=False,
        shown=("index",),
    )
)
# FX ops above TOSA's level are told apart by the attribute "call" (`eqsat/before_lowering/lift.py`).
define(
    Op(
        name="fx",
        kind="pointwise",
        operands=-1,
        infer=_call,
        integer=_UNKNOWN,
        real=_UNKNOWN,
        tosa=False,
        shown=(),
    )
)
define(
    Op(
        name="reduce_fx",
        kind="axial",
        operands=1,
        infer=_reduction,
        integer=_UNKNOWN,
        real=_UNKNOWN,
        tosa=False,
        shown=("axis",),
        along=ALONG_AXIS,
    )
)
