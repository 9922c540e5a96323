"""Graphs in which errors are planted.

There are small heads of one, two and three inputs, with or without a mean after them.
There are also random graphs and saved networks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eqsat.tensor import makers
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.flatbuffer import loads
from tests.random_graphs import RULE, random_graph

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


class _Head:
    """A graph under construction, with quantized operators on values of one dtype."""

    def __init__(self, dtype: str, side: int, inputs: int) -> None:
        self.g, self.dtype, self.rng = TensorGraph(), dtype, np.random.default_rng(0)
        self.inputs = [self.g.add_input(f"x{k}", (1, side, side, CHANNELS), dtype) for k in range(inputs)]
        self.zp = 0 if dtype == "INT16" else -3
        self.unit = 1 if dtype == "INT8" else 256  # A step of INT8, in steps of the dtype.

    def clamp(self, x: int, low: int, high: int) -> int:
        """Adds a CLAMP, with limits in steps of INT8."""
        return self.g.add_with("clamp", [x], makers.clamp(self.dtype, low * self.unit, high * self.unit))

    def scale(self, x: int, factor: float, dtype: str = "", out_zp: int = 0) -> int:
        """Adds a RESCALE by a factor, to `dtype` or to that of the head."""
        wide = dtype == "INT32"
        in_zp = self.zp if self.g.nodes[x].dtype == self.dtype else 0
        multiplier = round(factor * (1 << 30))
        attrs = makers.rescale(dtype or self.dtype, multiplier, 30, in_zp=in_zp, out_zp=0 if wide else out_zp)
        return self.g.add_with("rescale", [x], attrs)

    def narrow(self, x: int, factor: float) -> int:
        """Adds a RESCALE by a factor below 1, from INT32 to the dtype of the head."""
        shift = 31
        while factor < 0.5:
            factor, shift = factor * 2, shift + 1
        attrs = makers.rescale(self.dtype, round(factor * (1 << 31)), shift, out_zp=self.zp)
        return self.g.add_with("rescale", [x], attrs)

    def wide(self, x: int) -> int:
        """Adds a RESCALE to INT32."""
        return self.scale(x, 1.0, "INT32")

    def both(self, op: str, x: int, y: int, factor: float, **attrs: object) -> int:
        """Adds an operator of two values in INT32, and a RESCALE back by a factor."""
        return self.narrow(self.g.add(op, [self.wide(x), self.wide(y)], **attrs), factor)


def _chain(h: _Head, x: int) -> int:
    y = h.scale(h.clamp(x, -90, 100), 0.83, out_zp=h.zp)
    if h.dtype == "INT8":
        y = h.g.add_with("table", [y], makers.table(np.round(100 * np.tanh(np.arange(-128, 128) / 60)).astype(int)))
    return h.clamp(y, -80, 70)


def _rescales(h: _Head, x: int) -> int:
    return h.clamp(h.scale(h.scale(x, 1.37, out_zp=h.zp), 0.61, out_zp=h.zp), -70, 127)


def _convolution(h: _Head, x: int) -> int:
    g = h.g
    w = g.add_const(h.rng.integers(-60, 61, (CHANNELS, 3, 3, CHANNELS)), "INT8")
    b = g.add_const(h.rng.integers(-500, 500, CHANNELS), "INT32")
    padded = g.add_with("pad", [x], makers.pad((0, 0, 1, 1, 1, 1, 0, 0), h.zp))
    sums = g.add_with("conv2d", [padded, w, b], makers.conv("INT8", in_zp=h.zp))
    scales = [int(s) for s in h.rng.integers(1 << 30, 1 << 31, CHANNELS)]
    return h.clamp(g.add_with("rescale", [sums], makers.rescale("INT8", scales, [40] * CHANNELS, out_zp=-5)), -60, 90)


def _addition(h: _Head, x: int, y: int) -> int:
    return h.clamp(h.both("add", x, h.clamp(y, -100, 90), 0.6), -90, 120)


def _subtraction(h: _Head, x: int, y: int) -> int:
    return h.clamp(h.both("sub", x, y, 0.7), -100, 100)


def _product(h: _Head, x: int, y: int) -> int:
    return h.both("mul", x, h.clamp(y, -50, 50), 1 / (64 * h.unit), shift=(0,))


def _selection(h: _Head, x: int, y: int) -> int:
    return h.g.add("select", [h.g.add("greater", [h.wide(x), h.wide(y)]), h.clamp(x, -100, 90), h.clamp(y, -80, 100)])


def _joined(h: _Head, x: int, y: int) -> int:
    """Adds a concat of half of each, in another layout."""
    g, (n, s, _, c) = h.g, h.g.nodes[x].shape
    parts = [
        g.add("slice", [v], start=(0, 0, 0, k), size=(n, s, s, c // 2)) for k, v in ((0, h.clamp(x, -90, 90)), (1, y))
    ]
    moved = [g.add("transpose", [v], perms=(0, 3, 1, 2)) for v in parts]
    y = g.add("reverse", [g.add("concat", moved, axis=1)], axis=1)
    return g.add("transpose", [h.clamp(y, -100, 80)], perms=(0, 2, 3, 1))


def _choice(h: _Head, x: int, y: int, z: int) -> int:
    """Adds a select in which one input decides between the two others."""
    few = h.g.add_const(np.full((1, 1, 1, 1), 100 * h.unit), "INT32")
    return h.g.add("select", [h.g.add("greater", [h.wide(x), few]), h.clamp(y, -100, 90), z])


def _sum(h: _Head, x: int, y: int, z: int) -> int:
    return h.both("sub", h.both("add", x, y, 0.5), h.clamp(z, -70, 110), 0.8)


def _highest(h: _Head, x: int, y: int, z: int) -> int:
    low = h.g.add_with("minimum", [h.wide(x), h.wide(y)], makers.extremum())
    return h.narrow(h.g.add_with("maximum", [low, h.wide(h.clamp(z, -90, 60))], makers.extremum()), 0.9)


#: The heads by name: (builder, number of inputs, whether there is an INT16 form).
_HEADS: dict[str, tuple[Callable[..., int], int, bool]] = {
    "chain": (_chain, 1, True),
    "rescales": (_rescales, 1, True),
    "convolution": (_convolution, 1, False),
    "addition": (_addition, 2, True),
    "subtraction": (_subtraction, 2, False),
    "product": (_product, 2, False),
    "selection": (_selection, 2, True),
    "joined": (_joined, 2, False),
    "choice": (_choice, 3, True),
    "sum": (_sum, 3, False),
    "highest": (_highest, 3, False),
}


def head(name: str, dtype: str, side: int, pooled: bool) -> Subject:
    """Returns a head, with the mean of its planes after it if `pooled`."""
    build, inputs, _ = _HEADS[name]
    h = _Head(dtype, side, inputs)
    y = build(h, *h.inputs)
    if pooled:
        y = h.g.add_with("rescale", [y], makers.rescale("INT32", in_zp=h.zp))
        for axis in (1, 2):
            y = h.g.add("reduce_sum", [y], axis=axis)
        y = h.g.add_with("rescale", [y], makers.rescale(dtype, 1 << 30, 30 + 2 * (side.bit_length() - 1), out_zp=h.zp))
    h.g.outputs, h.g.output_names = [y], ["y"]
    return Subject(f"{name}-{dtype.lower()}-{side}{'-mean' if pooled else ''}", h.g, side if pooled else 0)


def heads(planes: tuple[tuple[int, bool], ...] = PLANES) -> Iterator[Subject]:
    """Yields every head in every dtype and on every plane."""
    for name, (_, _, has_wide) in _HEADS.items():
        for dtype in ("INT8", "INT16") if has_wide else ("INT8",):
            for side, pooled in planes:
                yield head(name, dtype, side, pooled)


def random_subjects(count: int) -> Iterator[Subject]:
    """Yields random graphs that numpy can compute and whose inputs are INT8 or INT16."""
    seed = 0
    while count:
        graph = random_graph(seed, RULE)
        ops = {graph.nodes[n].op for n in graph.live()}
        if "opaque" not in ops and all(DType.of(graph.nodes[i].dtype).bits <= 16 for i in graph.inputs):
            count -= 1
            yield Subject(f"random-{seed}", graph)
        seed += 1


def saved(place: Path, names: tuple[str, ...]) -> Iterator[Subject]:
    """Yields networks of the zoo, as TOSA with explicit layout."""
    for name in names:
        for path in sorted(place.glob(f"{name}.0.ethos-u85-256.explicit.tosa")):
            yield Subject(name, loads(path.read_bytes(), path.name))
