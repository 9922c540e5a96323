"""Other convolutions that compute a neighbourhood, with constants computed from it.

A neighbourhood has one convolution or none; all else in it moves elements or acts on each.
So each element of its result is steps(bias + sum of coefficient * element of an input), which is traced.
A `Window` computes these sums as a convolution over other readings of the inputs.
It has no shapes and no parameters of a quantization, so it applies to other shapes too.
Its result need not be equal; that is proved afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.discovery.readings import NUMBERS, Reading, after, reading, readings, shortest
from eqsat.tensor import makers
from eqsat.tensor.graph import Node, TensorGraph
from eqsat.tensor.movement import Move
from eqsat.tensor.ops import OPS, evaluate_op
from eqsat.tensor.ops.indexing import NEAREST
from eqsat.tensor.types import Attrs, DType, GraphError, Type, attrs_of

Ints = NDArray[np.int64]
#: A unary operator: its name and attributes.
Step = tuple[str, Attrs]
#: The kernel of windows, their attributes (stride, dilation, pad), and the (ky, kx, input channel) of each addend.
_Geometry = tuple[tuple[int, int], dict[str, tuple[int, ...]], tuple[Ints, Ints, Ints]]
#: Addends of the traced sums together, at most.
_MOST_ADDENDS = 1 << 23
#: Weights of a convolution that is tried, at most.
_MOST_WEIGHTS = 1 << 19
#: Taps of a kernel along one axis, at most.
_MOST_TAPS = 64
#: Largest stride: the NPU runs larger ones as many convolutions, which take minutes to compile.
_MOST_STRIDE = 3
#: Among the numbers of elements, which count on over all inputs, a constant c stands as c - _CONSTANT, below 0.
_CONSTANT = 1 << 16
_CONVOLUTIONS = ("conv2d", "depthwise_conv2d")
_MOVING = ("transpose", "reshape", "identity", "concat", "slice", "pad", "tile", "reverse")


class Sums(NamedTuple):
    """Elements of a moved result, a row for each channel at each of some places.

    row, element, coefficient: of each addend; `element` is the number of an input's element.
    bias: of each row.
    steps: unary operators that all rows have behind their sums.
    places: (row, column) of each place.
    """

    row: Ints
    element: Ints
    coefficient: Ints
    bias: Ints
    steps: list[Step]
    places: Ints


@dataclass(frozen=True, slots=True)
class Source:
    """A neighbourhood, traced from its inputs to its result.

    convolution: its node, or None.
    read: of each element of the convolution's operand, the number of an input's element or constant.
    given: of each element of the result, the number of the convolution's sum; without one, as of `read`.
    steps: the unary operators behind the sums, in order.
    """

    graph: TensorGraph
    convolution: Node | None
    read: Ints
    given: Ints
    steps: tuple[Step, ...]
    _sums: dict[Move, Sums | None] = field(default_factory=dict)

    def sums(self, write: Move) -> Sums | None:
        """Returns the sums at some places of the moved result, which are computed once.

        Returns None if scales differ between places, or if nothing is read there.
        Raises GraphError for too many addends.
        """
        if write not in self._sums:
            places = _places(*write.out_shape[1:3])
            found = self.given.reshape(-1)[write.indices()[0, places[:, 0], places[:, 1]]]
            steps = self._steps(found)
            row, number, coefficient, bias = self._addends(found.reshape(-1))
            fixed = number < 0
            np.add.at(bias, row[fixed], (coefficient * (number + _CONSTANT))[fixed])
            sums = steps and Sums(row[~fixed], number[~fixed], coefficient[~fixed], bias, steps, places)
            self._sums[write] = sums if sums and len(sums.row) else None
        return self._sums[write]

    def _steps(self, found: Ints) -> list[Step] | None:
        """Returns the steps, which begin with a RESCALE of the sum, by 1 if need be; None if none fits.

        Their scales by channel are in the order of sums [places, channels].
        """
        out = []
        for op, attrs in self.steps:
            given = dict(attrs)
            if given.get("per_channel"):
                scales = np.array((given["multiplier"], given["shift"]))[:, found % len(given["shift"])]
                if (scales != scales[:, :1]).any():
                    return None
                several = bool((scales != scales[..., :1]).any())
                multiplier, shift = scales[:, 0, : None if several else 1].tolist()
                scaled = {"multiplier": tuple(multiplier), "shift": tuple(shift), "per_channel": several}
                attrs = attrs_of({**given, **scaled})
            out.append((op, attrs))
        if out and out[0][0] == "rescale" and not dict(out[0][1])["input_unsigned"]:
            return out
        return [("rescale", makers.by_one(self.graph.nodes[self.graph.inputs[0]].dtype)), *out]

    def _addends(self, found: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Returns (row, number, coefficient) of each addend of some sums, and the bias of each sum."""
        if self.convolution is None:
            return np.arange(len(found)), found, np.ones_like(found), np.zeros_like(found)
        node, attrs = self.convolution, dict(self.convolution.attrs)
        image, y, x, channel = np.unravel_index(found, node.shape)
        weights, bias = (self.graph.nodes[i].attr("value").data.astype(np.int64) for i in node.inputs[1:])
        weights = weights - attrs["w_zp"][0]
        if node.op == "depthwise_conv2d":
            inner, which = np.divmod(channel, weights.shape[3])
            factors, inner = weights[:, :, inner, which].transpose(2, 0, 1)[..., None], inner[:, None]
        else:
            factors = weights[channel]
            inner = np.broadcast_to(np.arange(weights.shape[3]), (len(found), weights.shape[3]))
        if factors.size > _MOST_ADDENDS:
            raise GraphError("too many addends")
        (sy, sx), (dy, dx), (top, _, left, _) = attrs["stride"], attrs["dilation"], attrs["pad"]
        rows = (y * sy - top)[:, None] + np.arange(factors.shape[1]) * dy
        columns = (x * sx - left)[:, None] + np.arange(factors.shape[2]) * dx
        _, height, width, _ = self.read.shape
        inside = ((rows >= 0) & (rows < height))[:, :, None] & ((columns >= 0) & (columns < width))[:, None]
        row, i, j, c = np.nonzero(inside[..., None] & (factors != 0))
        number = self.read[image[row], rows[row, i], columns[row, j], inner[row, c]]
        coefficient = factors[row, i, j, c]
        total = np.array(np.broadcast_to(bias, node.shape[3:])[channel])
        np.subtract.at(total, row, coefficient * attrs["in_zp"][0])
        return row, number, coefficient, total


def trace(graph: TensorGraph) -> Source:
    """Traces a neighbourhood. Raises GraphError if it has another operator or a second convolution."""
    known: dict[int, tuple[Ints, tuple[Step, ...]]] = {}
    convolution, read, count = None, np.zeros(0, np.int64), 0
    for n in graph.live():
        node, operands = graph.nodes[n], [known[i] for i in graph.nodes[n].inputs]
        behind = {steps for _, steps in operands}
        if node.op == "input":
            known[n] = count + np.arange(graph.type(n).elements).reshape(node.shape), ()
            count += graph.type(n).elements
        elif node.op == "const":
            known[n] = node.attr("value").data.astype(np.int64) - _CONSTANT, ()
        elif _is_moving(node) and len(behind) == 1:
            attrs = tuple((k, (v[0] - _CONSTANT,) if k == "value" else v) for k, v in node.attrs)
            numbers = evaluate_op(node.op, attrs, [x for x, _ in operands], Type(node.shape, "INT32"))
            known[n] = numbers.astype(np.int64), *behind
        elif _is_constant_convolution(graph, node) and convolution is None and behind == {()}:
            # It is a step, too, so that sums are not taken for elements of inputs.
            convolution, read = node, operands[0][0]
            known[n] = np.arange(graph.type(n).elements).reshape(node.shape), ((node.op, node.attrs),)
        elif OPS[node.op].kind == "pointwise" and len(operands) == 1 and _is_alike(node, operands[0][0], convolution):
            known[n] = operands[0][0], (*operands[0][1], (node.op, node.attrs))
        else:
            raise GraphError(f"{node.op} is not traced")
    given, steps = known[graph.outputs[0]]
    if convolution is not None and given.min() < 0:
        raise GraphError("a PAD of sums is not traced")
    return Source(graph, convolution, read, given, steps if convolution is None else steps[1:])


def _is_moving(node: Node) -> bool:
    return node.op in _MOVING or node.op == "resize" and node.attr("mode") == NEAREST


def _is_constant_convolution(graph: TensorGraph, node: Node) -> bool:
    return node.op in _CONVOLUTIONS and all(graph.nodes[i].op == "const" for i in node.inputs[1:])


def _is_alike(node: Node, numbers: Ints, convolution: Node | None) -> bool:
    """Whether an operator does the same to all elements, or to all of a channel of the convolution."""
    if not dict(node.attrs).get("per_channel"):
        return True
    channels = node.shape[-1]
    return (
        convolution is not None
        and convolution.shape[3] == channels == len(node.attr("shift"))
        and bool((numbers % channels == np.arange(channels)).all())
    )


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
        """Returns another graph of the same inputs and output types, or None if it does not apply."""
        try:
            made = self._made(source)
        except GraphError:
            return None
        return made if made is not None and made.signature() == source.graph.signature() else None

    def _made(self, source: Source) -> TensorGraph | None:
        graph = source.graph
        reads = [reading(self.read, graph.nodes[i].shape) for i in graph.inputs]
        write = reading(self.write, graph.nodes[graph.outputs[0]].shape)
        moves = [m for m in reads if m is not None]
        if write is None or len(moves) < len(reads) or len({m.out_shape[:3] for m in moves}) != 1:
            return None
        shape = (*moves[0].out_shape[:3], sum(m.out_shape[3] for m in moves))
        sums = source.sums(write)
        if sums is None or self.op == "depthwise_conv2d" and shape[3] == 1:
            return None
        geometry = _geometry(sums, moves, shape, write.out_shape)
        if geometry is None or max(geometry[1]["stride"]) > _MOST_STRIDE:
            return None
        new = TensorGraph(output_names=list(graph.output_names))
        for i in graph.inputs:
            new.add_input(graph.nodes[i].attr("name"), graph.nodes[i].shape, graph.nodes[i].dtype)
        parts = [after(new, i, shortest(m)) for i, m in zip(new.inputs, moves, strict=True)]
        x = parts[0] if len(parts) == 1 else new.add("concat", parts, axis=3)
        y = self._convolved(graph, new, x, sums, geometry, write.out_shape[3])
        if y is None:
            return None
        new.outputs.append(after(new, y, shortest(write.inverse())))
        return new

    def _convolved(
        self, graph: TensorGraph, new: TensorGraph, x: int, sums: Sums, geometry: _Geometry, oc: int
    ) -> int | None:
        """Adds the convolution and the steps behind it, and returns the result."""
        (kernel, window, tap), channel = geometry, sums.row % oc
        depth, depthwise = new.nodes[x].shape[3], self.op == "depthwise_conv2d"
        if depthwise and (oc % depth or (channel // (oc // depth) != tap[2]).any()):
            return None
        weights = _weights((channel, *tap), sums.coefficient, (oc, *kernel, depth))
        known = _zero_point(graph, sums, oc)
        if weights is None or known is None:
            return None
        if depthwise:
            each = np.arange(oc)
            weights = weights[each, ..., each // (oc // depth)].transpose(1, 2, 0)
            weights = weights.reshape(*kernel, depth, oc // depth)
        (zero, bias), dtype = known, new.nodes[x].dtype
        operands = [x, new.add_const(weights, "INT8"), new.add_const(bias, DType.of(dtype).accumulator)]
        y = new.add_with(self.op, operands, makers.conv(dtype, **window, in_zp=zero))
        scale = attrs_of({**dict(sums.steps[0][1]), "in_zp": (0,)})  # the bias has its zero point
        return after(new, y, [("rescale", scale), *sums.steps[1:]])


def _named(of: Reading) -> str:
    return of[0] if of[1] == 1 else f"{of[0]} ({of[1]})"


def _places(height: int, width: int) -> Ints:
    """Returns places of a result from which windows are determined: corners and the middle."""
    y, x = height // 2, width // 2
    found = [(y, x), (min(y + 1, height - 1), x), (y, min(x + 1, width - 1)), (0, 0), (height - 1, width - 1)]
    return np.array(list(dict.fromkeys(found)))


def _geometry(sums: Sums, moves: Sequence[Move], shape: tuple[int, ...], out: tuple[int, ...]) -> _Geometry | None:
    where, first = [], 0
    for m in moves:
        _, y, x, channel = np.unravel_index(m.inverse().indices().reshape(-1), m.out_shape)
        where.append((y, x, channel + first))
        first += m.out_shape[3]
    y, x, channel = np.concatenate(where, axis=1)[:, sums.element]
    place = sums.places[sums.row // out[3]]
    down = _along(place[:, 0], y, shape[1], out[1])
    across = down and _along(place[:, 1], x, shape[2], out[2])
    if not down or not across:
        return None
    (ky, py, sy, dy, ty), (kx, px, sx, dx, tx) = down, across
    window = {"pad": (*py, *px), "stride": (sy, sx), "dilation": (dy, dx)}
    return (ky, kx), window, (ty, tx, channel)


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
    step = max(1, int(np.gcd.reduce(offset - low))) if size > 1 else 1
    tap = (offset - low) // step
    taps = int(tap.max()) + 1
    after_last = (out - 1) * stride + (taps - 1) * step + 1 + low - size
    if taps > _MOST_TAPS or not 0 <= after_last <= (taps - 1) * step or -low > (taps - 1) * step:
        return None
    return taps, (-low, after_last), stride, step, tap


def _weights(at: tuple[Ints, ...], value: Ints, shape: tuple[int, ...]) -> Ints | None:
    """Returns INT8 weights, or None if places disagree or the weights are too many or too large."""
    if prod(shape) > _MOST_WEIGHTS or (np.abs(value) > 127).any():
        return None
    weights = np.zeros(shape, np.int64)
    weights[at] = value
    return weights if (weights[at] == value).all() else None


def _zero_point(graph: TensorGraph, sums: Sums, channels: int) -> tuple[int, Ints] | None:
    """Returns the zero point with which all places have equal biases, and these biases, or None."""
    total = np.zeros(len(sums.bias), np.int64)
    np.add.at(total, sums.row, sums.coefficient)
    tried = [0]
    if DType.of(graph.nodes[graph.inputs[0]].dtype).bits == 8:
        tried += [v[0] for n in graph.nodes for k, v in n.attrs if k in ("in_zp", "value") and isinstance(v, tuple)]
    for zero in dict.fromkeys(tried):
        bias = (sums.bias - dict(sums.steps[0][1])["in_zp"][0] + total * zero).reshape(-1, channels)
        if (bias == bias[0]).all() and (np.abs(bias) < 1 << 31).all():
            return int(zero), bias[0]
    return None


def windows(graph: TensorGraph) -> Iterator[Window]:
    """Yields windows whose sizes could fit the output."""
    there = {d for n in graph.nodes for k, v in n.attrs if k in ("stride", "dilation") for d in v if d > 1}
    numbers = sorted({*NUMBERS, *there})
    sides = (readings(graph.nodes[n].shape, numbers) for n in (graph.inputs[0], graph.outputs[0]))
    for (read, m), (write, n) in product(*sides):
        if all(_could_be(a, b) for a, b in zip(m.out_shape[1:3], n.out_shape[1:3], strict=True)):
            yield from (Window(op, read, write) for op in _CONVOLUTIONS)


def _could_be(size: int, out: int) -> bool:
    stride = max(1, round(size / out))
    return abs(size - stride * out) <= 8 + stride
