"""The elements of a result as copies or sums of products of elements of the inputs.

Constants of other operators with the same result are computed from that, not guessed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.discovery.backward import reads
from eqsat.tensor.graph import Node, TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Attrs

Ints = NDArray[np.int64]
#: Addends of all rows together, at most.
_MOST_ADDENDS = 1 << 23
#: A unary operator after the sum: its name and attributes, those per channel for one channel.
Step = tuple[str, Attrs]


class NoRows(ValueError):
    """An error: the graph has an operator whose result cannot be written as rows.

    The message names it.
    """


@dataclass(slots=True)
class Rows:
    """Elements of a result as rows, one each.

    A row is steps(bias + sum of coefficient * input element).
    row, input, element, coefficient: of each addend.
    bias, is_sum, steps: of each row.
    """

    bias: Ints
    is_sum: NDArray[np.bool_]
    steps: list[tuple[Step, ...]]
    row: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    input: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    element: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    coefficient: Ints = field(default_factory=lambda: np.zeros(0, np.int64))


def rows(graph: TensorGraph, elements: Ints) -> Rows:
    """Returns the rows of some elements (flat indices) of the graph's one output.

    Raises NoRows.
    """
    n = len(elements)
    walk = _Walk(graph, Rows(np.zeros(n, np.int64), np.zeros(n, bool), [()] * n))
    walk.put(graph.outputs[0], np.arange(n), elements.astype(np.int64), np.ones(n, np.int64))
    for number in sorted(graph.live(), reverse=True):
        if number in walk.pending:
            walk.follow(number, *(np.concatenate(p) for p in zip(*walk.pending.pop(number))))
    out = walk.out
    if walk.found:
        out.row, out.input, out.element, out.coefficient = (np.concatenate(p) for p in zip(*walk.found))
    return out


@dataclass(slots=True)
class _Walk:
    """A traversal from the result to the inputs.

    pending: {node: [(rows, elements, coefficients)]} that are still to be followed.
    found: [(rows, inputs, elements, coefficients)].
    """

    graph: TensorGraph
    out: Rows
    pending: dict[int, list[tuple[Ints, Ints, Ints]]] = field(default_factory=dict)
    found: list[tuple[Ints, Ints, Ints, Ints]] = field(default_factory=list)
    count: int = 0

    def put(self, n: int, row: Ints, element: Ints, coefficient: Ints) -> None:
        self.count += len(row)
        if self.count > _MOST_ADDENDS:
            raise NoRows("too many addends")
        if len(row):
            self.pending.setdefault(n, []).append((row, element, coefficient))

    def follow(self, number: int, row: Ints, element: Ints, coefficient: Ints) -> None:
        graph, node = self.graph, self.graph.nodes[number]
        if node.op == "input":
            self.found.append((row, np.full(len(row), graph.inputs.index(number)), element, coefficient))
            return
        if node.op == "const":
            np.add.at(self.out.bias, row, coefficient * node.attr("value").data.reshape(-1)[element].astype(np.int64))
            return
        found = reads(graph, number, element)
        if found is not None:
            self.out.is_sum[row] |= found.is_sum
            np.add.at(self.out.bias, row, coefficient * found.constant)
            for operand, at, elements, factors in found.addends:
                self.put(operand, row[at], elements, coefficient[at] * factors)
        elif OPS[node.op].kind == "pointwise" and len(node.inputs) == 1:
            self._step(row, [(node.op, a) for a in _of_channels(node, element)])
            self.put(node.inputs[0], row, element, coefficient)
        else:
            raise NoRows(node.op)

    def _step(self, row: Ints, steps: list[Step]) -> None:
        """Prepends unary operators, which come after all that is added up. Raises NoRows."""
        if self.out.is_sum[row].any():
            raise NoRows("an operator before a sum")
        for r, step in zip(row.tolist(), steps, strict=True):
            self.out.steps[r] = (step, *self.out.steps[r])


def _of_channels(node: Node, element: Ints) -> list[Attrs]:
    """Returns an operator's attributes for each element of its result, those per channel for its channel."""
    attrs: dict[str, Any] = dict(node.attrs)
    if not attrs.get("per_channel"):
        return [node.attrs] * len(element)
    made = [
        tuple(sorted({**attrs, "multiplier": (m,), "shift": (s,), "per_channel": False}.items()))
        for m, s in zip(attrs["multiplier"], attrs["shift"], strict=True)
    ]
    return [made[c] for c in (element % node.shape[-1]).tolist()]
