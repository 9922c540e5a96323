"""The attributes of e-nodes, which the e-graph interns: operators with attributes, and leaves.

The attribute of a data movement is a `Move` (`eqsat/tensor/movement.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import Node
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Attrs, Const, Type, attrs_of


@dataclass(frozen=True, slots=True)
class Call:
    """An operator with its attributes, as the e-graph interns it."""

    op: str
    attrs: Attrs

    def attr(self, name: str) -> Any:
        """Returns the value of an attribute.

        Raises KeyError if the operator does not have it.
        """
        return dict(self.attrs)[name]

    def with_attrs(self, **values: Any) -> Self:
        """Returns the operator with other values of some attributes."""
        return replace(self, attrs=attrs_of({**dict(self.attrs), **values}))


@dataclass(frozen=True, slots=True)
class LeafValue:
    """An input or a constant, given by its node of the tensor language."""

    node: Node

    @staticmethod
    def constant(data: NDArray[Any], dtype: str) -> LeafValue:
        """Returns the leaf of a constant array, which is stored in the numpy type of `dtype`."""
        value = Const(np.asarray(data, DType.of(dtype).storage), dtype)
        return LeafValue(Node("const", (), attrs_of({"value": value}), data.shape, dtype))

    @property
    def type(self) -> Type:
        """Shape and dtype."""
        return Type(self.node.shape, self.node.dtype)

    @property
    def is_const(self) -> bool:
        return self.node.op == "const"

    @property
    def data(self) -> NDArray[Any]:
        """The array of a constant.

        Raises KeyError for an input.
        """
        array: NDArray[Any] = self.node.attr("value").data
        return array


def constructor(op: str, operands: int) -> str:
    """Returns the name of the constructor (`encoding.py`) of an operator's e-nodes.

    operands: their number.
    """
    match OPS[op].kind:
        case "pointwise" | "axial":
            return f"P{operands}"
        case "mac" | "indexed":
            return f"M{operands}"
        case kind:
            return {"concat": "Cat", "leaf": "Leaf", "move": "Move", "opaque": "Opq"}[kind]
