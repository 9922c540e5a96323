"""Recipes: other ways to compute a neighbourhood, with constants computed from it.

A recipe has no shapes and no parameters of a quantization, so it applies to other shapes too.
Its result need not be equal; that is proved afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

import numpy as np

from benchmarks.discovery.affine import Ints, NoRows, Rows, Step, rows
from benchmarks.discovery.readings import NUMBERS, Reading, after, moved, reading, readings
from eqsat.tensor import makers
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.movement import Move
from eqsat.tensor.types import GraphError, attrs_of

#: Weights of a convolution that is tried, at most.
_MOST_WEIGHTS = 1 << 19
#: Taps of a kernel along one axis, at most.
_MOST_TAPS = 64
#: Largest stride: the NPU runs larger ones as many convolutions, which take minutes to compile.
_MOST_STRIDE = 3


@dataclass(slots=True)
class Source:
    """A graph with the rows of its output, computed once per movement of it."""

    graph: TensorGraph
    _rows: dict[Move, tuple[Rows, list[Step], Ints] | None] = field(default_factory=dict)

    def rows(self, write: Move) -> tuple[Rows, list[Step], Ints] | None:
        """Returns the rows at some places of the moved output, the common steps, and the places.

        Returns None if the steps differ between places, or if nothing is read there.
        """
        if write not in self._rows:
            self._rows[write] = None
            _, height, width, channels = write.out_shape
            places, at = _places(height, width), write.indices()
            of = rows(self.graph, np.concatenate([at[0, y, x] for y, x in places]))
            steps = common_steps(of.steps, channels)
            if steps is not None and len(of.row):
                self._rows[write] = of, steps, np.array(places)
        return self._rows[write]


def followed(recipe: Window, source: Source) -> TensorGraph | None:
    """Returns the recipe's graph, or None if the recipe does not apply or fails."""
    try:
        made = recipe.follow(source)
    except (NoRows, GraphError):
        return None
    return made if made is not None and made.signature() == source.graph.signature() else None


def begun(graph: TensorGraph) -> TensorGraph:
    """Returns a graph with the inputs of another one and nothing else."""
    new = TensorGraph(output_names=list(graph.output_names))
    for i in graph.inputs:
        new.add_input(graph.nodes[i].attr("name"), graph.nodes[i].shape, graph.nodes[i].dtype)
    return new


def common_steps(of_rows: Sequence[tuple[Step, ...]], channels: int) -> list[Step] | None:
    """Returns unary operators that are common to rows in channel order, or None.

    Scales that differ between channels become scales per channel.
    """
    if len({tuple(op for op, _ in steps) for steps in of_rows}) != 1:
        return None
    out: list[Step] = []
    for level in zip(*of_rows):
        by_channel = level[:channels]
        if any(level[k : k + channels] != by_channel for k in range(0, len(level), channels)):
            return None
        step = _common(by_channel)
        if step is None:
            return None
        out.append(step)
    return out


def _common(steps: Sequence[Step]) -> Step | None:
    (op, first), several = steps[0], set(steps)
    if len(several) == 1:
        return op, first
    rest = {tuple((k, v) for k, v in attrs if k not in ("multiplier", "shift")) for _, attrs in several}
    if op != "rescale" or len(rest) != 1:
        return None
    scales = {k: tuple(dict(attrs)[k][0] for _, attrs in steps) for k in ("multiplier", "shift")}
    return op, attrs_of({**dict(first), **scales, "per_channel": True})


class _Geometry(NamedTuple):
    """The placement of windows.

    tap: (ky, kx, input channel) of each addend.
    """

    kernel: tuple[int, int]
    pad: tuple[int, int, int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    tap: tuple[Ints, Ints, Ints]


@dataclass(frozen=True, slots=True)
class Window:
    """One convolution, whose inputs and result are readings.

    Several inputs are concatenated along the channels.
    op: "conv2d" or "depthwise_conv2d".
    """

    op: str
    read: Reading
    write: Reading

    @property
    def text(self) -> str:
        """The recipe as text, for people."""
        return f"{self.op} on {_named(self.read)}, giving {_named(self.write)}"

    def follow(self, source: Source) -> TensorGraph | None:
        """Returns another graph of the same inputs and output types, or None if it does not apply.

        Raises NoRows and GraphError.
        """
        graph = source.graph
        found = self._moves(graph)
        known = found and source.rows(found[1])
        if found is None or not known:
            return None
        (reads, write), (of, steps, places) = found, known
        shape = (*reads[0].out_shape[:3], sum(m.out_shape[3] for m in reads))
        if self.op == "depthwise_conv2d" and shape[3] == 1:
            return None
        geometry = _geometry(of, reads, shape, write.out_shape, places)
        if geometry is None or max(geometry.stride) > _MOST_STRIDE:
            return None
        new = begun(graph)
        parts = [moved(new, i, m) for i, m in zip(new.inputs, reads, strict=True)]
        v = parts[0] if len(parts) == 1 else new.add("concat", parts, axis=3)
        made = self._operator(graph, new, v, of, geometry, steps, write.out_shape[3])
        if made is None:
            return None
        new.outputs.append(moved(new, made, write.inverse()))
        return new

    def _moves(self, graph: TensorGraph) -> tuple[list[Move], Move] | None:
        reads = [reading(self.read, graph.nodes[i].shape) for i in graph.inputs]
        write = reading(self.write, graph.nodes[graph.outputs[0]].shape)
        kept = [m for m in reads if m is not None]
        if write is None or len(kept) < len(reads) or len({m.out_shape[:3] for m in kept}) != 1:
            return None
        return kept, write

    def _operator(
        self,
        graph: TensorGraph,
        new: TensorGraph,
        v: int,
        of: Rows,
        geometry: _Geometry,
        steps: Sequence[Step],
        oc: int,
    ) -> int | None:
        channel, depth, depthwise = of.row % oc, new.nodes[v].shape[3], self.op == "depthwise_conv2d"
        if depthwise and (oc % depth or (channel // (oc // depth) != geometry.tap[2]).any()):
            return None
        weights = _weights(channel, geometry, of.coefficient, (oc, *geometry.kernel, depth))
        steps = with_scale(steps, new.nodes[v].dtype)
        shift = dict(steps[0][1])["in_zp"][0]
        known = weights is not None and zero_point(graph, of, shift, oc)
        if weights is None or not known:
            return None
        zero, bias = known
        if depthwise:
            each = np.arange(oc)
            weights = weights[each, ..., each // (oc // depth)].transpose(1, 2, 0)
            weights = weights.reshape(*geometry.kernel, depth, oc // depth)
        attrs = makers.conv(
            new.nodes[v].dtype, pad=geometry.pad, stride=geometry.stride, dilation=geometry.dilation, in_zp=zero
        )
        w = new.add_const(weights, "INT8")
        b = new.add_const(bias, DType.of(new.nodes[v].dtype).accumulator)
        return after(new, new.add_with(self.op, [v, w, b], attrs), [without_zero(steps[0]), *steps[1:]])


def _named(of: Reading) -> str:
    return of[0] if of[1] == 1 else f"{of[0]} ({of[1]})"


def _places(height: int, width: int) -> list[tuple[int, int]]:
    """Returns places of a result from which windows are determined: corners and the middle."""
    y, x = height // 2, width // 2
    found = [(y, x), (min(y + 1, height - 1), x), (y, min(x + 1, width - 1)), (0, 0), (height - 1, width - 1)]
    return list(dict.fromkeys(found))


def _geometry(
    of: Rows, reads: Sequence[Move], shape: tuple[int, ...], out: tuple[int, ...], places: Ints
) -> _Geometry | None:
    y, x, channel = np.zeros_like(of.row), np.zeros_like(of.row), np.zeros_like(of.row)
    first = 0
    for k, read in enumerate(reads):
        mine = np.flatnonzero(of.input == k)
        back = np.empty(prod(read.in_shape), np.int64)
        back[read.indices().reshape(-1)] = np.arange(len(back))
        _, y[mine], x[mine], channel[mine] = np.unravel_index(back[of.element[mine]], read.out_shape)
        channel[mine] += first
        first += read.out_shape[3]
    place = places[of.row // out[3]]
    down = _along(place[:, 0], y, shape[1], out[1])
    across = down and _along(place[:, 1], x, shape[2], out[2])
    if not down or not across:
        return None
    (ky, py, sy, dy, ty), (kx, px, sx, dx, tx) = down, across
    return _Geometry((ky, kx), (*py, *px), (sy, sx), (dy, dx), (ty, tx, channel))


def _along(place: Ints, at: Ints, size: int, out: int) -> tuple[int, tuple[int, int], int, int, Ints] | None:
    """Returns (taps, pads, stride, dilation, tap of each addend) along one axis, or None."""
    stride = 1
    middle = out // 2
    here, beyond = at[place == middle], at[place == middle + 1]
    if out > 2 and len(here) and len(beyond):
        stride = int(beyond.max() - here.max())
    elif out > 1:
        stride = max(1, size // out)
    if stride < 1:
        return None
    offset = at - place * stride
    low = min(0, int(offset.min()))
    step = int(np.gcd.reduce(offset - low)) if len(offset) else 1
    step = max(step, 1) if size > 1 else 1
    tap = (offset - low) // step
    taps = int(tap.max()) + 1
    after_last = (out - 1) * stride + (taps - 1) * step + 1 + low - size
    if taps > _MOST_TAPS or not 0 <= after_last <= (taps - 1) * step or -low > (taps - 1) * step:
        return None
    return taps, (-low, after_last), stride, step, tap


def _weights(channel: Ints, geometry: _Geometry, value: Ints, shape: tuple[int, ...]) -> Ints | None:
    """Returns INT8 weights, or None if places disagree or the weights are too many or too large."""
    if prod(shape) > _MOST_WEIGHTS or (np.abs(value) > 127).any():
        return None
    weights = np.zeros(shape, np.int64)
    at = (channel, *geometry.tap)
    weights[at] = value
    return weights if (weights[at] == value).all() else None


def zero_point(graph: TensorGraph, of: Rows, shift: int, channels: int) -> tuple[int, Ints] | None:
    """Returns the zero point with which all places have equal biases, and these biases, or None."""
    total = np.zeros(len(of.bias), np.int64)
    np.add.at(total, of.row, of.coefficient)
    dtype = graph.nodes[graph.inputs[0]].dtype
    tried = [0]
    if DType.of(dtype).bits == 8:
        tried += [v[0] for n in graph.nodes for k, v in n.attrs if k in ("in_zp", "value") and isinstance(v, tuple)]
    for zero in dict.fromkeys(tried):
        bias = (of.bias - shift + total * zero).reshape(-1, channels)
        if (bias == bias[0]).all() and (np.abs(bias) < 1 << 31).all():
            return int(zero), bias[0]
    return None


def with_scale(steps: Sequence[Step], dtype: str) -> list[Step]:
    """Returns the steps, which begin with a RESCALE of the sum; one by 1 is added if need be."""
    plain = steps and steps[0][0] == "rescale" and not dict(steps[0][1])["input_unsigned"]
    return list(steps) if plain else [("rescale", makers.by_one(dtype)), *steps]


def without_zero(step: Step) -> Step:
    """Returns a RESCALE without its input zero point, which the bias contains."""
    return step[0], attrs_of({**dict(step[1]), "in_zp": (0,)})


def windows(graph: TensorGraph) -> Iterator[Window]:
    """Yields windows whose sizes could fit the output."""
    there = {d for n in graph.nodes for k, v in n.attrs if k in ("stride", "dilation") for d in v if d > 1}
    numbers = sorted({*NUMBERS, *there})
    out = list(readings(graph.nodes[graph.outputs[0]].shape, numbers))
    for read, m in readings(graph.nodes[graph.inputs[0]].shape, numbers):
        for write, n in out:
            if all(_could_be(a, b) for a, b in zip(m.out_shape[1:3], n.out_shape[1:3], strict=True)):
                for op in ("conv2d", "depthwise_conv2d"):
                    yield Window(op, read, write)


def _could_be(size: int, out: int) -> bool:
    stride = max(1, round(size / out))
    return abs(size - stride * out) <= 8 + stride
