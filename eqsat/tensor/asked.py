"""The values that the operators of a graph require, carried back to where they come from.

A GATHER, for instance, requires positions inside its tensor (`Op.allowed`).
For other values TOSA leaves the result open, so a comparison on them would show nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache

import numpy as np

from eqsat.tensor.allowed import ANY, Allowed
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import Node, TensorGraph
from eqsat.tensor.ops import OPS, exact_value
from eqsat.tensor.types import Array, Const, GraphError, Type

#: Most elements that are computed to try all values of an operand.
_TRIED = 1 << 22
#: Operators along axes whose results are elements of the operand, besides `Op.copies`.
_CHOOSING = frozenset({"max_pool2d", "reduce_max", "reduce_min"})


def require(graph: TensorGraph) -> dict[int, Allowed]:
    """Returns {live node: the values that its readers require, directly or through other operators, if not all}."""
    out: dict[int, Allowed] = {}
    for n in reversed(graph.live()):
        node = graph.nodes[n]
        own = _own(graph, node)
        for k, i in enumerate(node.inputs):
            wanted = own.get(k, ANY) & _before(graph, n, k, out.get(n, ANY))
            if wanted != ANY:
                out[i] = out.get(i, ANY) & wanted
    return out


def _own(graph: TensorGraph, node: Node) -> Mapping[int, Allowed]:
    """Returns the requirements of one operator by operand, also of an opaque one that the op table has."""
    op = OPS.get(str(node.attr("tosa")).lower()) if node.op == "opaque" else OPS[node.op]
    if op is None or op.allowed is None:
        return {}
    try:
        return op.allowed(dict(node.attrs), [graph.type(i) for i in node.inputs])
    except KeyError:  # an opaque operator may have as operands what is an attribute otherwise
        return {}


def _before(graph: TensorGraph, n: int, k: int, wanted: Allowed) -> Allowed:
    """Returns the values of operand k of a node for which the node has the wanted values.

    If several operands determine the value together, each gets the same requirement, which may not suffice.
    """
    node = graph.nodes[n]
    op, operand = OPS[node.op], graph.nodes[node.inputs[k]]
    if operand.op == "const" or wanted == ANY:
        return ANY
    passed = wanted if operand.dtype == node.dtype else ANY
    if op.kind == "indexed":
        return passed if k != 1 else ANY  # operand 1 gives positions and no element of the result
    if op.copies or node.op in _CHOOSING:
        return passed
    if op.kind != "pointwise":
        return ANY
    if any(graph.nodes[i].op != "const" for j, i in enumerate(node.inputs) if j != k):
        return passed
    operands = (None if j == k else graph.nodes[i].attr("value") for j, i in enumerate(node.inputs))
    return _try_values(node, operand.dtype, tuple(operands), wanted)


@lru_cache(4096)
def _try_values(node: Node, operand: str, operands: tuple[Const | None, ...], wanted: Allowed) -> Allowed:
    """Returns the values of a pointwise node's operand that is None in `operands`, for which it has the wanted values.

    operand: its dtype.
    """
    dtype = DType.of(operand)
    if not dtype.is_integral:
        return ANY

    def values(given: Array) -> Array:
        """Returns the results for given values of the operand, [given, elements of the constants]."""
        one = given.astype(dtype.storage).reshape(-1, *(1,) * len(node.shape))
        read = [one if o is None else o.data for o in operands]
        return exact_value(node.op, node.attrs, read, Type(node.shape, node.dtype)).reshape(len(given), -1)

    try:
        low, high = dtype.limits
        if dtype.bits <= 16 and (high - low + 1) * values(np.zeros(1, np.int64)).size <= _TRIED:
            codes = np.arange(low, high + 1)
            return replace(_among(codes, _fits(values(codes), wanted)), distinct=wanted.distinct)
        return _bisect(values, wanted, dtype.limits)
    except GraphError:
        return ANY


def _fits(values: Array, wanted: Allowed) -> Array:
    """Returns which rows have only wanted values."""
    low, high = wanted.limits()
    fits: Array = (values.min(1) >= low) & (values.max(1) <= high)
    if wanted.never:
        fits &= ~np.isin(values, wanted.never).any(1)
    return fits


def _among(codes: Array, fits: Array) -> Allowed:
    if fits.all() or not fits.any():
        return ANY
    first, last = (int(codes[fits][end]) for end in (0, -1))
    inside = (codes > first) & (codes < last) & ~fits
    return Allowed(first, last, tuple(int(v) for v in codes[inside]))


def _bisect(values: Callable[[Array], Array], wanted: Allowed, limits: tuple[int, int]) -> Allowed:
    """Returns the values for which a monotone function has the wanted results, ANY if three points tell it is none."""
    ends = values(np.array(limits))
    rises = bool((ends[0] <= ends[1]).all())
    least, most = wanted.limits()

    def last(holds: Callable[[Array], bool]) -> int:
        """Returns the last value for which something holds that holds for all values below it."""
        found, beyond = limits[0] - 1, limits[1] + 1
        while found + 1 < beyond:
            middle = (found + beyond) // 2
            found, beyond = (middle, beyond) if holds(values(np.array([middle]))) else (found, middle)
        return found

    if rises:
        low, high = last(lambda v: v.min() < least) + 1, last(lambda v: v.max() <= most)
    else:
        low, high = last(lambda v: v.max() > most) + 1, last(lambda v: v.min() >= least)
    if low > high or not _fits(values(np.array([low, (low + high) // 2, high])), replace(wanted, never=())).all():
        return ANY
    return Allowed(low if low > limits[0] else None, high if high < limits[1] else None, distinct=wanted.distinct)
