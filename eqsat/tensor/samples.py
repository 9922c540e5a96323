"""Inputs on which graphs are compared.

Different errors need different inputs to show.
A wrong clamp needs limits, a dropped SELECT one input low and another high.
An error on few codes before a mean over a plane needs planes of one code.
A wrong border needs a single element that stands out.
So samples come in kinds.
From the third on each element of each input is drawn independently of the others:

  low, high  the lowest, the highest value everywhere, in all inputs
  edges      per element a limit, its neighbour, or a zero point with which it is read
  uniform    per element any value;
             INT8 has each code about equally often, and at least once if there is room
  planes     one value per index along one axis, such as a channel
  impulses   one value everywhere but in a few elements
  gradient   a ramp over the elements or along one axis
  constant   one value everywhere, another one in each input
  points     values at which the graph's behaviour changes (`points.py`) and their neighbours
             in all inputs at once
  aligned    the highest where a weight of a sum is positive and the lowest where it is negative,
             except in a few elements (`alignment.py`)

>>> g = TensorGraph()
>>> x = g.add_input("x", (2, 3), "INT8")
>>> [xs[0].tolist() for xs in samples(domains(g), 2)]
[[[-128, -128, -128], [-128, -128, -128]], [[127, 127, 127], [127, 127, 127]]]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from eqsat.tensor.alignment import patterns
from eqsat.tensor.allowed import ANY, Allowed
from eqsat.tensor.asked import asked
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.points import points
from eqsat.tensor.types import Array, GraphError, Type

#: Bits of INT32 and INT48 inputs, by trial.
#: They are few so that sums do not overflow, which TOSA leaves undefined.
#: A graph that multiplies such inputs needs even fewer bits.
_WIDE_BITS = (20, 20, 12, 20, 7, 20)


@dataclass(frozen=True, slots=True)
class Domain:
    """The values from which a tensor is drawn.

    low, high: limits, both included (None: those of the dtype).
    They are one number each, or one per index of the last axis.
    points: values of interest besides the limits.
    allowed: the values that operators require (`asked.py`).
    patterns: tensors of 1 where values are to be high together, -1 where low.
    """

    type: Type
    low: int | Array | None = None
    high: int | Array | None = None
    points: tuple[int, ...] = ()
    allowed: Allowed = ANY
    patterns: tuple[Array, ...] = ()


def domains(graph: TensorGraph) -> list[Domain]:
    """Returns the domain of each input, from how the graph uses it."""
    allowed, of_interest, aligned = asked(graph), points(graph), patterns(graph)
    return [
        Domain(
            graph.type(i),
            points=of_interest.get(i, ()),
            allowed=allowed.get(i, ANY),
            patterns=tuple(aligned.get(i, ())),
        )
        for i in graph.inputs
    ]


def samples(given: Sequence[Domain], trials: int, seed: int = 0) -> list[list[Array]]:
    """Returns the first `trials` samples, each with a tensor per domain.

    Raises GraphError for a dtype that numpy does not have.
    """
    rng = np.random.default_rng(seed)
    return [sample(given, k, rng) for k in range(trials)]


def uniform(given: Sequence[Domain], rng: np.random.Generator) -> list[Array]:
    """Returns a sample of the kind uniform."""
    return sample(given, _FIRST.index("uniform"), rng)


def sample(given: Sequence[Domain], trial: int, rng: np.random.Generator) -> list[Array]:
    """Returns the sample of trial number `trial`, counted from 0.

    Raises GraphError for a dtype that numpy does not have.
    """
    if strange := {d.type.dtype for d in given if DType.of(d.type.dtype).carried}:
        raise GraphError(f"no values of {', '.join(sorted(strange))} can be made")
    out = []
    for domain in given:
        if trial < len(_FIRST):
            kind = _FIRST[trial]
        elif trial % _TOGETHER == 0:
            kind = "points"
        else:
            # Each input has a kind of its own.
            kind = _KINDS[trial % len(_KINDS)] if rng.random() < 0.5 else _KINDS[rng.integers(len(_KINDS))]
        out.append(_draw(domain, kind, trial, rng))
    return out


@dataclass(frozen=True, slots=True)
class _Drawing:
    """One tensor to be drawn.

    low, high: limits, as in `Domain`.
    points: values among which edges are chosen besides the limits.
    """

    shape: tuple[int, ...]
    low: int | Array
    high: int | Array
    points: tuple[int, ...]
    pattern: Array | None
    rng: np.random.Generator

    def uniform(self, shape: tuple[int, ...]) -> Array:
        """Returns uniform values."""
        return self.rng.integers(self.low, self.high, shape, endpoint=True)

    def values(self, shape: tuple[int, ...]) -> Array:
        """Returns uniform values and edges, half of each."""
        if shape and np.ndim(self.low) and shape[-1] != self.shape[-1]:
            shape = (*shape[:-1], self.shape[-1])
        return np.where(self.rng.random(shape) < 0.5, self.uniform(shape), self.edges(shape))

    def edges(self, shape: tuple[int, ...]) -> Array:
        """Returns limits, their neighbours and points, each equally often."""
        which = self.rng.integers(0, 4 + len(self.points), shape)
        low, high = np.asarray(self.low), np.asarray(self.high)
        near: list[Array] = [low, np.minimum(low + 1, high), high, np.maximum(high - 1, low)]
        near += [np.clip(p, low, high) for p in self.points]
        chosen: Array = np.choose(which, near) if low.ndim else np.array(near)[which]
        return chosen


def _uniform(d: _Drawing) -> Array:
    size = int(np.prod(d.shape))
    span = d.high - d.low + 1 if np.ndim(d.low) == 0 else 0
    if not 0 < span <= size or span > 1 << 12:
        return d.uniform(d.shape)
    codes: Array = d.rng.permutation(size) % span + d.low
    return codes.reshape(d.shape)


def _planes(d: _Drawing) -> Array:
    rank = len(d.shape)
    axis = int(d.rng.choice([min(1, rank - 1), rank - 1, d.rng.integers(rank)])) if rank else 0
    if np.ndim(d.low) and axis != rank - 1:
        return np.broadcast_to(d.values((d.shape[-1],)), d.shape)
    return np.broadcast_to(d.values(tuple(n if a == axis else 1 for a, n in enumerate(d.shape))), d.shape)


def _impulses(d: _Drawing) -> Array:
    out = np.array(np.broadcast_to(d.values((1,) * len(d.shape)), d.shape))
    count = int(d.rng.integers(1, 4))
    at = d.rng.integers(0, out.size, count)
    out.reshape(-1)[at] = d.values(d.shape).reshape(-1)[at] if np.ndim(d.low) else d.values((count,))
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
    ramp: Array = np.rint(d.low + share * (np.asarray(d.high, np.float64) - d.low)).astype(np.int64)
    return ramp


def _points(d: _Drawing) -> Array:
    """Returns points for each element, or in a third of the draws for each index along one axis.

    One in four is replaced by a neighbour.
    """
    if not d.points:
        return d.edges(d.shape)
    axis = d.rng.integers(3 * len(d.shape)) if d.shape else 0
    shape = d.shape if axis >= len(d.shape) else tuple(n if a == axis else 1 for a, n in enumerate(d.shape))
    chosen = d.rng.choice(d.points, shape) + d.rng.choice([0, 0, 0, 0, 0, 0, -1, 1], shape)
    out: Array = np.clip(np.broadcast_to(chosen, d.shape), d.low, d.high)
    return out


def _aligned(d: _Drawing) -> Array:
    """Returns a pattern in which none, one in 16 or one in 4 of the elements has another value.

    Returns uniform values if there is no pattern.
    """
    values = d.uniform(d.shape)
    if d.pattern is None:
        return values
    turned = d.pattern * d.rng.choice([-1, 1])
    out: Array = np.where(turned > 0, d.high, np.where(turned < 0, d.low, values))
    return np.where(d.rng.random(d.shape) < d.rng.choice([0, 0, 1 / 16, 1 / 4]), values, out)


_DRAWN: dict[str, Callable[[_Drawing], Array]] = {
    "low": lambda d: np.broadcast_to(d.low, d.shape),
    "high": lambda d: np.broadcast_to(d.high, d.shape),
    "edges": lambda d: d.edges(d.shape),
    "uniform": _uniform,
    "planes": _planes,
    "impulses": _impulses,
    "gradient": _gradient,
    "points": _points,
    "aligned": _aligned,
    "constant": lambda d: np.broadcast_to(d.values((1,) * len(d.shape)), d.shape),
}
#: The first trial in which elements are drawn independently.
INDEPENDENT = 2
#: The kinds of the first trials. In later ones each input has a kind of its own.
_FIRST = ("low", "high", "edges", "uniform", "planes", "impulses", "aligned", "points", "gradient")
_KINDS = ("edges", "uniform", "planes", "impulses", "aligned", "uniform", "gradient", "edges", "planes", "constant")
#: Every so many later trials all inputs are of the kind points.
_TOGETHER = 6


def _draw(domain: Domain, kind: str, trial: int, rng: np.random.Generator) -> Array:
    t = domain.type
    dtype = DType.of(t.dtype)
    storage = dtype.storage
    if dtype.kind == "float":
        normal: Array = rng.standard_normal(t.shape).astype(storage)
        return normal
    wide = 1 << _WIDE_BITS[trial % len(_WIDE_BITS)]
    limits = (-wide, wide) if dtype.is_accumulator else dtype.limits
    low = limits[0] if domain.low is None else domain.low
    high = limits[1] if domain.high is None else domain.high
    low, high = _within(low, high, domain.allowed)
    if domain.allowed.distinct and np.ndim(high) == 0 and t.shape and t.shape[-1] <= high - low + 1:
        rows = [rng.permutation(int(high - low + 1))[: t.shape[-1]] + low for _ in range(t.elements // t.shape[-1])]
        return np.array(rows, storage).reshape(t.shape)
    of_interest = domain.points if t.dtype != "BOOL" else ()
    pattern = domain.patterns[rng.integers(len(domain.patterns))] if domain.patterns else None
    drawn = _DRAWN[kind](_Drawing(t.shape, low, high, of_interest, pattern, rng))
    return np.array(domain.allowed.nearest_above(drawn), storage)


def _within(low: int | Array, high: int | Array, allowed: Allowed) -> tuple[int | Array, int | Array]:
    """Returns the limits narrowed to the allowed values; without common values both are the nearest limit."""
    for limit, nearer in ((allowed.low, np.maximum), (allowed.high, np.minimum)):
        if limit is not None:
            low, high = nearer(low, limit), nearer(high, limit)
    return low, high
