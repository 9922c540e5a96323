"""Inputs, constants, and operators that are carried without being known.

The latter are opaque ops, their further results, and ops of FX above TOSA's level.
"""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.tensor.ops.op import ALONG_AXIS, Attributes, NotModelled, broadcast, declared_type, record, reduced
from eqsat.tensor.types import GraphError, Type

_LEAF = NotModelled("has no operands to compute from")
_UNKNOWN = NotModelled("cannot be evaluated here: only the reference model or torch knows what it does")


def _leaf(attrs: Attributes, xs: Sequence[Type]) -> Type:
    raise GraphError("a leaf has no inferred type")


def _call(attrs: Attributes, xs: Sequence[Type]) -> Type:
    return Type(broadcast([x.shape for x in xs]), attrs["dtype"])


def _reduction(attrs: Attributes, xs: Sequence[Type]) -> Type:
    return Type(reduced(attrs, xs).shape, attrs["dtype"])


record("leaf", "input", 0, _leaf, _LEAF, tosa=False, shown=lambda attrs: f"input {attrs['name']}")
record("leaf", "const", 0, _leaf, _LEAF, tosa=False)
record("opaque", "opaque", -1, declared_type, _UNKNOWN, tosa=False, shown=lambda attrs: str(attrs["tosa"]).lower())
# An item is one result of an opaque op that has several.
record("opaque", "item", 1, declared_type, _UNKNOWN, tosa=False, shown=("index",))
# FX ops above TOSA's level are told apart by the attribute "call" (`eqsat/before_lowering/lift.py`).
record("pointwise", "fx", -1, _call, _UNKNOWN, tosa=False)
record("axial", "reduce_fx", 1, _reduction, _UNKNOWN, tosa=False, shown=("axis",), along=ALONG_AXIS)
