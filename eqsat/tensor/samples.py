"""Inputs on which graphs are compared.

Different errors need different inputs to show: a wrong clamp limits, a dropped SELECT one input low and another high,
an error on few codes before a mean over a plane planes of one code, a wrong border a single element that stands out.
So samples come in kinds:

  low, high  the lowest, the highest value everywhere, in all inputs
  edges      per element a limit or its neighbour
  uniform    per element any value;
             INT8 has each code about equally often, and at least once if there is room
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

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from eqsat.tensor.allowed import ANY, Allowed
from eqsat.tensor.asked import require
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import Array, GraphError, Type

#: Bits of INT32 and INT48 inputs, by trial: few, so that sums and products do not overflow.
_WIDE_BITS = (20, 20, 12, 20, 7, 20)


@dataclass(frozen=True, slots=True)
class Domain:
    """The values from which a tensor is drawn.

    allowed: the values that operators require (`asked.py`).
    """

    type: Type
    allowed: Allowed = ANY


def domains(graph: TensorGraph) -> list[Domain]:
    """Returns the domain of each input, from how the graph uses it."""
    allowed = require(graph)
    return [Domain(graph.type(i), allowed.get(i, ANY)) for i in graph.inputs]


def samples(given: Sequence[Domain], trials: int, seed: int = 0) -> list[list[Array]]:
    """Returns the first `trials` samples, each with a tensor per domain.

    Raises GraphError for a dtype that numpy does not have.
    """
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
