"""Inputs, constants, and opaque operators, which are carried without being known, with their further results."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.tensor.ops.op import Attributes, NotModelled, get_declared_type, record
from eqsat.tensor.types import GraphError, Type

_LEAF = NotModelled("has no operands to compute from")
_UNKNOWN = NotModelled("cannot be evaluated here: only the reference model knows what it does")


def _leaf(attrs: Attributes, xs: Sequence[Type]) -> Type:
    raise GraphError("a leaf has no inferred type")


record("leaf", "input", 0, _leaf, _LEAF, tosa=False, shown=lambda attrs: f"input {attrs['name']}")
record("leaf", "const", 0, _leaf, _LEAF, tosa=False)
record("opaque", "opaque", -1, get_declared_type, _UNKNOWN, tosa=False, shown=lambda attrs: str(attrs["tosa"]).lower())
# An item is one result of an opaque op that has several.
record("opaque", "item", 1, get_declared_type, _UNKNOWN, tosa=False, shown=("index",))
