"""Values of a region (`regions.py`) in both graphs, and their differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.movement import Move
from eqsat.tensor.ops import OPS, evaluate_op
from eqsat.tensor.samples import Domain
from eqsat.tensor.types import Array, Type

#: Combinations of values of a region's variables that are enumerated, at most.
_CODES = 1 << 16
#: A free value at a boundary: ("class", e-class that both graphs compute) or
#: ("node", node that only the source has).
Variable = tuple[str, int]
#: A value that a graph reads at a boundary: a variable, or a Move of it.
Leaf = tuple[Variable, Move | None]


@dataclass(frozen=True, slots=True)
class Side:
    """The part of a region in one graph.

    root: the node whose value is compared. nodes: the nodes to compute, in order.
    leaves: {node at the boundary: what it reads}.
    """

    graph: TensorGraph
    root: int
    nodes: Sequence[int]
    leaves: Mapping[int, Leaf]

    def values(self, leaves: Mapping[int, Array]) -> dict[int, Array]:
        """Returns {node: value} for the leaves, the nodes and the root.

        Raises GraphError for operators without semantics in numpy.
        """
        out = dict(leaves)
        for k in self.nodes:
            node = self.graph.nodes[k]
            operands = [self._constant(i) if i not in out else out[i] for i in node.inputs]
            out[k] = evaluate_op(node.op, node.attrs, operands, self.graph.type(k))
        if self.root not in out:
            out[self.root] = self._constant(self.root)
        return out

    def _constant(self, n: int) -> Array:
        value: Array = self.graph.nodes[n].attr("value").data
        return value

    def is_pointwise(self) -> bool:
        """Whether each element of the root depends on one of each leaf, everywhere alike."""
        for k in self.nodes:
            node = self.graph.nodes[k]
            constants = [i for i in node.inputs if self.graph.nodes[i].op == "const"]
            if OPS[node.op].kind not in ("pointwise", "move") or any(self._constant(i).size != 1 for i in constants):
                return False
            if node.op == "rescale" and len(node.attr("multiplier")) != 1:
                return False
        return self.graph.nodes[self.root].op != "const"

    def reads_in_one_place(self) -> bool:
        """Whether each element of a pointwise root depends on one element of each variable."""
        moves = {(x, move) for x, move in self.leaves.values()}
        return len(moves) == len({x for x, _ in moves}) and all(
            OPS[self.graph.nodes[k].op].kind != "move" for k in self.nodes
        )

    def of_codes(self, leaves: Mapping[int, Array]) -> Array:
        """Returns a pointwise root's values, for one list of values per leaf. Raises GraphError."""
        out = dict(leaves)
        for k in self.nodes:
            node = self.graph.nodes[k]
            operands = [self._constant(i).reshape(1) if i not in out else out[i] for i in node.inputs]
            if OPS[node.op].kind == "move":
                out[k] = operands[0]
            else:
                result = Type(operands[0].shape, node.dtype)
                out[k] = evaluate_op(node.op, node.attrs, operands, result)
        return out[self.root]


def difference(want: Array, got: Array) -> str:
    """Returns in how many elements two tensors differ, with the first one, or ""."""
    if want.shape != got.shape:
        return f"its shape is {got.shape}, expected {want.shape}"
    wrong = want != got
    if not wrong.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{int(wrong.sum())} of {wrong.size} elements, as {got[at]} instead of {want[at]} at {at}"


def before_a_scale(
    sides: Sequence[Side], want: Mapping[int, Array], got: Mapping[int, Array], move: Move | None
) -> str:
    """Returns the difference in front of the RESCALE in which both sides end, or "".

    Elements are left out whose result is a limit of the dtype.
    A large scale hides a difference of one unit in most sums.
    """
    ends = [side.graph.nodes[side.root] for side in sides]
    if ends[0].op != "rescale" or (ends[0].op, ends[0].attrs) != (ends[1].op, ends[1].attrs):
        return ""
    result = moved(want[sides[0].root], move)
    low, high = DType.of(ends[0].dtype).limits
    within = (result > low) & (result < high)
    fronts = [values.get(end.inputs[0]) for values, end in zip((want, got), ends, strict=True)]
    if fronts[0] is None or fronts[1] is None:
        return ""
    differs = difference(np.where(within, moved(fronts[0], move), 0), np.where(within, fronts[1], 0))
    return differs and f"in front of it {differs}"


def on_all_codes(sides: Sequence[Side], domains: Mapping[Variable, Domain]) -> str | None:
    """Returns the difference of a pointwise region on all combinations of its variables' values.

    Each value is everywhere in its tensor.
    Returns None if there are too many combinations, or if positions remain to be compared.
    """
    dtypes = [DType.of(d.type.dtype) for d in domains.values()]
    if not domains or not all(t.is_integral and 1 << t.bits <= _CODES for t in dtypes):
        return None
    codes = [d.allowed.codes(*t.limits) for d, t in zip(domains.values(), dtypes, strict=True)]
    if prod(len(c) for c in codes) > _CODES or not all(side.is_pointwise() for side in sides):
        return None
    drawn = {
        x: c.reshape(-1).astype(t.storage)
        for x, c, t in zip(domains, np.meshgrid(*codes, indexing="ij"), dtypes, strict=True)
    }
    want, got = (side.of_codes({n: drawn[x] for n, (x, _) in side.leaves.items()}) for side in sides)
    return difference(want, got) or ("" if all(side.reads_in_one_place() for side in sides) else None)


def read(leaves: Mapping[int, Leaf], drawn: Mapping[Variable, Array]) -> dict[int, Array]:
    """Returns {node: value} for the leaves, given the variables' values."""
    return {n: moved(drawn[x], move) for n, (x, move) in leaves.items()}


def moved(x: Array, move: Move | None) -> Array:
    return x if move is None else move.apply(x)
