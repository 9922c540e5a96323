"""Inputs on which graphs are compared.

Different errors need different inputs to show: a wrong clamp limits, a dropped SELECT one input low and another high,
an error on few codes before a mean over a plane planes of one code, a wrong border a single element that stands out.
So samples come in kinds:

  low, high  the lowest, the highest value everywhere, in all inputs
  edges      per element a limit or its neighbour
  uniform    per element any value; INT8 has each code about equally often, and at least once if there is room
  planes     one value per index along one axis, such as a channel
  impulses   one value everywhere but in a few elements
  gradient   a ramp over the elements or along one axis
  constant   one value everywhere, another one in each input

>>> g = TensorGraph()
>>> x = g.add_input("x", (2, 3), "INT8")
>>> [xs[0].tolist() for xs in samples(domains(g), 2)]
[[[-128, -128, -128], [-128, -128, -128]], [[127, 127, 127], [127, 127, 127]]]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from eqsat.tensor.graph import Node, TensorGraph
from eqsat.tensor.ops import OPS, exact_value
from eqsat.tensor.types import ANY, Allowed, Array, Const, DType, GraphError, Type

# The values that the operators of a graph require (`Op.allowed`), carried back to where they come from.
# A GATHER, for instance, requires positions inside its tensor. For other values TOSA leaves the result open, so a
# comparison on them would show nothing.

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
    """Returns the values for which a monotone function has the wanted results, ANY if three points show it is not."""
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


#: Bits of INT32 and INT48 inputs, by trial: few, so that sums and products do not overflow.
_WIDE_BITS = (20, 20, 12, 20, 7, 20)


@dataclass(frozen=True, slots=True)
class Domain:
    """The values from which a tensor is drawn: those of its type that operators allow."""

    type: Type
    allowed: Allowed = ANY


def domains(graph: TensorGraph) -> list[Domain]:
    """Returns the domain of each input, from how the graph uses it."""
    allowed = require(graph)
    return [Domain(graph.type(i), allowed.get(i, ANY)) for i in graph.inputs]


def samples(given: Sequence[Domain], trials: int, seed: int = 0) -> list[list[Array]]:
    """Returns the first `trials` samples, a tensor per domain each. Raises GraphError for dtypes that numpy lacks."""
    rng = np.random.default_rng(seed)
    return [_sample(given, k, rng) for k in range(trials)]


def uniform(given: Sequence[Domain], rng: np.random.Generator) -> list[Array]:
    """Returns a sample of the kind uniform."""
    return _sample(given, _FIRST.index("uniform"), rng)


def _sample(given: Sequence[Domain], trial: int, rng: np.random.Generator) -> list[Array]:
    if strange := {d.type.dtype for d in given if DType.of(d.type.dtype).carried}:
        raise GraphError(f"no values of {', '.join(sorted(strange))} can be made")
    out = []
    for domain in given:
        if trial < len(_FIRST):
            kind = _FIRST[trial]
        else:
            kind = _KINDS[trial % len(_KINDS)] if rng.random() < 0.5 else _KINDS[rng.integers(len(_KINDS))]
        out.append(_draw(domain, kind, trial, rng))
    return out


@dataclass(frozen=True, slots=True)
class _Drawing:
    """One tensor to be drawn, from `low` to `high`."""

    shape: tuple[int, ...]
    low: int
    high: int
    rng: np.random.Generator

    def uniform(self, shape: tuple[int, ...]) -> Array:
        return self.rng.integers(self.low, self.high, shape, endpoint=True)

    def values(self, shape: tuple[int, ...]) -> Array:
        """Returns uniform values and edges, half of each."""
        return np.where(self.rng.random(shape) < 0.5, self.uniform(shape), self.edges(shape))

    def edges(self, shape: tuple[int, ...]) -> Array:
        """Returns limits and their neighbours, each equally often."""
        near = [self.low, min(self.low + 1, self.high), self.high, max(self.high - 1, self.low)]
        chosen: Array = np.array(near)[self.rng.integers(0, len(near), shape)]
        return chosen


def _uniform(d: _Drawing) -> Array:
    size = int(np.prod(d.shape))
    span = d.high - d.low + 1
    if span > min(size, 1 << 12):
        return d.uniform(d.shape)
    codes: Array = d.rng.permutation(size) % span + d.low
    return codes.reshape(d.shape)


def _planes(d: _Drawing) -> Array:
    rank = len(d.shape)
    axis = int(d.rng.choice([min(1, rank - 1), rank - 1, d.rng.integers(rank)])) if rank else 0
    return np.broadcast_to(d.values(tuple(n if a == axis else 1 for a, n in enumerate(d.shape))), d.shape)


def _impulses(d: _Drawing) -> Array:
    out = np.array(np.broadcast_to(d.values((1,) * len(d.shape)), d.shape))
    count = int(d.rng.integers(1, 4))
    at = d.rng.integers(0, out.size, count)
    out.reshape(-1)[at] = d.values((count,))
    return out


def _gradient(d: _Drawing) -> Array:
    size = int(np.prod(d.shape))
    if d.rng.random() < 0.5 or not d.shape:
        share = np.arange(size).reshape(d.shape) / max(1, size - 1)
    else:
        axis = int(d.rng.integers(len(d.shape)))
        share = np.broadcast_to(
            np.linspace(0, 1, d.shape[axis]).reshape([-1 if a == axis else 1 for a in range(len(d.shape))]), d.shape
        )
    ramp: Array = np.rint(d.low + share * float(d.high - d.low)).astype(np.int64)
    return ramp


_DRAWN: dict[str, Callable[[_Drawing], Array]] = {
    "low": lambda d: np.broadcast_to(d.low, d.shape),
    "high": lambda d: np.broadcast_to(d.high, d.shape),
    "edges": lambda d: d.edges(d.shape),
    "uniform": _uniform,
    "planes": _planes,
    "impulses": _impulses,
    "gradient": _gradient,
    "constant": lambda d: np.broadcast_to(d.values((1,) * len(d.shape)), d.shape),
}
#: The kinds of the first trials. In later ones each input has a kind of its own.
_FIRST = ("low", "high", "edges", "uniform", "planes", "impulses", "gradient")
_KINDS = ("edges", "uniform", "planes", "impulses", "uniform", "gradient", "edges", "planes", "constant")


def _draw(domain: Domain, kind: str, trial: int, rng: np.random.Generator) -> Array:
    t = domain.type
    dtype = DType.of(t.dtype)
    storage = dtype.storage
    if dtype.kind == "float":
        normal: Array = rng.standard_normal(t.shape).astype(storage)
        return normal
    wide = 1 << _WIDE_BITS[trial % len(_WIDE_BITS)]
    limits = (-wide, wide) if dtype.is_accumulator else dtype.limits
    least, most = domain.allowed.limits()
    low, high = (min(max(limit, least), most) for limit in limits)
    if domain.allowed.distinct and t.shape and t.shape[-1] <= high - low + 1:
        rows = [rng.permutation(high - low + 1)[: t.shape[-1]] + low for _ in range(t.elements // t.shape[-1])]
        return np.array(rows, storage).reshape(t.shape)
    drawn = _DRAWN[kind](_Drawing(t.shape, low, high, rng))
    return np.array(domain.allowed.nearest_above(drawn), storage)
