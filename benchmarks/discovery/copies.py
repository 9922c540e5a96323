"""Recipes without sums: one SLICE, movement and PAD for a chain of these, and one TABLE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from benchmarks.discovery.affine import Ints, rows
from benchmarks.discovery.readings import after, moved
from benchmarks.discovery.recipes import Source, begun, common_steps
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.movement import Move
from eqsat.tensor.ops import OPS

#: Values of INT8.
_POINTS = 256


@dataclass(frozen=True, slots=True)
class Selection:
    """The output as a part of the one input, moved once and padded."""

    text: ClassVar = "one slice, movement and pad"

    def follow(self, source: Source) -> TensorGraph | None:
        graph = source.graph
        (y,) = graph.outputs
        of = rows(graph, np.arange(graph.type(y).elements))
        if len(graph.inputs) != 1 or not of.is_copy or not len(of.row):
            return None
        shape = graph.nodes[y].shape
        steps = common_steps(of.steps, shape[-1] if shape else 1)
        inner = np.unravel_index(of.row, shape)
        low, high = ([int(f(d)) for d in inner] for f in (np.min, np.max))
        size = tuple(b - a + 1 for a, b in zip(low, high, strict=True))
        appended = np.delete(of.bias, of.row)
        if (
            steps is None
            or len(of.row) != np.prod(size)
            or len({*appended.tolist(), 0} - {0}) > 1
            or of.bias[of.row].any()
        ):
            return None
        order = np.empty(len(of.row), np.int64)
        order[np.ravel_multi_index([d - a for d, a in zip(inner, low, strict=True)], size)] = of.element
        new = begun(graph)
        (x,) = new.inputs
        made = _part(new, x, order, size)
        if made is None:
            return None
        if len(appended):
            pads = [n for a, b, d in zip(low, high, shape, strict=True) for n in (a, d - b - 1)]
            made = new.add_with("pad", [made], makers.pad(pads, int(appended[0])))
        new.outputs.append(after(new, made, steps))
        return new


def _part(graph: TensorGraph, x: int, order: Ints, size: tuple[int, ...]) -> int | None:
    """Adds a SLICE and a movement that give the elements of x in this order; None if there are none such."""
    shape = graph.nodes[x].shape
    place = np.unravel_index(order, shape)
    start = tuple(int(p.min()) for p in place)
    box = tuple(int(p.max()) - a + 1 for p, a in zip(place, start, strict=True))
    if np.prod(box) != len(order):
        return None
    inside = np.ravel_multi_index([p - a for p, a in zip(place, start, strict=True)], box) if shape else order
    axes = _axes(np.asarray(inside))
    if axes is None:
        return None
    if box != shape:
        x = graph.add("slice", [x], start=start, size=box)
    return moved(graph, x, Move(box, size, axes))


def _axes(order: Ints) -> tuple[tuple[int, int], ...] | None:
    """Returns the axes of the movement that gives this order, or None."""
    axes: list[tuple[int, int]] = []
    while len(order) > 1:
        step = int(order[1] - order[0])
        breaks = np.flatnonzero(np.diff(order) != step)
        n = int(breaks[0]) + 1 if len(breaks) else len(order)
        if step < 1 or len(order) % n:
            return None
        runs = order.reshape(-1, n)
        if (runs != runs[:, :1] + np.arange(n) * step).any():
            return None
        axes.insert(0, (n, step))
        order = runs[:, 0]
    return tuple(axes)


@dataclass(frozen=True, slots=True)
class Table:
    """One TABLE or CLAMP, where the output is a pointwise function of the one INT8 input."""

    text: ClassVar = "one table"

    def follow(self, source: Source) -> TensorGraph | None:
        graph = source.graph
        (y,), nodes = graph.outputs, graph.nodes
        pointwise = all(OPS[nodes[n].op].kind in ("pointwise", "leaf") for n in graph.live())
        x = graph.inputs[0]
        if len(graph.inputs) != 1 or not pointwise or (nodes[x].dtype, nodes[y].dtype) != ("INT8", "INT8"):
            return None
        if nodes[x].shape != nodes[y].shape:
            return None
        elements, table = graph.type(x).elements, np.zeros(_POINTS, np.int64)
        for begin in range(0, _POINTS, elements):
            values = ((np.arange(elements) + begin) % _POINTS - _POINTS // 2).astype(np.int8)
            (out,) = graph.evaluate([values.reshape(nodes[x].shape)])
            table[values.astype(int) + _POINTS // 2] = out.reshape(-1)
        new, low, high = begun(graph), int(table.min()), int(table.max())
        clipped = np.array_equal(table, np.clip(np.arange(_POINTS) - _POINTS // 2, low, high))
        made = ("clamp", makers.clamp("INT8", low, high)) if clipped else ("table", makers.table(table.tolist()))
        new.outputs.append(after(new, new.inputs[0], [made]))
        return new
