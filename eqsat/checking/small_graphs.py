"""Small random graphs of quantized networks, on which rules are tried out.

>>> random_graph(3) == random_graph(3), 3 <= len(random_graph(3).nodes)
(True, True)

Every graph is a string of blocks, now and then behind an older value, so that there are forks; nothing is wider than a few hundred
elements. All of it can be evaluated in numpy.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from eqsat.tensor import makers
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import GraphError

_SHAPES = ((1, 4, 6, 8), (1, 6, 4, 4), (2, 3, 4, 5), (1, 8, 3, 3), (1, 12, 8), (4, 6), (2, 2, 3, 2, 4))
_MOST_ELEMENTS = 600


class _Graph:
    """A graph in the making with the dice for it."""

    def __init__(self, seed: int):
        self.rng, self.g = np.random.default_rng(seed), TensorGraph()

    def int(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def shape(self, x: int) -> tuple[int, ...]:
        return self.g.nodes[x].shape

    def clamp(self, x: int, low: int, high: int) -> int:
        return self.g.add_with("clamp", (x,), makers.clamp(self.g.nodes[x].dtype, low, high))

    def rescale(
        self, x: int, dtype: str, multiplier: int = 1 << 30, shift: int = 30, in_zp: int = 0, out_zp: int = 0
    ) -> int:
        return self.g.add_with("rescale", (x,), makers.rescale(dtype, multiplier, shift, in_zp=in_zp, out_zp=out_zp))

    def const(self, shape: tuple[int, ...], dtype: str, low: int, high: int) -> int:
        return self.g.add_const(self.rng.integers(low, high + 1, shape).astype(DType.of(dtype).storage), dtype)


def _transpose(b: _Graph, x: int) -> int:
    return b.g.add("transpose", (x,), perms=tuple(map(int, b.rng.permutation(len(b.shape(x))))))


def _reshape(b: _Graph, x: int) -> int:
    shape = list(b.shape(x))
    at = b.int(0, len(shape) - 1)
    if b.int(0, 1) and len(shape) > 1 and at:
        shape[at - 1 : at + 1] = [shape[at - 1] * shape[at]]
    else:
        factor = next((f for f in (2, 3) if shape[at] % f == 0), 1)
        shape[at : at + 1] = [factor, shape[at] // factor]
    if len(shape) > 6:
        raise GraphError("too many axes")
    return b.g.add("reshape", (x,), shape=tuple(shape))


def _slice(b: _Graph, x: int) -> int:
    size = [b.int(max(1, n // 2), n) for n in b.shape(x)]
    return b.g.add("slice", (x,), start=tuple(b.int(0, n - m) for n, m in zip(b.shape(x), size)), size=tuple(size))


def _pad(b: _Graph, x: int) -> int:
    return b.g.add_with("pad", (x,), makers.pad([b.int(0, 1) for _ in range(2 * len(b.shape(x)))], b.int(-3, 3)))


def _concat(b: _Graph, x: int) -> int:
    other = b.const(b.shape(x), "INT8", -128, 127) if b.int(0, 1) else b.clamp(x, -90, b.int(0, 100))
    return b.g.add("concat", (x, other) if b.int(0, 1) else (other, x), axis=b.int(0, len(b.shape(x)) - 1))


def _reverse(b: _Graph, x: int) -> int:
    return b.g.add("reverse", (x,), axis=b.int(0, len(b.shape(x)) - 1))


def _clamp(b: _Graph, x: int) -> int:
    return b.clamp(x, b.int(-128, 0), b.int(1, 127))


def _relus(b: _Graph, x: int) -> int:
    return b.clamp(_clamp(b, x), b.int(-128, 0), b.int(1, 127))


def _table(b: _Graph, x: int) -> int:
    return b.g.add_with("table", (x,), makers.table(b.rng.integers(-128, 128, 256)))


def _requantize(b: _Graph, x: int) -> int:
    return b.rescale(x, "INT8", b.int(1 << 29, 1 << 30), 30, b.int(-5, 5), b.int(-5, 5))


def _arithmetic(b: _Graph, x: int) -> int:
    op = ("add", "sub", "mul", "maximum", "minimum")[b.int(0, 4)]
    wide = b.rescale(x, "INT32", in_zp=b.int(-5, 5))
    last = (1,) * (len(b.shape(x)) - 1) + b.shape(x)[-1:]
    other = (
        b.const(last, "INT32", -50, 50),
        b.const((1,) * len(last), "INT32", -50, 50),
        b.rescale(_table(b, x), "INT32"),
        wide,
    )[b.int(0, 3)]
    attrs = makers.mul() if op == "mul" else makers.extremum() if op in ("maximum", "minimum") else ()
    return b.rescale(
        b.g.add_with(op, (wide, other) if b.int(0, 1) else (other, wide), attrs),
        "INT8",
        1 << 30,
        36 if op == "mul" else 31,
    )


def _reduce(b: _Graph, x: int) -> int:
    axis = b.int(0, len(b.shape(x)) - 1)
    if b.int(0, 1):
        return b.g.add_with("reduce_max", (x,), makers.extremum(axis))
    return b.rescale(b.g.add("reduce_sum", (b.rescale(x, "INT32"),), axis=axis), "INT8", 1 << 30, 32)


def _convolution(b: _Graph, x: int) -> int:
    if len(b.shape(x)) != 4:
        raise GraphError("a convolution reads four axes")
    (_, h, w, c), depthwise = b.shape(x), b.int(0, 1)
    kernel, out = (min(h, b.int(1, 2)), min(w, b.int(1, 2))), c if depthwise else b.int(1, 6)
    weights = b.const((*kernel, c, 1) if depthwise else (out, *kernel, c), "INT8", -20, 20)
    sums = b.g.add_with(
        "depthwise_conv2d" if depthwise else "conv2d",
        (x, weights, b.const((out,), "INT32", -99, 99)),
        makers.conv("INT8", in_zp=b.int(-3, 3)),
    )
    return b.rescale(sums, "INT8", 1 << 30, 35)


def _pool(b: _Graph, x: int) -> int:
    if len(b.shape(x)) != 4:
        raise GraphError("a pool reads four axes")
    return b.g.add_with("max_pool2d", (x,), makers.max_pool([min(2, n) for n in b.shape(x)[1:3]]))


_BLOCKS: tuple[Callable[[_Graph, int], int], ...] = (
    _transpose,
    _transpose,
    _reshape,
    _slice,
    _pad,
    _concat,
    _reverse,
    _clamp,
    _relus,
    _table,
    _requantize,
    _arithmetic,
    _arithmetic,
    _reduce,
    _convolution,
    _pool,
)


def random_graph(seed: int, most: int = 8) -> TensorGraph:
    """The graph of a seed, of two to `most` blocks; the newest value and another one are its outputs."""
    b = _Graph(seed)
    values = [b.g.add_input("x", _SHAPES[b.int(0, len(_SHAPES) - 1)], "INT8")]
    wanted = b.int(2, most)
    for _ in range(4 * wanted):
        x = values[-1] if b.int(0, 3) else values[b.int(0, len(values) - 1)]
        before = len(b.g.nodes)
        try:
            new = _BLOCKS[b.int(0, len(_BLOCKS) - 1)](b, x)
        except GraphError:
            continue
        if b.g.type(new).elements <= _MOST_ELEMENTS and len(b.g.nodes) > before:
            values.append(new)
        if len(values) > wanted:
            break
    b.g.outputs = list(dict.fromkeys([values[-1], values[b.int(1, len(values) - 1)]]))
    b.g.output_names = [f"y{i}" for i in range(len(b.g.outputs))]
    return b.g.pruned()
