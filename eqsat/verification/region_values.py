"""Values of a region (`regions.py`) in both graphs, and where they differ."""

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

#: Values of all variables of a region together that are tried one by one, if it is pointwise.
_CODES = 1 << 16
#: A free value at a boundary: of a class that both graphs compute, or of a node that only the source has.
Variable = tuple[str, int]
#: What is read there: a variable, or a Move of it.
Leaf = tuple[Variable, Move | None]


@dataclass(frozen=True, slots=True)
class Side:
    """What of a region lies in one of the graphs: the node whose value is compared, the nodes to compute, in order, and
    the leaves."""

    graph: TensorGraph
    root: int
    nodes: Sequence[int]
    leaves: Mapping[int, Leaf]

    def values(self, leaves: Mapping[int, Array]) -> dict[int, Array]:
        """Of the leaves, the nodes and the root. Raises GraphError for operators without semantics in numpy."""
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
        """Whether each element of the root depends on one of each leaf, in the same way everywhere."""
        for k in self.nodes:
            node = self.graph.nodes[k]
            constants = [i for i in node.inputs if self.graph.nodes[i].op == "const"]
            if OPS[node.op].kind not in ("pointwise", "move") or any(self._constant(i).size != 1 for i in constants):
                return False
            if node.op == "rescale" and len(node.attr("multiplier")) != 1:
                return False
        return self.graph.nodes[self.root].op != "const"

    def reads_in_one_place(self) -> bool:
        """Whether, of what is pointwise, each element of the root depends on one element of each variable."""
        moves = {(x, move) for x, move in self.leaves.values()}
        return len(moves) == len({x for x, _ in moves}) and all(
            OPS[self.graph.nodes[k].op].kind != "move" for k in self.nodes
        )

    def of_codes(self, leaves: Mapping[int, Array]) -> Array:
        """The root's values for a list of values of each leaf, of what is pointwise. Raises GraphError."""
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
    """In how many elements two tensors differ, with the first one, or ""."""
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
    """Where both sides end in the same RESCALE: the difference in front of it, where its result is not at an end of its
    dtype. One unit more or less changes what a large scale makes of few sums only."""
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
    """Where a region is pointwise in variables that have few values together, as one of INT16: the difference on all of
    these, each one everywhere in its tensor; None where that leaves something to find out."""
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
    return {n: moved(drawn[x], move) for n, (x, move) in leaves.items()}


def moved(x: Array, move: Move | None) -> Array:
    return x if move is None else move.apply(x)
