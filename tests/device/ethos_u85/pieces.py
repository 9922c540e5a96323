"""Graphs of one operator or a few, of every kind that Ethos-U85 does by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops.indexing import BILINEAR, NEAREST
from tests.graphs import DOUBLE_ROUND, SINGLE_ROUND, finish, rescale

Make = Callable[[TensorGraph, str], int]


@dataclass(frozen=True)
class Piece:
    """dtypes: of its inputs."""

    name: str
    make: Make
    dtypes: tuple[str, ...]

    def graph(self, dtype: str) -> TensorGraph:
        g = TensorGraph()
        return finish(g, self.make(g, dtype))


PIECES: list[Piece] = []
_BOTH = ("INT8", "INT16")


def _piece(*dtypes: str) -> Callable[[Make], Make]:
    def add(make: Make) -> Make:
        PIECES.append(Piece(make.__name__, make, dtypes))
        return make

    return add


def _x(g: TensorGraph, dtype: str, *shape: int, name: str = "x") -> int:
    return g.add_input(name, shape or (1, 7, 9, 20), dtype)


def _wide(g: TensorGraph, x: int, zero: int = 0) -> int:
    return rescale(g, x, "INT32", in_zp=zero if g.nodes[x].dtype == "INT8" else 0)


def _narrow(g: TensorGraph, x: int, dtype: str, shift: int = 33) -> int:
    return rescale(g, x, dtype, shift=(shift,))


@_piece(*_BOTH)
def average_padded(g: TensorGraph, dtype: str) -> int:
    return g.add_with("avg_pool2d", [_x(g, dtype)], makers.avg_pool(kernel=(3, 3), pad=(1, 1, 1, 1)))


@_piece(*_BOTH)
def average_of_many(g: TensorGraph, dtype: str) -> int:
    x = _x(g, dtype, 1, 11, 10, 6)
    return g.add_with("avg_pool2d", [x], makers.avg_pool(kernel=(11, 10)))


@_piece(*_BOTH)
def largest_padded(g: TensorGraph, dtype: str) -> int:
    return g.add_with("max_pool2d", [_x(g, dtype)], makers.max_pool((3, 2), stride=(2, 1), pad=(1, 1, 0, 1)))


def _product(g: TensorGraph, dtype: str, kernel: int, inputs: int, outputs: int, **more: Sequence[int]) -> int:
    rng = np.random.default_rng(kernel)
    x = _x(g, dtype, 1, 9, 8, inputs)
    w = g.add_const(rng.integers(-127, 128, (outputs, kernel, kernel, inputs)), "INT8")
    bias = g.add_const(rng.integers(-900, 900, outputs), "INT32" if dtype == "INT8" else "INT48")
    y = g.add_with("conv2d", [x, w, bias], makers.conv(dtype, **more))
    if dtype == "INT8":
        return rescale(
            g,
            y,
            dtype,
            multiplier=[int(k) for k in rng.integers(1 << 30, (1 << 31) - 1, outputs)],
            shift=[41] * outputs,
        )
    return rescale(
        g,
        y,
        dtype,
        multiplier=[int(k) for k in rng.integers(1 << 14, (1 << 15) - 1, outputs)],
        shift=[27] * outputs,
        scale32=False,
    )


@_piece(*_BOTH)
def convolution_1x1(g: TensorGraph, dtype: str) -> int:
    return _product(g, dtype, 1, 70, 37)


@_piece(*_BOTH)
def convolution_dilated(g: TensorGraph, dtype: str) -> int:
    return _product(g, dtype, 3, 5, 33, dilation=(2, 2), pad=(2, 2, 2, 2))


@_piece(*_BOTH)
def convolution_strided(g: TensorGraph, dtype: str) -> int:
    return _product(g, dtype, 5, 3, 20, stride=(2, 1), pad=(2, 2, 2, 2))


@_piece(*_BOTH)
def depthwise(g: TensorGraph, dtype: str) -> int:
    rng = np.random.default_rng(1)
    w = g.add_const(rng.integers(-127, 128, (5, 3, 20, 1)), "INT8")
    bias = g.add_const(rng.integers(-900, 900, 20), "INT32" if dtype == "INT8" else "INT48")
    y = g.add_with("depthwise_conv2d", [_x(g, dtype), w, bias], makers.conv(dtype, pad=(2, 2, 1, 1), stride=(1, 2)))
    if dtype == "INT8":
        return _narrow(g, y, dtype, 37)
    return rescale(g, y, dtype, multiplier=(1 << 14,), shift=(24,), scale32=False)


@_piece(*_BOTH)
def matrices(g: TensorGraph, dtype: str) -> int:
    a, b = _x(g, dtype, 2, 5, 17, name="a"), _x(g, dtype, 2, 17, 23, name="b")
    zeros = (3, -4) if dtype == "INT8" else (0, 0)
    y = g.add_with("matmul", [a, b], makers.matmul(*zeros))
    if dtype == "INT8":
        return _narrow(g, y, dtype, 38)
    return rescale(g, y, dtype, multiplier=(1 << 14,), shift=(30,), scale32=False)


@_piece(*_BOTH)
def weights_as_an_input(g: TensorGraph, dtype: str) -> int:
    """A product of matrices for every position of the kernel, into accumulators that are kept."""
    w = _x(g, "INT8", 9, 3, 3, 5, name="w")
    bias = g.add_const(np.arange(9) * 50, "INT32" if dtype == "INT8" else "INT48")
    y = g.add_with("conv2d", [_x(g, dtype, 1, 7, 6, 5), w, bias], makers.conv(dtype, pad=(1, 1, 1, 1)))
    if dtype == "INT8":
        return _narrow(g, y, dtype, 38)
    return rescale(g, y, dtype, multiplier=(1 << 14,), shift=(27,), scale32=False)


@_piece("INT8")
def transposed_convolution(g: TensorGraph, dtype: str) -> int:
    rng = np.random.default_rng(3)
    w = g.add_const(rng.integers(-127, 128, (7, 3, 3, 5)), "INT8")
    operands = [_x(g, dtype, 1, 5, 6, 5), w, g.add_const(np.arange(7) * 30, "INT32")]
    attrs = makers.transpose_conv(dtype, out_pad=(0, 0, 0, 0), stride=(2, 2), in_zp=-5)
    return _narrow(g, g.add_with("transpose_conv2d", operands, attrs), dtype, 37)


@_piece("INT8")
def resize_nearest(g: TensorGraph, dtype: str) -> int:
    x = _x(g, dtype, 1, 5, 6, 20)
    return g.add("resize", (x,), scale=(2, 1, 2, 1), offset=(0, 0), border=(1, 1), mode=NEAREST)


@_piece("INT8")
def resize_between(g: TensorGraph, dtype: str) -> int:
    x = _x(g, dtype, 1, 5, 6, 20)
    y = g.add("resize", (x,), scale=(4, 2, 4, 2), offset=(-1, -1), border=(1, 1), mode=BILINEAR)
    return _narrow(g, y, dtype, 34)


@_piece(*_BOTH)
def chosen_rows(g: TensorGraph, dtype: str) -> int:
    rows = g.add_const(np.array([[3, 0, 6, 3], [1, 1, 5, 2]]), "INT32")
    return g.add("gather", (_x(g, dtype, 2, 7, 10), rows))


@_piece(*_BOTH)
def placed_rows(g: TensorGraph, dtype: str) -> int:
    rows = g.add_const(np.array([[3, 0, 6], [1, 4, 5]]), "INT32")
    return g.add("scatter", (_x(g, dtype, 2, 7, 10), rows, _x(g, dtype, 2, 3, 10, name="y")))


@_piece("INT8")
def number_of_the_largest(g: TensorGraph, dtype: str) -> int:
    return g.add_with("argmax", [_x(g, dtype, 6, 5, 11)], makers.extremum(2))


@_piece(*_BOTH)
def smallest_along(g: TensorGraph, dtype: str) -> int:
    return g.add_with("reduce_min", [_x(g, dtype, 4, 9, 6)], makers.extremum(1))


@_piece(*_BOTH)
def sum_along(g: TensorGraph, dtype: str) -> int:
    return _narrow(g, g.add("reduce_sum", (_wide(g, _x(g, dtype, 1, 6, 9, 5), 3),), axis=2), dtype)


@_piece(*_BOTH)
def chain(g: TensorGraph, dtype: str) -> int:
    a, b, c = (_wide(g, _x(g, dtype, name=n), z) for n, z in (("a", 1), ("b", -2), ("c", 5)))
    low = rescale(g, g.add_with("mul", [g.add("sub", (a, b)), c], makers.mul()), "INT32", shift=(36,))
    return _narrow(g, g.add_with("maximum", (g.add("abs", (low,)), b), makers.extremum()), dtype, 30)


@_piece("INT8")
def sums_of_broadcasts(g: TensorGraph, dtype: str) -> int:
    a, b = _wide(g, _x(g, dtype, name="a"), 1), _wide(g, _x(g, dtype, 1, 1, 9, 1, name="b"))
    y = g.add("add", (g.add("add", (a, b)), g.add_const(np.full((1, 1, 1, 1), 77), "INT32")))
    return rescale(g, y, dtype, multiplier=(1518500250,), shift=(31,), out_zp=9, rounding=DOUBLE_ROUND)


@_piece("INT8")
def shifts(g: TensorGraph, dtype: str) -> int:
    x = _wide(g, _x(g, dtype))
    counts = g.add_const(np.arange(20).reshape(1, 1, 1, 20) % 5, "INT32")
    up = g.add("logical_left_shift", (x, counts))
    down = g.add("arithmetic_right_shift", (g.add("bitwise_xor", (up, x)), counts), round=True)
    return g.add("logical_right_shift", (g.add("bitwise_or", (down, x)), counts))


@_piece("INT8")
def zeros_and_quotients(g: TensorGraph, dtype: str) -> int:
    x = _wide(g, _x(g, dtype))
    divisors = g.add_const(np.arange(20).reshape(1, 1, 1, 20) - 30, "INT32")
    return g.add("add", (g.add("clz", (x,)), g.add("intdiv", (x, divisors))))


@_piece(*_BOTH)
def selection(g: TensorGraph, dtype: str) -> int:
    a, b = _x(g, dtype, name="a"), _x(g, dtype, name="b")
    wide = _wide(g, a), _wide(g, b)
    mask = g.add("logical_or", (g.add("greater", wide), g.add("logical_not", (g.add("equal", wide),))))
    return g.add("select", (mask, b, a))


@_piece("INT8")
def whether_all_are_larger(g: TensorGraph, dtype: str) -> int:
    a, b = _wide(g, _x(g, dtype, 1, 4, 6, 3, name="a")), _wide(g, _x(g, dtype, 1, 4, 6, 1, name="b"))
    return g.add("reduce_all", (g.add("greater_equal", (a, b)),), axis=3)


@_piece("INT16")
def table_of_shorts(g: TensorGraph, dtype: str) -> int:
    entries = np.sort(np.random.default_rng(0).integers(-(1 << 15), 1 << 15, 513)).tolist()
    return rescale(g, g.add_with("table", [_x(g, dtype)], makers.table(entries)), dtype, shift=(37,))


@_piece("INT8")
def table_after_a_convolution(g: TensorGraph, dtype: str) -> int:
    entries = np.random.default_rng(0).integers(-128, 128, 256).tolist()
    return g.add_with("table", [_product(g, dtype, 1, 6, 9)], makers.table(entries))


@_piece("INT8")
def inexact_rescale(g: TensorGraph, dtype: str) -> int:
    x = rescale(g, _x(g, dtype), "INT16", multiplier=(1518500250,), shift=(27,), in_zp=-7, rounding=DOUBLE_ROUND)
    return rescale(g, x, dtype, multiplier=(20011,), shift=(19,), scale32=False, rounding=SINGLE_ROUND)


@_piece(*_BOTH)
def widened_then_narrowed(g: TensorGraph, dtype: str) -> int:
    return _narrow(g, g.add("negate", (_wide(g, _x(g, dtype)),), in_zp=(0,), out_zp=(0,)), dtype, 31)


for _perms in ((0, 2, 1, 3), (0, 1, 3, 2), (0, 3, 2, 1), (0, 2, 3, 1), (0, 3, 1, 2)):

    def _transposed(g: TensorGraph, dtype: str, perms: tuple[int, ...] = _perms) -> int:
        return g.add("transpose", (_x(g, dtype),), perms=perms)

    PIECES.append(Piece("transpose_" + "".join(map(str, _perms)), _transposed, (*_BOTH, "INT32")))
for _axis in (1, 2, 3):

    def _reversed(g: TensorGraph, dtype: str, axis: int = _axis) -> int:
        return g.add("reverse", (_x(g, dtype),), axis=axis)

    PIECES.append(Piece(f"reverse_{_axis}", _reversed, _BOTH))
