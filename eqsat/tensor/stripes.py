"""Computes parts of a graph's values: a slice, or stripes of a few rows or channels each, which one CONCAT joins.

Rows that the windows of two stripes read are computed for both.
Channels are computed once: those of a convolution read all of its operand, with weights of their own.

Source: patch-based inference, Lin et al., "MCUNetV2: Memory-Efficient Patch-based Inference for
Tiny Deep Learning", NeurIPS 2021.

>>> from eqsat.tensor import makers
>>> g = TensorGraph()
>>> x = g.add_input("x", (1, 8, 8, 4), "INT8")
>>> y = g.add_with("max_pool2d", [x], makers.max_pool((3, 3), pad=(1, 1, 1, 1)))
>>> g.outputs, g.output_names = [g.add_with("clamp", [y], makers.clamp("INT8", 0))], ["y"]
>>> h, _ = write_stripes(g, Region(2, (1, 2), axis=1), cuts(8, 2))
>>> [f"{n.op} {n.shape[1]}" for n in h.nodes]
['input 8', 'slice 5', 'max_pool2d 4', 'clamp 4', 'slice 5', 'max_pool2d 4', 'clamp 4', 'concat 8']
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

from eqsat.tensor.graph import Node, Rewritten, TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Attrs, DType, GraphError, Shape, attrs_of


class Rows(NamedTuple):
    """Positions from `begin` up to, not including, `end` along an axis."""

    axis: int
    begin: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class Region:
    """The nodes that are computed in stripes of `target` along an axis.

    inner: these nodes in topological order, the target last, which alone may be an output or read from outside.
    """

    target: int
    inner: tuple[int, ...]
    axis: int


def cuts(size: int, parts: int, step: int = 1) -> list[int]:
    """Returns the begins of `parts` stripes of about equal size, all multiples of `step`, and the end of the last."""
    return [*(size * k // parts // step * step for k in range(parts)), size]


def find_needed(graph: TensorGraph, region: Region, begin: int, end: int) -> dict[int, Rows] | None:
    """Returns the rows of inner nodes that are computed for rows of the target from `begin` to `end`, or more of it.

    Nodes that are read as a whole, such as constants that broadcast, are left out.
    Returns None if an operator cannot compute some rows by themselves.
    """
    out = {region.target: Rows(region.axis, begin, end)}
    inner, whole = frozenset(region.inner), set[int]()
    for n in reversed(region.inner):
        asked: Sequence[Rows | None] = [None] * len(graph.nodes[n].inputs)
        if n in out:
            out[n] = _whole_steps(graph, n, out[n])
            read = rows_read(graph, n, out[n])
            if read is None:
                return None
            asked = read[0]
        for i, rows in zip(graph.nodes[n].inputs, asked, strict=True):
            if i not in inner:
                continue
            if rows is None:
                whole.add(i)
                continue
            known = out.get(i, rows)
            if known.axis != rows.axis:
                return None
            out[i] = Rows(rows.axis, min(known.begin, rows.begin), max(known.end, rows.end))
    return None if whole & out.keys() else out


def write_stripes(graph: TensorGraph, region: Region, ends: Sequence[int]) -> tuple[TensorGraph, dict[int, int]]:
    """Returns the graph with a value in stripes, and {node: the node of `graph` of which it computes a part or all}.

    ends: the begin of each stripe, and the end of the last one (`cuts`).
    Raises GraphError if an operator of the region cannot compute some rows by themselves.
    """
    divided = (find_needed(graph, region, 0, ends[-1]) or {}).keys()

    def joined(out: Rewritten) -> int:
        parts = Parts(graph)
        stripes = [parts.write(region, a, b, out) for a, b in pairwise(ends)]
        return out.graph.add("concat", stripes, axis=region.axis)

    out = graph.rewrite({region.target: joined}, without=divided)
    return out.graph, out.source


def rows_read(graph: TensorGraph, n: int, rows: Rows) -> tuple[list[Rows | None], Attrs] | None:
    """Returns the rows that a node reads of its operands for rows of its result, and the attributes of this part.

    Rows are None for an operand that is read as a whole, such as weights or one that broadcasts.
    Returns None if the operator cannot compute some rows by themselves.
    """
    node = graph.nodes[n]
    kind, attrs = OPS[node.op].kind, dict(node.attrs)
    if "pad" in attrs and rows.axis in (1, 2):
        return _windows(graph, node, attrs, rows)
    if kind == "pointwise" or OPS[node.op].roles:
        return _by_letters(graph, node, attrs, rows)
    if kind in ("move", "axial", "concat"):
        return _move_through(graph, node, attrs, rows)
    return None


def is_of_channels(shape: Shape, axis: int) -> bool:
    """Whether an axis is that of the channels, the last one."""
    return axis == len(shape) - 1


def _by_letters(
    graph: TensorGraph, node: Node, attrs: dict[str, Any], rows: Rows
) -> tuple[list[Rows | None], Attrs] | None:
    """Returns what `rows_read` does; operands without the letter of the axis are read as a whole."""
    shapes = [graph.nodes[i].shape for i in node.inputs]
    letters = OPS[node.op].letters([*shapes, node.shape])
    if letters is None or letters[-1][rows.axis].isupper():
        return None
    if attrs.get("per_channel") and is_of_channels(node.shape, rows.axis):
        attrs |= {name: attrs[name][rows.begin : rows.end] for name in ("multiplier", "shift")}
    axes = [of.find(letters[-1][rows.axis]) for of in letters[:-1]]
    read = [rows._replace(axis=k) if k >= 0 and s[k] > 1 else None for k, s in zip(axes, shapes)]
    return read, attrs_of(attrs)


def _whole_steps(graph: TensorGraph, n: int, rows: Rows) -> Rows:
    """Returns the smallest range around the rows that a RESHAPE makes of whole rows of its operand."""
    node, step = graph.nodes[n], 1
    if node.op == "reshape":
        operand = graph.nodes[node.inputs[0]].shape
        if (read := _axis_read(operand, node.shape, rows.axis)) is not None:
            step = max(1, prod(operand[read + 1 :]) // prod(node.shape[rows.axis + 1 :]))
    return Rows(rows.axis, rows.begin // step * step, -(-rows.end // step) * step)


def _axis_read(operand: Shape, shape: Shape, axis: int) -> int | None:
    """Returns the axis of a RESHAPE's operand that has as many elements before it as an axis of the result, if any."""
    before = prod(shape[:axis])
    return next((k for k, n in enumerate(operand) if prod(operand[:k]) == before and n > 1), None)


def _windows(
    graph: TensorGraph, node: Node, attrs: dict[str, Any], rows: Rows
) -> tuple[list[Rows | None], Attrs] | None:
    k, op = rows.axis - 1, OPS[node.op]
    kernel = attrs["kernel"][k] if "kernel" in attrs else graph.nodes[node.inputs[1]].shape[op.kernel_axis + k]
    stride, dilation = attrs["stride"][k], attrs.get("dilation", (1, 1))[k]
    first = rows.begin * stride - attrs["pad"][2 * k]
    last = (rows.end - 1) * stride - attrs["pad"][2 * k] + (kernel - 1) * dilation
    return _see_through(graph, node, attrs, rows.axis, (first, last + 1), "pad", 2 * k)


def _see_through(
    graph: TensorGraph, node: Node, attrs: dict[str, Any], axis: int, span: tuple[int, int], pads: str, at: int
) -> tuple[list[Rows | None], Attrs] | None:
    """Returns the rows of the first operand, and the attributes with the padding of this part.

    span: first and last row, not included, which may lie outside the operand.
    pads, at: the attribute with the padding, and the index of this axis in it.
    """
    size, padding = graph.nodes[node.inputs[0]].shape[axis], list(attrs[pads])
    padding[at : at + 2] = max(0, -span[0]), max(0, span[1] - size)
    seen = Rows(axis, max(span[0], 0), min(span[1], size))
    if seen.size < 1:
        return None
    return [seen, *[None] * (len(node.inputs) - 1)], attrs_of({**attrs, pads: tuple(padding)})


def _move_through(
    graph: TensorGraph, node: Node, attrs: dict[str, Any], rows: Rows
) -> tuple[list[Rows | None], Attrs] | None:
    axis, before, operand = rows.axis, rows.axis + 1, graph.nodes[node.inputs[0]].shape
    if node.op == "transpose":
        return [rows._replace(axis=attrs["perms"][axis])], node.attrs
    if node.op == "reshape":
        read = _axis_read(operand, node.shape, axis)
        if read is None:
            return None
        ours, theirs = prod(node.shape[before:]), prod(operand[read + 1 :])
        if max(ours, theirs) % min(ours, theirs):
            return None
        begin, end = (k * ours // theirs for k in rows[1:])
        shape = (*node.shape[:axis], rows.size, *node.shape[before:])
        return [Rows(read, begin, end)], attrs_of({**attrs, "shape": shape})
    if node.op == "pad":
        low = attrs["pads"][2 * axis]
        return _see_through(graph, node, attrs, axis, (rows.begin - low, rows.end - low), "pads", 2 * axis)
    if node.op == "slice":
        start, size = list(attrs["start"]), list(attrs["size"])
        seen = Rows(axis, rows.begin + start[axis], rows.end + start[axis])
        start[axis], size[axis] = 0, rows.size
        return [seen], attrs_of({"start": tuple(start), "size": tuple(size)})
    along = OPS[node.op].along
    if along is None or len(operand) != len(node.shape) or axis in along.axes(attrs, operand):
        return None
    return [rows] * len(node.inputs), node.attrs


@dataclass(frozen=True, slots=True)
class Parts:
    """Writes parts of a graph's values into a copy of it, each part once (made: {(node, its rows): the new node})."""

    graph: TensorGraph
    made: dict[tuple[int, Rows], int] = field(default_factory=dict)

    def write(self, region: Region, begin: int, end: int, out: Rewritten) -> int:
        """Adds the rows of the target from `begin` to `end` and returns their node.

        Raises GraphError if an operator of the region cannot compute some rows by themselves.
        """
        rows = find_needed(self.graph, region, begin, end)
        if rows is None:
            raise GraphError(f"n{region.target} cannot be computed in stripes along axis {region.axis}")
        for n in (n for n in region.inner if n in rows and (n, rows[n]) not in self.made):
            node, read = self.graph.nodes[n], rows_read(self.graph, n, rows[n])
            assert read is not None, "what is needed is known"
            operands = [self._operand(i, wanted, rows, out) for i, wanted in zip(node.inputs, read[0], strict=True)]
            new = self.made[n, rows[n]] = out.graph.add_with(node.op, operands, read[1])
            out.source[new] = n
        return self._operand(region.target, Rows(region.axis, begin, end), rows, out)

    def _operand(self, n: int, wanted: Rows | None, rows: Mapping[int, Rows], out: Rewritten) -> int:
        """Returns the node of the wanted rows of an operand; None stands for all rows. rows: those that are made."""
        if n in rows:
            assert wanted is not None, "what is needed is known"
            begin = rows[n].begin
            own = Rows(wanted.axis, wanted.begin - begin, wanted.end - begin)
            return _slice(self.made[n, rows[n]], n, own, out)
        if wanted is None or wanted.size == self.graph.nodes[n].shape[wanted.axis]:
            return out.number[n]
        if (n, wanted) not in self.made:
            self.made[n, wanted] = self._part(n, wanted, out)
        return self.made[n, wanted]

    def _part(self, n: int, wanted: Rows, out: Rewritten) -> int:
        """Adds rows of a value that exists as a whole and returns their node."""
        node = self.graph.nodes[n]
        if node.op == "const" and not DType.of(node.dtype).carried:
            data = node.attr("value").data.take(range(wanted.begin, wanted.end), wanted.axis)
            part = out.graph.add_const(data, node.dtype)
            out.source[part] = n
            return part
        return _slice(out.number[n], n, wanted, out)


def _slice(value: int, n: int, wanted: Rows, out: Rewritten) -> int:
    """Adds a slice of a new node, which computes node `n`, and returns it; of a slice, one that reads its operand."""
    node = out.graph.nodes[value]
    if wanted.size == node.shape[wanted.axis]:
        return value
    start, size = [0] * len(node.shape), list(node.shape)
    if node.op == "slice":  # of two in a row, Vela makes the first by a copy
        (value,), start = node.inputs, list(node.attr("start"))
    start[wanted.axis] += wanted.begin
    size[wanted.axis] = wanted.size
    part = out.graph.add("slice", [value], start=tuple(start), size=tuple(size))
    out.source[part] = n
    return part
