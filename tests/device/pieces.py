"""Graphs of few operators: every kind of command of a binary, and of operator that Ethos-U85 does by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from eqsat.device.binary import compile_binary
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops.indexing import BILINEAR, NEAREST
from eqsat.tensor.ops.pointwise import DOUBLE_ROUND
from tests.term import Term, graph

_BOTH = ("INT8", "INT16")
_ONE = 1 << 30


@dataclass(frozen=True)
class Piece:
    """inputs: as of `graph`, with D for each of the dtypes."""

    name: str
    dtypes: tuple[str, ...]
    inputs: str
    make: Callable[..., Term]

    def graph(self, dtype: str) -> TensorGraph:
        return graph(self.inputs.replace("D", dtype), self.make)

    def __str__(self) -> str:
        return self.name


#: `compile_binary`, once for a graph and target.
compiled = cache(compile_binary)


def of(*pieces: Piece) -> TensorGraph:
    """A graph of pieces, each with inputs and an output of its own, in its first dtype."""

    def made(*given: Term) -> tuple[Term, ...]:
        left = iter(given)
        return tuple(p.make(*(next(left) for _ in p.inputs.split())) for p in pieces)

    return graph(" ".join(p.inputs.replace("D", p.dtypes[0]) for p in pieces), made)


def _wide(x: Term, zero: int = 0) -> Term:
    return x.rescale("INT32", _ONE, 30, in_zp=zero if x.dtype == "INT8" else 0)


def _narrow(x: Term, shift: int, dtype: str = "INT8") -> Term:
    return x.rescale(dtype, _ONE, shift)


def _sums(x: Term, dtype: str, shift: int, long_shift: int) -> Term:
    """Sums as values of the dtype that they are made of: by one shift from INT32, by another from INT48."""
    if dtype == "INT8":
        return _narrow(x, shift)
    return x.rescale(dtype, 1 << 14, long_shift, scale32=False)


def _bias(x: Term, values: np.ndarray) -> Term:
    return x.const(values, "INT32" if x.dtype == "INT8" else "INT48")


def _product(x: Term, kernel: int, outputs: int, **more: Sequence[int]) -> Term:
    rng = np.random.default_rng(kernel)
    w = x.const(rng.integers(-127, 128, (outputs, kernel, kernel, x.shape[3])), "INT8")
    y = x.made("conv2d", makers.conv(x.dtype, **more), w, _bias(x, rng.integers(-900, 900, outputs)))
    top, shift, scale32 = (31, 41, True) if x.dtype == "INT8" else (15, 27, False)
    multipliers = [int(k) for k in rng.integers(1 << top - 1, (1 << top) - 1, outputs)]
    return y.rescale(x.dtype, multipliers, [shift] * outputs, scale32=scale32)


def conv3(x: Term) -> Term:
    """A convolution of 3x3 that keeps the shape."""
    return _product(x, 3, x.shape[3], pad=(1, 1, 1, 1))


def _depthwise(x: Term) -> Term:
    rng = np.random.default_rng(1)
    w, bias = x.const(rng.integers(-127, 128, (5, 3, 20, 1)), "INT8"), _bias(x, rng.integers(-900, 900, 20))
    y = x.made("depthwise_conv2d", makers.conv(x.dtype, pad=(2, 2, 1, 1), stride=(1, 2)), w, bias)
    return _sums(y, x.dtype, 37, 24)


def _weights_as_an_input(w: Term, x: Term) -> Term:
    """A product of matrices for every position of the kernel, into accumulators that are kept."""
    y = x.made("conv2d", makers.conv(x.dtype, pad=(1, 1, 1, 1)), w, _bias(x, np.arange(9) * 50))
    return _sums(y, x.dtype, 38, 27)


def _matrices(a: Term, b: Term) -> Term:
    zeros = (3, -4) if a.dtype == "INT8" else (0, 0)
    return _sums(a.made("matmul", makers.matmul(*zeros), b), a.dtype, 38, 30)


def _transposed_convolution(x: Term) -> Term:
    w, bias = np.random.default_rng(3).integers(-127, 128, (7, 3, 3, 5)), x.const(np.arange(7) * 30, "INT32")
    attrs = makers.transpose_conv("INT8", out_pad=(0, 0, 0, 0), stride=(2, 2), in_zp=-5)
    return _narrow(x.made("transpose_conv2d", attrs, x.const(w, "INT8"), bias), 37)


def _chain(a: Term, b: Term, c: Term) -> Term:
    dtype, (x, y, z) = a.dtype, (_wide(a, 1), _wide(b, -2), _wide(c, 5))
    return _narrow(((x - y) * z).rescale("INT32", _ONE, 36)("abs").max(y), 30, dtype)


def _sums_of_broadcasts(a: Term, b: Term) -> Term:
    y = _wide(a, 1) + _wide(b) + 77
    return y.rescale("INT8", 1518500250, 31, out_zp=9, rounding_mode=DOUBLE_ROUND)


def _shifts(x: Term) -> Term:
    wide, counts = _wide(x), x.const(np.arange(20).reshape(1, 1, 1, 20) % 5, "INT32")
    return ((wide.lsl(counts) ^ wide).asr(counts, True) | wide).lsr(counts)


def _zeros_and_quotients(x: Term) -> Term:
    wide = _wide(x)
    return wide("clz") + wide.div(x.const(np.arange(20).reshape(1, 1, 1, 20) - 30, "INT32"))


def _selection(a: Term, b: Term) -> Term:
    x, y = _wide(a), _wide(b)
    return (x > y)("logical_or", ~x.equal(y))("select", b, a)


def _inexact_rescale(x: Term) -> Term:
    y = x.rescale("INT16", 1518500250, 27, in_zp=-7, rounding_mode=DOUBLE_ROUND)
    return y.rescale("INT8", 20011, 19, scale32=False)


def _random_table(entries: int, low: int, high: int) -> list[int]:
    return np.random.default_rng(0).integers(low, high, entries).tolist()


_X, _AND = "x:D[1,7,9,20]", "a:D[1,7,9,20] b:D[1,7,9,20]"
_ROWS, _PLACES = [[3, 0, 6, 3], [1, 1, 5, 2]], [[3, 0, 6], [1, 4, 5]]
_SHORTS = sorted(_random_table(513, -(1 << 15), 1 << 15))
#: Of what Ethos-U85 does by itself.
OF_U85 = [
    Piece("average_padded", _BOTH, _X, lambda x: x.average(3, 3, pad=(1, 1, 1, 1))),
    Piece("average_of_many", _BOTH, "x:D[1,11,10,6]", lambda x: x.average(11, 10)),
    Piece("largest_padded", _BOTH, _X, lambda x: x.largest(3, 2, stride=(2, 1), pad=(1, 1, 0, 1))),
    Piece("convolution_1x1", _BOTH, "x:D[1,9,8,70]", lambda x: _product(x, 1, 37)),
    Piece("convolution_dilated", _BOTH, "x:D[1,9,8,5]", lambda x: _product(x, 3, 33, dilation=(2, 2), pad=(2,) * 4)),
    Piece("convolution_strided", _BOTH, "x:D[1,9,8,3]", lambda x: _product(x, 5, 20, stride=(2, 1), pad=(2, 2, 2, 2))),
    Piece("depthwise", _BOTH, _X, _depthwise),
    Piece("matrices", _BOTH, "a:D[2,5,17] b:D[2,17,23]", _matrices),
    Piece("weights_as_an_input", _BOTH, "w:INT8[9,3,3,5] x:D[1,7,6,5]", _weights_as_an_input),
    Piece("transposed_convolution", ("INT8",), "x:D[1,5,6,5]", _transposed_convolution),
    Piece("resize_nearest", ("INT8",), "x:D[1,5,6,20]", lambda x: x.resize(NEAREST, (2, 1, 2, 1), (0, 0), (1, 1))),
    Piece(
        "resize_between",
        ("INT8",),
        "x:D[1,5,6,20]",
        lambda x: _narrow(x.resize(BILINEAR, (4, 2, 4, 2), (-1, -1), (1, 1)), 34),
    ),
    Piece("chosen_rows", _BOTH, "x:D[2,7,10]", lambda x: x("gather", x.const(_ROWS, "INT32"))),
    Piece("placed_rows", _BOTH, "x:D[2,7,10] y:D[2,3,10]", lambda x, y: x("scatter", x.const(_PLACES, "INT32"), y)),
    Piece("number_of_the_largest", ("INT8",), "x:D[6,5,11]", lambda x: x.argmax(2)),
    Piece("smallest_along", _BOTH, "x:D[4,9,6]", lambda x: x.reduce("min", 1)),
    Piece("sum_along", _BOTH, "x:D[1,6,9,5]", lambda x: _narrow(_wide(x, 3).reduce("sum", 2), 33, x.dtype)),
    Piece("chain", _BOTH, f"{_AND} c:D[1,7,9,20]", _chain),
    Piece("sums_of_broadcasts", ("INT8",), "a:D[1,7,9,20] b:D[1,1,9,1]", _sums_of_broadcasts),
    Piece("shifts", ("INT8",), _X, _shifts),
    Piece("zeros_and_quotients", ("INT8",), _X, _zeros_and_quotients),
    Piece("selection", _BOTH, _AND, _selection),
    Piece(
        "whether_all_are_larger",
        ("INT8",),
        "a:D[1,4,6,3] b:D[1,4,6,1]",
        lambda a, b: (_wide(a) >= _wide(b)).reduce("all", 3),
    ),
    Piece("table_of_shorts", ("INT16",), _X, lambda x: _narrow(x.table(_SHORTS), 37, "INT16")),
    Piece(
        "table_after_a_convolution",
        ("INT8",),
        "x:D[1,9,8,6]",
        lambda x: _product(x, 1, 9).table(_random_table(256, -128, 128)),
    ),
    Piece("inexact_rescale", ("INT8",), _X, _inexact_rescale),
    Piece("widened_then_narrowed", _BOTH, _X, lambda x: _narrow(_wide(x).negate(), 31, x.dtype)),
    *(
        Piece(f"transpose_{''.join(map(str, p))}", (*_BOTH, "INT32"), _X, lambda x, p=p: x.transpose(*p))
        for p in ((0, 2, 1, 3), (0, 1, 3, 2), (0, 3, 2, 1), (0, 2, 3, 1), (0, 3, 1, 2))
    ),
    *(Piece(f"reverse_{axis}", _BOTH, _X, lambda x, axis=axis: x.reverse(axis)) for axis in (1, 2, 3)),
]


# ---- pieces whose binaries have every kind of command, on every family


def _convolutions(x: Term) -> Term:
    return x.layer(40, 3).layer(24, 3, stride=2)


def _added(a: Term, b: Term) -> Term:
    return (a.rescale("INT32", _ONE, 11) + b.rescale("INT32", 3 << 28, 11)).rescale("INT8", _ONE, 50)


def _total(x: Term) -> Term:
    return x.rescale("INT32", in_zp=3).reduce("sum", 3).rescale("INT8", _ONE, 33)


def _multiplied(a: Term, b: Term) -> Term:
    return a.matmul(b.transpose(0, 2, 1), 1, -2).rescale("INT8", _ONE, 40)


convolution = Piece("convolution", ("INT8",), "image:D[1,15,15,8]", _convolutions)
transposition = Piece("transposition", ("INT8",), "turned:D[1,6,5,7]", lambda x: x.transpose(0, 3, 1, 2))
addition = Piece("addition", ("INT8",), "a:D[1,6,5,7] b:D[1,6,5,7]", _added)
table = Piece("table", ("INT8",), "looked_up:D[1,4,4,8]", lambda x: x.table(_random_table(256, -128, 128)))
sum_of_channels = Piece("sum_of_channels", ("INT8",), "summed:D[1,4,4,8]", _total)
product = Piece("product", ("INT8",), "left:D[2,6,8] right:D[2,6,8]", _multiplied)
PIECES = (convolution, transposition, addition, table, sum_of_channels, product)
