"""Random graphs, on which a user's own rules are tried; equal seeds give equal graphs.

They use all integer operators of the op table, quantized as in networks, and are small enough to be read.
The tests also make graphs of INT16 from `BLOCKS`.

>>> random_graph(7) == random_graph(7), random_graph(7) == random_graph(8)
(True, False)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeVar

import numpy as np

from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tensor.ops.indexing import BILINEAR, NEAREST
from eqsat.tensor.types import Attrs, DType, GraphError, Shape

_T = TypeVar("_T")
_SHAPES: tuple[Shape, ...] = (
    (1, 4, 6, 2),
    (1, 6, 4, 4),
    (2, 3, 4, 5),
    (1, 8, 3, 3),
    (1, 12, 4),
    (4, 6),
    (2, 2, 3, 2, 4),
)
#: Most elements of a tensor, and about the fewest and the most operators of a graph.
_LARGEST, _FEWEST, _MOST = 600, 3, 9


class Builder:
    """A graph under construction. shapes, dtypes: of inputs; values: what operators may read, the newest last."""

    def __init__(self, seed: int, shapes: Sequence[Shape] = _SHAPES, dtypes: Sequence[str] = ("INT8",)) -> None:
        self.rng, self.g = np.random.default_rng(seed), TensorGraph()
        shape, dtype = self.of(*shapes), self.of(*dtypes)
        self.values = [self.g.add_input(f"x{k}", shape, dtype) for k in range(self.of(1, 1, 2))]

    def draw_between(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high, endpoint=True))

    def of(self, *options: _T) -> _T:
        return options[self.draw_between(0, len(options) - 1)]

    def shape(self, x: int) -> tuple[int, ...]:
        return self.g.nodes[x].shape

    def dtype(self, x: int) -> str:
        return self.g.nodes[x].dtype

    def axis(self, x: int) -> int:
        return self.draw_between(0, len(self.shape(x)) - 1)

    def const(self, shape: tuple[int, ...], dtype: str = "INT8", low: int = -100, high: int = 100) -> int:
        return self.g.add_const(
            self.rng.integers(low, high, shape, endpoint=True).astype(DType.of(dtype).storage), dtype
        )

    def add(self, op: str, *xs: int, **attrs: Any) -> int:
        return self.g.add(op, xs, **attrs)

    def make(self, op: str, *xs: int, attrs: Attrs) -> int:
        return self.g.add_with(op, xs, attrs)

    def zero(self, dtype: str) -> int:
        """Returns a zero point: a random one for INT8, and 0 for other dtypes."""
        return self.of(-128, 0, 3, self.draw_between(-128, 127)) if dtype == "INT8" else 0

    def wide(self, x: int) -> int:
        """Adds a RESCALE to INT32."""
        return self.make("rescale", x, attrs=makers.rescale("INT32", in_zp=self.zero(self.dtype(x))))

    def narrow(self, x: int, down: int, dtype: str, **more: Any) -> int:
        """Adds a RESCALE of sums to INT8 or INT16, divided by 2**down to twice that, perhaps per channel."""
        count, bits = self.of(1, *self.shape(x)[-1:]), 15 if self.dtype(x) == "INT48" else 31
        scales = [self.draw_between(1 << bits - 1, (1 << bits) - 1) for _ in range(count)]
        how = {"out_zp": self.zero(dtype), "per_channel": count > 1, "scale32": bits == 31, **more}
        return self.make("rescale", x, attrs=makers.rescale(dtype, scales, [bits + down] * count, **how))

    def partner(self, x: int) -> int:
        """Returns a second operand for x: an equally shaped value, or a constant that may be broadcast."""
        alike = [v for v in self.values if self.g.type(v) == self.g.type(x)]
        return self.of(*alike, self.const(tuple(self.of(1, n) for n in self.shape(x)), self.dtype(x)))

    def four(self, x: int) -> int:
        """Returns x as [N, H, W, C]."""
        shape = (1, 1, 1, *self.shape(x))
        return x if len(shape) == 7 else self.add("reshape", x, shape=(prod(shape[:-3]), *shape[-3:]))

    def finish(self, *outputs: int) -> TensorGraph:
        """Returns the graph with these outputs, without what they do not need."""
        self.g.outputs, self.g.output_names = [*outputs], [f"y{i}" for i in range(len(outputs))]
        g = self.g.prune()
        readers = g.readers()
        g.inputs = [i for i in g.inputs if readers[i] or i in g.outputs]
        return g.prune()


def reshape(b: Builder, x: int) -> int:
    """Adds a RESHAPE that joins two axes or splits one."""
    shape, i = b.shape(x), b.axis(x)
    k = b.of(*(k for k in range(1, shape[i] + 1) if shape[i] % k == 0))
    split = (*shape[:i], k, shape[i] // k, *shape[i + 1 :])
    joined = (*shape[:i], prod(shape[i : i + 2]), *shape[i + 2 :])
    return b.add("reshape", x, shape=b.of(joined, split if len(shape) < 6 else joined))


def permute(b: Builder, x: int) -> int:
    """Adds a TRANSPOSE, often with an operator and the inverse TRANSPOSE."""
    perm = b.rng.permutation(len(b.shape(x))).tolist()
    y = b.add("transpose", x, perms=tuple(perm))
    return b.of(y, b.add("transpose", map_values(b, y), perms=tuple(np.argsort(perm).tolist())))


def cut(b: Builder, x: int) -> int:
    """Adds a SLICE along every axis."""
    size = tuple(b.draw_between(max(1, n - 2), n) for n in b.shape(x))
    start = tuple(b.draw_between(0, n - s) for n, s in zip(b.shape(x), size, strict=True))
    return b.add("slice", x, start=start, size=size)


def join(b: Builder, x: int) -> int:
    """Adds a CONCAT of x with a value of its shape, or of both parts of x in any order."""
    axis, n = b.axis(x), b.shape(x)
    if n[axis] == 1 or b.of(True, False):
        return b.add("concat", x, map_values(b, b.partner(x)), axis=axis)
    cut = b.draw_between(1, n[axis] - 1)
    parts = [
        b.add("slice", x, start=(*[0] * axis, at, *[0] * (len(n) - axis - 1)), size=(*n[:axis], size, *n[axis + 1 :]))
        for at, size in ((0, cut), (cut, n[axis] - cut))
    ]
    return b.add("concat", *b.of(parts, parts[::-1]), axis=axis)


def extend(b: Builder, x: int) -> int:
    """Adds a PAD, TILE or REVERSE."""
    pads = [b.of(0, 0, 1) for _ in range(2 * len(b.shape(x)))]
    low = DType.of(b.dtype(x)).limits[0]
    padded = b.make("pad", x, attrs=makers.pad(pads, b.of(low, 0, b.zero(b.dtype(x)))))
    tiled = b.add("tile", x, multiples=tuple(b.of(1, 1, 2) for _ in b.shape(x)))
    return b.of(padded, tiled, b.add("reverse", x, axis=b.axis(x)))


def map_values(b: Builder, x: int) -> int:
    """Adds an operator of one operand, with a result of its dtype."""
    low, op = (
        b.of(-128, 0, b.draw_between(-128, 60)),
        b.of("clamp", "clamp", "table", "rescale", "negate", "not", "cast"),
    )
    dtype, unit, other = (b.dtype(x), 1, "INT16") if b.dtype(x) == "INT8" else (b.dtype(x), 256, "INT32")
    if op == "clamp":
        return b.make(op, x, attrs=makers.clamp(dtype, unit * low, unit * b.of(127, b.draw_between(low, 127))))
    if op == "table" and dtype == "INT16":
        curve = np.round(16000 * np.tanh(np.arange(-256, 257) / b.draw_between(40, 200)))
        return b.narrow(b.make(op, x, attrs=makers.table(curve.tolist())), 7, dtype)
    if op == "table":
        smooth = np.round(127 * np.tanh(np.arange(-128, 128) / 40))
        return b.make(
            op, x, attrs=makers.table(b.of(smooth, b.rng.integers(-128, 128, 256), np.arange(-128, 128)).tolist())
        )
    if op == "rescale":
        return b.narrow(x, 0, dtype)
    if op == "negate":
        return b.add(op, x, in_zp=(b.zero(dtype),), out_zp=(b.zero(dtype),))
    y = b.add("cast", x, dtype=other) if op == "cast" else x
    return b.add("cast", y, dtype=dtype) if op == "cast" else b.add(b.of("bitwise_not", "identity"), x)


def combine(b: Builder, x: int) -> int:
    """Adds an operator of two operands: arithmetic on INT32 between RESCALEs, or a bitwise one."""
    op = b.of("add", "sub", "mul", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor")
    if op.startswith("bitwise"):
        return b.add(op, x, b.partner(x))
    attrs = {"mul": makers.mul(), "maximum": makers.extremum(), "minimum": makers.extremum()}.get(op, ())
    down = DType.of(b.dtype(x)).bits - 1 if op == "mul" else 1
    return b.narrow(b.make(op, b.wide(x), b.wide(b.partner(x)), attrs=attrs), down, b.dtype(x))


def compute(b: Builder, x: int) -> int:
    """Adds an operator of INT32 between RESCALEs that is rare in quantized networks."""
    op = b.of("abs", "clz", "intdiv", "logical_left_shift", "logical_right_shift", "arithmetic_right_shift")
    amount = () if op in ("abs", "clz") else (b.const((1,) * len(b.shape(x)), "INT32", 1, 5),)
    y = b.add(op, b.wide(x), *amount, **({"round": b.of(True, False)} if op[0:2] == "ar" else {}))
    return b.narrow(y, 1, b.dtype(x))


def choose(b: Builder, x: int) -> int:
    """Adds a SELECT by comparisons."""
    y = b.partner(x)
    masks = [b.add(b.of("equal", "greater", "greater_equal"), b.wide(x), b.wide(y)) for _ in range(2)]
    mask = b.of(masks[0], b.add(b.of("logical_and", "logical_or", "logical_xor"), *masks))
    mask = b.of(mask, b.add("logical_not", mask), b.add(b.of("reduce_any", "reduce_all"), mask, axis=b.axis(x)))
    return b.add("select", mask, *b.of((x, y), (y, x)))


def reduce(b: Builder, x: int) -> int:
    """Adds a reduction along an axis, or an ARGMAX."""
    op = b.of("reduce_sum", "reduce_sum", "reduce_max", "reduce_min", "argmax")
    if op == "reduce_sum":
        return b.narrow(b.add(op, b.wide(x), axis=b.axis(x)), 2, b.dtype(x))
    y = b.make(op, x, attrs=makers.extremum(b.axis(x)))
    return b.narrow(y, 0, b.dtype(x)) if op == "argmax" else y


def convolve(b: Builder, x: int) -> int:
    """Adds a convolution of any kind and its RESCALE."""
    y, op, dtype = b.four(x), b.of("conv2d", "conv2d", "depthwise_conv2d", "transpose_conv2d"), b.dtype(x)
    c, m, in_zp, w_zp = b.shape(y)[3], b.draw_between(1, 4), b.zero(dtype), b.of(0, 0, 5 if dtype == "INT8" else 0)
    kernel, pad = b.of((1, 1), (1, 1), (2, 1), (3, 3)), b.of(0, 1)
    weights = (*kernel, c, 1) if op == "depthwise_conv2d" else (m, *kernel, c)
    attrs = makers.conv(dtype, pad=(pad,) * 4, in_zp=in_zp, w_zp=w_zp)
    if op == "transpose_conv2d":
        attrs = makers.transpose_conv(dtype, stride=(b.of(1, 2), b.of(1, 2)), in_zp=in_zp, w_zp=w_zp)
    bias = b.const((c if op == "depthwise_conv2d" else m,), DType.of(dtype).accumulator, -3000, 3000)
    return b.narrow(b.make(op, y, b.const(weights), bias, attrs=attrs), 8, dtype)


def multiply(b: Builder, x: int) -> int:
    """Adds a MATMUL with a constant or the operand itself, transposed, and its RESCALE."""
    (n, h, w, c), dtype = b.shape(b.four(x)), b.dtype(x)
    rows = b.add("reshape", x, shape=(n * h, w, c))
    other = b.of(b.add("transpose", rows, perms=(0, 2, 1)), b.const((n * h, c, b.draw_between(1, 4)), dtype))
    y = b.make("matmul", rows, other, attrs=makers.matmul(b.zero(dtype), b.zero(dtype)))
    return b.narrow(y, DType.of(dtype).bits, dtype)


def pool(b: Builder, x: int) -> int:
    """Adds a pooling without padding."""
    y, kernel, zp = b.four(x), b.of((1, 2), (2, 1), (2, 2)), b.zero(b.dtype(x))
    largest = b.make("max_pool2d", y, attrs=makers.max_pool(kernel))
    return b.of(largest, b.make("avg_pool2d", y, attrs=makers.avg_pool(kernel, in_zp=zp, out_zp=zp)))


def resize(b: Builder, x: int) -> int:
    """Adds a RESIZE by 2, nearest or bilinear."""
    nearest = b.add("resize", b.four(x), scale=(2, 1, 2, 1), offset=(0, 0), border=(1, 1), mode=NEAREST)
    bilinear = b.add("resize", b.four(x), scale=(4, 2, 4, 2), offset=(-1, -1), border=(1, 1), mode=BILINEAR)
    return b.of(nearest, b.narrow(bilinear, 4, b.dtype(x)))


def pick(b: Builder, x: int) -> int:
    """Adds a GATHER of some rows, perhaps with a SCATTER of other values into the same rows."""
    n, h, w, c = b.shape(b.four(x))
    rows = np.stack([b.rng.permutation(h * w)[: max(1, h * w // 2)] for _ in range(n)]).astype(np.int32)
    values, indices = b.add("reshape", x, shape=(n, h * w, c)), b.g.add_const(rows, "INT32")
    picked = b.add("gather", values, indices)
    return b.of(picked, b.add("scatter", values, indices, map_values(b, picked)))


#: Blocks, each as often as its weight: they add operators that read an INT8 or INT16 value, and return the new value.
BLOCKS: tuple[Callable[[Builder, int], int], ...] = (
    *[map_values] * 7,
    *[permute, join, cut, extend, convolve] * 3,
    *[reshape, combine, choose, multiply] * 2,
    *[reduce, compute, pool, resize, pick],
)


def random_graph(seed: int) -> TensorGraph:
    """Returns the random graph of a seed. Its outputs are the newest value and, now and then, another one."""
    b = Builder(seed)
    wanted = b.draw_between(_FEWEST, _MOST)
    while sum(OPS[n.op].kind != "leaf" for n in b.g.prune().nodes) < wanted:
        _grow(b)
        b.g.outputs = [b.values[-1]]
    return b.finish(*dict.fromkeys([b.values[-1], b.of(b.values[-1], *b.values[1:])]))


def _grow(b: Builder) -> None:
    """Adds one random block, unless it does not fit or is too large; the nodes that it had added are not live then."""
    x = b.of(*[b.values[-1]] * 3, b.of(*b.values))
    try:
        y = b.of(*BLOCKS)(b, x)
    except GraphError:
        return
    if prod(b.shape(y)) <= _LARGEST:
        b.values.append(y)
