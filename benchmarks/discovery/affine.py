"""The elements of a result as copies or sums of products of elements of the inputs.

Constants of other operators with the same result are computed from that, not guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqsat.tensor.graph import Node, TensorGraph
from eqsat.tensor.ops import OPS, evaluate_op
from eqsat.tensor.ops.indexing import NEAREST
from eqsat.tensor.types import Attrs, Type

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


# ---- elements of an operator's result in terms of elements of its operands

#: (operand, index of each element asked for, flat index in the operand, coefficient).
Addend = tuple[int, Ints, Ints, Ints]
_MOVING = frozenset({"transpose", "reshape", "identity", "concat", "slice", "pad", "tile", "reverse"})


@dataclass(slots=True)
class Reads:
    """Elements of a result in terms of operands.

    is_sum: each element is the sum of all its addends and the constant, otherwise a copy of one addend or constant.
    """

    is_sum: bool
    addends: list[Addend]
    constant: Ints


def reads(graph: TensorGraph, n: int, element: Ints) -> Reads | None:
    """Returns some elements (flat indices) of a node's result in terms of its operands.

    Returns None if they are neither copies nor sums.
    """
    node = graph.nodes[n]
    if node.op in _MOVING or node.op == "resize" and node.attr("mode") == NEAREST:
        return _moved(graph, n, element)
    known = _ADDENDS.get(node.op)
    if known is not None:
        constant = np.zeros(len(element), np.int64)
        addends = known(graph, n, element, constant)
        return None if addends is None else Reads(True, list(addends), constant)
    return None


def _moved(graph: TensorGraph, n: int, element: Ints) -> Reads:
    """Returns the elements of a data movement, by moving the elements' numbers."""
    node, begin, numbers = graph.nodes[n], [0], []
    for i in node.inputs:
        size = graph.type(i).elements
        numbers.append(np.arange(begin[-1], begin[-1] + size).reshape(graph.nodes[i].shape))
        begin.append(begin[-1] + size)
    attrs = tuple((k, (-1,) if k == "value" else v) for k, v in node.attrs)
    origin = np.asarray(evaluate_op(node.op, attrs, numbers, Type(node.shape, "INT32"))).reshape(-1)[element]
    constant = np.where(origin < 0, node.attr("value")[0], 0) if node.op == "pad" else np.zeros(len(element), np.int64)
    addends = []
    for k, i in enumerate(node.inputs):
        at = np.flatnonzero((origin >= begin[k]) & (origin < begin[k + 1]))
        addends.append((i, at, origin[at] - begin[k], np.ones(len(at), np.int64)))
    return Reads(False, addends, constant)


def _windows(
    shape: tuple[int, ...], attrs: Mapping[str, Any], kernel: tuple[int, int], row: Ints, column: Ints
) -> Iterator[tuple[int, int, Ints, Ints, Ints]]:
    """Yields (ky, kx, windows whose tap (ky, kx) is inside, its rows, its columns)."""
    (sy, sx), (dy, dx), (top, _, left, _) = attrs["stride"], attrs.get("dilation", (1, 1)), attrs["pad"]
    for ky, kx in product(range(kernel[0]), range(kernel[1])):
        y, x = row * sy - top + ky * dy, column * sx - left + kx * dx
        at = np.flatnonzero((y >= 0) & (y < shape[1]) & (x >= 0) & (x < shape[2]))
        yield ky, kx, at, y[at], x[at]


def _weights(graph: TensorGraph, n: int) -> Ints | None:
    """Returns a convolution's weights without zero point, or None if an operand is not constant."""
    node = graph.nodes[n]
    if any(graph.nodes[i].op != "const" for i in node.inputs[1:]):
        return None
    return _constant(graph, node.inputs[1]) - int(node.attr("w_zp")[0])


def _constant(graph: TensorGraph, n: int) -> Ints:
    data: Ints = graph.nodes[n].attr("value").data.astype(np.int64)
    return data


def _convolution(graph: TensorGraph, n: int, element: Ints, constant: Ints) -> Iterator[Addend] | None:
    weights = _weights(graph, n)
    return None if weights is None else _products(graph, n, element, constant, weights)


def _products(graph: TensorGraph, n: int, element: Ints, constant: Ints, weights: Ints) -> Iterator[Addend]:
    node, attrs = graph.nodes[n], dict(graph.nodes[n].attrs)
    image, row, column, channel = np.unravel_index(element, node.shape)
    bias = _constant(graph, node.inputs[2])
    constant += bias[channel if len(bias) > 1 else np.zeros_like(channel)]
    shape, zero = graph.nodes[node.inputs[0]].shape, attrs["in_zp"][0]
    depthwise = node.op == "depthwise_conv2d"
    kernel = weights.shape[:2] if depthwise else weights.shape[1:3]
    for ky, kx, at, y, x in _windows(shape, attrs, kernel, row, column):
        if depthwise:
            of, which = np.divmod(channel[at], weights.shape[3])
            factors, inner = weights[ky, kx, of, which][:, None], of[:, None]
        else:
            factors, inner = weights[channel[at], ky, kx], np.arange(shape[3])[None]
        np.subtract.at(constant, at, factors.sum(1) * zero)
        flat = ((image[at] * shape[1] + y) * shape[2] + x)[:, None] * shape[3] + inner
        kept = factors != 0
        yield node.inputs[0], np.repeat(at, kept.sum(1)), flat[kept], factors[kept]


def _reduced(graph: TensorGraph, n: int, element: Ints, constant: Ints) -> Iterator[Addend]:
    node, shape = graph.nodes[n], graph.nodes[graph.nodes[n].inputs[0]].shape
    axis, place = node.attr("axis"), list(np.unravel_index(element, node.shape))
    at, ones = np.arange(len(element)), np.ones(len(element), np.int64)
    for k in range(shape[axis]):
        place[axis] = np.full(len(element), k)
        yield node.inputs[0], at, np.ravel_multi_index(place, shape), ones


def _sum_of_both(graph: TensorGraph, n: int, element: Ints, constant: Ints) -> Iterator[Addend] | None:
    """Returns the addends of ADD and SUB of INT32, else None."""
    return _of_both(graph, n, element) if graph.nodes[n].dtype == "INT32" else None


def _of_both(graph: TensorGraph, n: int, element: Ints) -> Iterator[Addend]:
    node, at = graph.nodes[n], np.arange(len(element))
    for k, i in enumerate(node.inputs):
        shape = graph.nodes[i].shape
        numbers = np.broadcast_to(np.arange(graph.type(i).elements).reshape(shape), node.shape).reshape(-1)[element]
        yield i, at, numbers, np.full(len(element), -1 if k and node.op == "sub" else 1)


def _scaled(graph: TensorGraph, n: int, element: Ints, constant: Ints) -> Iterator[Addend] | None:
    """Returns the addends of a RESCALE to INT32 by a whole number, else None."""
    node = graph.nodes[n]
    attrs = dict(node.attrs)
    whole = all(m % (1 << s) == 0 for m, s in zip(attrs["multiplier"], attrs["shift"], strict=True))
    if node.dtype != "INT32" or not whole or attrs["input_unsigned"] or attrs["output_unsigned"]:
        return None
    factors = np.array([m >> s for m, s in zip(attrs["multiplier"], attrs["shift"], strict=True)], np.int64)
    factor = factors[element % node.shape[-1]] if attrs["per_channel"] else np.full(len(element), factors[0])
    constant += attrs["out_zp"][0] - factor * attrs["in_zp"][0]
    return iter([(node.inputs[0], np.arange(len(element)), element, factor)])


def _matrix(graph: TensorGraph, n: int, element: Ints, constant: Ints) -> Iterator[Addend] | None:
    """Returns the addends of MATMUL by a constant right operand, else None."""
    node = graph.nodes[n]
    left, right = node.inputs
    if graph.nodes[right].op != "const":
        return None
    matrix, depth = _constant(graph, right) - int(node.attr("w_zp")[0]), graph.nodes[left].shape[2]
    image, row, column = np.unravel_index(element, node.shape)
    factors = matrix[image, :, column]
    constant -= factors.sum(1) * node.attr("in_zp")[0]
    flat = ((image * node.shape[1] + row) * depth)[:, None] + np.arange(depth)
    return iter([(left, np.repeat(np.arange(len(element)), depth), flat.reshape(-1), factors.reshape(-1))])


#: {operator: its addends, for (graph, node, elements, constants)}.
#: The function adds to the constants in place.
_ADDENDS: Mapping[str, Callable[[TensorGraph, int, Ints, Ints], Iterator[Addend] | None]] = {
    "conv2d": _convolution,
    "depthwise_conv2d": _convolution,
    "reduce_sum": _reduced,
    "add": _sum_of_both,
    "sub": _sum_of_both,
    "rescale": _scaled,
    "matmul": _matrix,
}
