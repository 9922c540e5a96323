"""The texts of e-nodes and types: `clamp[0..127](transpose[0,2,3,1](n12))`, `INT8 [1,24,28,28]`."""

from __future__ import annotations

from typing import Any

from eqsat.egraph.attributes import Call, LeafValue
from eqsat.egraph.encoding import ENode
from eqsat.tensor.movement import Move
from eqsat.tensor.ops import OPS
from eqsat.tensor.ops.op import numbers
from eqsat.tensor.types import Type


def type_text(t: Type | None) -> str:
    return "" if t is None else f"{t.dtype} [{numbers(t.shape)}]"


def move_text(m: Move) -> str:
    """Returns a movement as a single TRANSPOSE or RESHAPE, or by the order of its atomic axes."""
    if m.is_view:
        return f"reshape[{numbers(m.out_shape)}]"
    direct = m.direct()
    if direct is not None:
        return f"transpose[{numbers(direct)}]"
    sizes, perm = m.squeeze()
    return f"reorder[{'x'.join(map(str, sizes))} by {numbers(perm)}, to {numbers(m.out_shape)}]"


def value_text(value: Any) -> str:
    """Returns the text of an e-node's interned attributes."""
    if isinstance(value, Move):
        return move_text(value)
    if isinstance(value, LeafValue):
        node = value.node
        return f"const {type_text(Type(node.shape, node.dtype))}" if value.is_const else OPS[node.op].text(node.attrs)
    return OPS[value.op].text(value.attrs) if isinstance(value, Call) else str(value)


def enode_text(e: ENode) -> str:
    return move_text(e.move) if e.move is not None else OPS[e.op].text(e.attrs)
