"""Inputs, constants, and opaque operators, which are carried without being known, with their further results."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.tensor.ops.op import Attributes, NotModelled, define, get_declared_type
from eqsat.tensor.types import GraphError, Type

_LEAF = NotModelled("has no operands to compute from")
_UNKNOWN = NotModelled("cannot be evaluated here: only the reference model knows what it does")


def _leaf(attrs: Attributes, xs: Sequence[Type]) -> Type:
    raise GraphError("a leaf has no inferred type")


define("leaf", "input", 0, _leaf, _LEAF, tosa=False, shown=lambda attrs: f"input {attrs['name']}")
define("leaf", "const", 0, _leaf, _LEAF, tosa=False)
define("opaque", "opaque", -1, get_declared_type, _UNKNOWN, tosa=False, shown=lambda attrs: str(attrs["tosa"]).lower())
# An item is one result of an opaque op that has several.
define("opaque", "item", 1, get_declared_type, _UNKNOWN, tosa=False, shown=("index",))
