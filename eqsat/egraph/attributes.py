"""What the e-graph interns as the attribute of an e-node: an operator with its attributes, a leaf, or a Move."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import Node
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Attrs, Const, attrs_of


@dataclass(frozen=True, slots=True)
class Call:
    """An operator with its attributes, as the e-graph interns it."""

    op: str
    attrs: Attrs

    def attr(self, name: str) -> Any:
        return dict(self.attrs)[name]

    def with_attrs(self, **values: Any) -> Self:
        """The same operator with other values of some attributes."""
        return replace(self, attrs=attrs_of({**dict(self.attrs), **values}))


@dataclass(frozen=True, slots=True)
class LeafValue:
    """An input or a constant with its type."""

    node: Node

    @staticmethod
    def constant(data: NDArray[Any], dtype: str) -> LeafValue:
        """The leaf of a constant array."""
        return LeafValue(
            Node(
                "const",
                (),
                attrs_of({"value": Const(np.asarray(data, DType.of(dtype).storage), dtype)}),
                data.shape,
                dtype,
            )
        )

    @property
    def is_const(self) -> bool:
        return self.node.op == "const"

    @property
    def data(self) -> NDArray[Any]:
        """The array of a constant. Raises KeyError for an input."""
        array: NDArray[Any] = self.node.attr("value").data
        return array


def constructor(op: str, attrs: Attrs, operands: int) -> str:
    """The constructor that holds an op."""
    return constructor_of(op, operands, op == "rescale" and dict(attrs)["per_channel"])


def constructor_of(op: str, operands: int, per_channel: bool) -> str:
    """The same without the other attributes; per_channel: a RESCALE with a scale for each index of the last axis."""
    match OPS[op].kind:
        case "pointwise":
            return "Ax" if per_channel else f"P{operands}"
        case "mac" | "indexed":
            return f"M{operands}"
        case kind:
            return {"axial": "Ax", "concat": "Cat", "leaf": "Leaf", "move": "Move", "opaque": "Opq"}[kind]
