"""Graphs in which errors are planted.

There are small heads of one, two and three inputs, with or without a mean after them.
There are also random graphs and saved networks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from eqsat.checking.random_graphs import random_graph
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import DType
from eqsat.tosa.flatbuffer import loads
from tests.term import Term, graph

#: Channels of all heads.
CHANNELS = 4
#: (side of the planes, whether their mean is the output).
PLANES = ((8, False), (8, True), (32, True), (128, True))


@dataclass(frozen=True, slots=True)
class Subject:
    """A graph in which errors are planted.

    pool: side of the plane whose mean is its output, 0 if there is no mean.
    """

    name: str
    graph: TensorGraph
    pool: int = 0

    @property
    def dtype(self) -> str:
        return self.graph.nodes[self.graph.inputs[0]].dtype


def _zp(x: Term) -> int:
    return 0 if x.dtype == "INT16" else -3


def _clamp(x: Term, low: int, high: int) -> Term:
    """Adds a CLAMP, with limits in steps of INT8."""
    return x.clamp(low * _unit(x), high * _unit(x))


def _unit(x: Term) -> int:
    """Returns a step of INT8, in steps of the dtype."""
    return 1 if x.dtype == "INT8" else 256


def _scale(x: Term, factor: float) -> Term:
    return x.rescale(x.dtype, round(factor * (1 << 30)), 30, in_zp=_zp(x), out_zp=_zp(x))


def _wide(x: Term) -> Term:
    return x.rescale("INT32", 1 << 30, 30, in_zp=_zp(x))


def _narrow(x: Term, factor: float, like: Term) -> Term:
    """Adds a RESCALE by a factor below 1, from INT32 to the dtype of another value."""
    shift = 31
    while factor < 0.5:
        factor, shift = factor * 2, shift + 1
    return x.rescale(like.dtype, round(factor * (1 << 31)), shift, out_zp=_zp(like))


def _chain(x: Term) -> Term:
    y = _scale(_clamp(x, -90, 100), 0.83)
    if x.dtype == "INT8":
        y = y.table(np.round(100 * np.tanh(np.arange(-128, 128) / 60)).astype(int).tolist())
    return _clamp(y, -80, 70)


def _convolution(x: Term) -> Term:
    rng = np.random.default_rng(0)
    weights, bias = rng.integers(-60, 61, (CHANNELS, 3, 3, CHANNELS)), rng.integers(-500, 500, CHANNELS)
    sums = x.pad((0, 0, 1, 1, 1, 1, 0, 0), _zp(x)).conv(weights, bias, in_zp=_zp(x))
    scales = [int(s) for s in rng.integers(1 << 30, 1 << 31, CHANNELS)]
    return _clamp(sums.rescale("INT8", scales, [40] * CHANNELS, out_zp=-5), -60, 90)


def _joined(x: Term, y: Term) -> Term:
    """Adds a concat of half of each, in another layout."""
    half = CHANNELS // 2
    parts = [v.part(k, half, 3).transpose(0, 3, 1, 2) for k, v in ((0, _clamp(x, -90, 90)), (1, y))]
    return _clamp(parts[0].concat(parts[1], axis=1).reverse(1), -100, 80).transpose(0, 2, 3, 1)


def _sum(x: Term, y: Term, z: Term) -> Term:
    both = _narrow(_wide(x) + _wide(y), 0.5, x)
    return _narrow(_wide(both) - _wide(_clamp(z, -70, 110)), 0.8, x)


#: The heads by name: (builder, number of inputs, whether there is an INT16 form).
_HEADS: dict[str, tuple[Callable[..., Term], int, bool]] = {
    "chain": (_chain, 1, True),
    "rescales": (lambda x: _clamp(_scale(_scale(x, 1.37), 0.61), -70, 127), 1, True),
    "convolution": (_convolution, 1, False),
    "addition": (lambda x, y: _clamp(_narrow(_wide(x) + _wide(_clamp(y, -100, 90)), 0.6, x), -90, 120), 2, True),
    "subtraction": (lambda x, y: _clamp(_narrow(_wide(x) - _wide(y), 0.7, x), -100, 100), 2, False),
    "product": (lambda x, y: _narrow(_wide(x) * _wide(_clamp(y, -50, 50)), 1 / (64 * _unit(x)), x), 2, False),
    "selection": (lambda x, y: (_wide(x) > _wide(y))("select", _clamp(x, -100, 90), _clamp(y, -80, 100)), 2, True),
    "joined": (_joined, 2, False),
    "choice": (lambda x, y, z: (_wide(x) > 100 * _unit(x))("select", _clamp(y, -100, 90), z), 3, True),
    "sum": (_sum, 3, False),
    "highest": (lambda x, y, z: _narrow(_wide(x).min(_wide(y)).max(_wide(_clamp(z, -90, 60))), 0.9, x), 3, False),
}


def head(name: str, dtype: str, side: int, pooled: bool) -> Subject:
    """Returns a head, with the mean of its planes after it if `pooled`."""
    build, inputs, _ = _HEADS[name]

    def made(*xs: Term) -> Term:
        y = build(*xs)
        if not pooled:
            return y
        total = _wide(y).reduce("sum", 1).reduce("sum", 2)
        return total.rescale(dtype, 1 << 30, 30 + 2 * (side.bit_length() - 1), out_zp=_zp(y))

    g = graph(" ".join(f"x{k}:{dtype}[1,{side},{side},{CHANNELS}]" for k in range(inputs)), made)
    return Subject(f"{name}-{dtype.lower()}-{side}{'-mean' if pooled else ''}", g, side if pooled else 0)


def heads() -> Iterator[Subject]:
    """Yields every head in every dtype and on every plane."""
    for name, (_, _, has_wide) in _HEADS.items():
        for dtype, (side, pooled) in product(("INT8", "INT16") if has_wide else ("INT8",), PLANES):
            yield head(name, dtype, side, pooled)


def random_subjects(count: int) -> Iterator[Subject]:
    """Yields random graphs that numpy can compute and whose inputs are INT8 or INT16."""
    seed = 0
    while count:
        g = random_graph(seed)
        ops = {g.nodes[n].op for n in g.live()}
        if "opaque" not in ops and all(DType.of(g.nodes[i].dtype).bits <= 16 for i in g.inputs):
            count -= 1
            yield Subject(f"random-{seed}", g)
        seed += 1


def saved(place: Path, names: tuple[str, ...]) -> Iterator[Subject]:
    """Yields networks of the zoo, as TOSA with explicit layout."""
    for name in names:
        for path in sorted(place.glob(f"{name}.0.ethos-u85-256.explicit.tosa")):
            yield Subject(name, loads(path.read_bytes(), path.name))
