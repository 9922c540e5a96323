"""Pairs of graphs that are nearly equal, each with an input on which they differ, of the kinds that samples drawn
without regard to the graph
miss: sums near their extremes, single codes of INT16, values that must meet, one unit before a large downscale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from eqsat.tensor import makers
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from tests.graphs import clamp, finish, rescale, transpose

#: Adds a graph's operators behind its inputs; the output.
Build = Callable[..., int]


@dataclass(frozen=True)
class Pair:
    """Two graphs of the same inputs, and values of these on which they differ."""

    name: str
    source: TensorGraph
    found: TensorGraph
    witness: list[np.ndarray]


PAIRS: list[Pair] = []


def pair(
    name: str, inputs: Sequence[tuple[tuple[int, ...], str]], source: Build, found: Build, *witness: np.ndarray | int
) -> None:
    graphs = []
    for build in (source, found):
        g = TensorGraph()
        given = [g.add_input(f"x{k}", shape, dtype) for k, (shape, dtype) in enumerate(inputs)]
        graphs.append(finish(g, build(g, *given)))
    values = [
        np.broadcast_to(np.asarray(w, DType.of(dtype).storage), shape).copy()
        for w, (shape, dtype) in zip(witness, inputs, strict=True)
    ]
    PAIRS.append(Pair(name, graphs[0], graphs[1], values))


def wide(g: TensorGraph, value: int, rank: int = 4) -> int:
    return g.add_const(np.full((1,) * rank, value), "INT32")


# ---- a: sums near their extremes ------------------------------------------------------------------

RNG = np.random.default_rng(7)
WEIGHTS = RNG.integers(-40, 41, (16, 1, 1, 64))
#: Of channel 3; the largest of all sums, rounded up to a power of two.
ALIGNED = np.where(WEIGHTS[3, 0, 0] > 0, 127, -128)
BITS = int(np.ceil(np.log2(np.abs(WEIGHTS).sum((1, 2, 3)).max() * 128)))
INPUT = ((1, 8, 8, 64), "INT8")


def sums(g: TensorGraph, x: int, weights: np.ndarray = WEIGHTS, bias: int = 0, **attrs: object) -> int:
    w, b = g.add_const(weights, "INT8"), g.add_const(np.full(len(weights), bias), "INT32")
    return g.add_with("conv2d", (x, w, b), makers.conv("INT8", **attrs))


def narrowed(g: TensorGraph, x: int, dtype: str = "INT8", bits: int = BITS, **more: int) -> int:
    """So that sums of that many bits about fill the dtype."""
    return rescale(g, x, dtype, shift=(30 + bits + 1 - DType.of(dtype).bits,), **more)


pair(
    "a clamp behind a convolution dropped",
    [INPUT],
    lambda g, x: clamp(g, narrowed(g, sums(g, x)), -40, 40),
    lambda g, x: narrowed(g, sums(g, x)),
    ALIGNED,
)
pair(
    "a cast for a RESCALE that saturates",
    [INPUT],
    lambda g, x: rescale(g, rescale(g, sums(g, x), "INT16", shift=(31,)), "INT8", shift=(38,)),
    lambda g, x: rescale(
        g, g.add("cast", [rescale(g, sums(g, x), "INT32", shift=(31,))], dtype="INT16"), "INT8", shift=(38,)
    ),
    np.where(WEIGHTS[np.abs(WEIGHTS).sum((1, 2, 3)).argmax(), 0, 0] > 0, 127, -128),
)


def in_halves(g: TensorGraph, x: int) -> int:
    """The sum of the sums over either half of the channels, each within 16 bits."""
    parts = []
    for k in (0, 32):
        part = g.add("slice", [x], start=(0, 0, 0, k), size=(1, 8, 8, 32))
        short = rescale(g, sums(g, part, WEIGHTS[..., k : k + 32]), "INT16", multiplier=(3 << 28,), shift=(29,))
        parts.append(rescale(g, short, "INT32"))
    return rescale(g, g.add("add", parts), "INT8", shift=(41,))


def whole(g: TensorGraph, x: int) -> int:
    parts = []
    for k in (0, 32):
        part = g.add("slice", [x], start=(0, 0, 0, k), size=(1, 8, 8, 32))
        parts.append(rescale(g, sums(g, part, WEIGHTS[..., k : k + 32]), "INT32", multiplier=(3 << 28,), shift=(29,)))
    return rescale(g, g.add("add", parts), "INT8", shift=(41,))


HALF = int(np.abs(WEIGHTS[..., :32]).sum((1, 2, 3)).argmax())
pair(
    "halves of a sum that saturate",
    [INPUT],
    whole,
    in_halves,
    np.concatenate([np.where(WEIGHTS[HALF, 0, 0, :32] > 0, 127, -128), np.zeros(32)]),
)


def depthwise(g: TensorGraph, x: int) -> int:
    w, b = g.add_const(DEEP, "INT8"), g.add_const(np.zeros(8), "INT32")
    return narrowed(g, g.add_with("depthwise_conv2d", (x, w, b), makers.conv("INT8")), bits=18)


DEEP = RNG.integers(-40, 41, (7, 7, 8, 1))
pair(
    "a clamp behind a depthwise convolution dropped",
    [((1, 7, 7, 8), "INT8")],
    lambda g, x: clamp(g, depthwise(g, x), -40, 40),
    depthwise,
    np.where(DEEP[..., 0] > 0, 127, -128),
)
MATRIX = RNG.integers(-40, 41, (1, 96, 6))


def product(g: TensorGraph, x: int) -> int:
    return narrowed(g, g.add_with("matmul", (x, g.add_const(MATRIX, "INT8")), makers.matmul(3, 0)), bits=19)


pair(
    "a clamp behind a product with a constant matrix dropped",
    [((1, 5, 96), "INT8")],
    lambda g, x: clamp(g, product(g, x), -38, 38),
    product,
    np.where(MATRIX[0, :, 1] > 0, 127, -128),
)
WINDOW = RNG.integers(-40, 41, (4, 3, 3, 16))


def windowed(g: TensorGraph, x: int) -> int:
    y = transpose(g, rescale(g, x, "INT8", shift=(30,), in_zp=5, out_zp=5), 0, 2, 3, 1)
    return narrowed(g, sums(g, y, WINDOW, pad=(1, 1, 1, 1), stride=(2, 2), in_zp=5), bits=19)


pair(
    "a clamp behind a strided convolution of what was moved dropped",
    [((1, 16, 9, 9), "INT8")],
    lambda g, x: clamp(g, windowed(g, x), -40, 40),
    windowed,
    np.tile(np.where(WINDOW[1] > 0, 127, -128).transpose(2, 0, 1), (1, 3, 3))[None],
)
pair(
    "a limit of sums dropped",
    [INPUT],
    lambda g, x: narrowed(g, g.add_with("minimum", [sums(g, x), wide(g, 9 * 128 * 80)], makers.extremum())),
    lambda g, x: narrowed(g, sums(g, x)),
    ALIGNED,
)

# ---- b: single codes of INT16 ---------------------------------------------------------------------

SHORT = ((1, 4, 4, 4), "INT16")


def chosen(g: TensorGraph, condition: int, x: int) -> int:
    return g.add("select", [condition, clamp(g, x, -999, 999), clamp(g, x, -5, 20000)])


pair(
    "not (k > x) as x > k",
    [SHORT],
    lambda g, x: chosen(g, g.add("logical_not", [g.add("greater", [wide(g, 12345), rescale(g, x, "INT32")])]), x),
    lambda g, x: chosen(g, g.add("greater", [rescale(g, x, "INT32"), wide(g, 12345)]), x),
    12345,
)
pair(
    "a choice on one value dropped",
    [SHORT],
    lambda g, x: chosen(g, g.add("equal", [rescale(g, x, "INT32"), wide(g, -777)]), x),
    lambda g, x: clamp(g, x, -5, 20000),
    -777,
)
pair(
    "x >= k as x > k, behind a scale",
    [SHORT],
    lambda g, x: chosen(g, g.add("greater_equal", [rescale(g, x, "INT32", shift=(28,)), wide(g, 4 * 4321)]), x),
    lambda g, x: chosen(g, g.add("greater", [rescale(g, x, "INT32", shift=(28,)), wide(g, 4 * 4321)]), x),
    4321,
)
pair(
    "a square that has one value",
    [SHORT],
    lambda g, x: chosen(g, g.add("equal", [g.add_with("mul", [x, x], makers.mul()), wide(g, 9241**2)]), x),
    lambda g, x: clamp(g, x, -5, 20000),
    9241,
)
pair(
    "a choice on one value, moved",
    [SHORT],
    lambda g, x: transpose(
        g,
        chosen(
            g,
            g.add("equal", [rescale(g, transpose(g, x, 0, 3, 1, 2), "INT32"), wide(g, 4000)]),
            transpose(g, x, 0, 3, 1, 2),
        ),
        0,
        2,
        3,
        1,
    ),
    lambda g, x: clamp(g, x, -5, 20000),
    4000,
)
pair(
    "bits that are set together",
    [SHORT],
    lambda g, x: chosen(
        g,
        g.add("equal", [g.add("bitwise_and", [rescale(g, x, "INT32"), wide(g, 0x7FFF)]), wide(g, 0x5A5A)]),
        x,
    ),
    lambda g, x: clamp(g, x, -5, 20000),
    0x5A5A,
)

# ---- c: values that must meet ---------------------------------------------------------------------


def met(g: TensorGraph, values: Sequence[tuple[int, int]]) -> int:
    """Whether each input has its value."""
    conditions = [g.add("equal", [rescale(g, x, "INT32"), wide(g, k)]) for x, k in values]
    out = conditions[0]
    for c in conditions[1:]:
        out = g.add("logical_and", [out, c])
    return out


def where_met(*values: int) -> Build:
    def build(g: TensorGraph, *xs: int) -> int:
        return chosen(g, met(g, list(zip(xs, values, strict=True))), xs[0])

    return build


def without_meeting(g: TensorGraph, *xs: int) -> int:
    """All inputs stay read."""
    return clamp(g, xs[0], -5, 20000)


def in_one_byte(*values: int) -> Build:
    def build(g: TensorGraph, *xs: int) -> int:
        y = g.add("select", [met(g, list(zip(xs, values, strict=True))), clamp(g, xs[1], -9, 9), xs[0]])
        return clamp(g, y, -100, 100)

    return build


pair("two shorts that meet", [SHORT] * 2, where_met(-4321, 1234), without_meeting, -4321, 1234)
pair("three shorts that meet", [SHORT] * 3, where_met(-4321, 1234, 99), without_meeting, -4321, 1234, 99)
BYTE = ((1, 4, 4, 4), "INT8")
pair(
    "three bytes that meet",
    [BYTE] * 3,
    in_one_byte(50, 61, -72),
    lambda g, *xs: clamp(g, xs[0], -100, 100),
    50,
    61,
    -72,
)


def above(g: TensorGraph, x: int, y: int, op: str) -> int:
    """x, where x is above 3000 and y is `op` of -2500."""
    is_above = g.add("greater", [rescale(g, x, "INT32"), wide(g, 3000)])
    is_there = g.add(op, [rescale(g, y, "INT32", shift=(31,)), wide(g, -1250)])
    return chosen(g, g.add("logical_and", [is_above, is_there]), x)


pair(
    "one value of a limit beside another one",
    [SHORT] * 2,
    lambda g, x, y: above(g, x, y, "greater"),
    lambda g, x, y: above(g, x, y, "greater_equal"),
    3001,
    -2500,
)
pair(
    "x = y in two shorts",
    [SHORT] * 2,
    lambda g, x, y: chosen(g, g.add("greater", [rescale(g, x, "INT32"), rescale(g, y, "INT32")]), x),
    lambda g, x, y: chosen(g, g.add("greater_equal", [rescale(g, x, "INT32"), rescale(g, y, "INT32")]), x),
    5000,
    5000,
)

# ---- d: one unit before a large downscale -----------------------------------------------------------

FEW = RNG.integers(-60, 61, (2, 3, 3, 4))


def downscaled(g: TensorGraph, x: int, weights: np.ndarray = FEW, bias: int = 0, **attrs: object) -> int:
    return narrowed(g, sums(g, x, weights, bias, **attrs), bits=20)


def unit(name: str, shape: tuple[int, ...], source: Build, found: Build) -> None:
    """Of INT8; the witness is looked for among many inputs."""
    pair(name, [(shape, "INT8")], source, found, 0)
    a, b = PAIRS[-1].source, PAIRS[-1].found
    rng = np.random.default_rng(1)
    while (a.evaluate(PAIRS[-1].witness)[0] == b.evaluate(PAIRS[-1].witness)[0]).all():
        PAIRS[-1].witness[0] = rng.integers(-128, 128, shape).astype(np.int8)


unit(
    "a bias one off",
    (1, 3, 3, 4),
    lambda g, x: downscaled(g, x, bias=100),
    lambda g, x: downscaled(g, x, bias=101),
)


def padded(value: int, by_itself: bool = True) -> Build:
    """Above and to the left, as the convolution pads or by a PAD with a value; the convolution's zero point is -3."""

    def build(g: TensorGraph, x: int) -> int:
        if not by_itself:
            return downscaled(g, x, FEW[..., :1], pad=(1, 0, 1, 0), in_zp=value)
        y = g.add_with("pad", [x], makers.pad((0, 0, 1, 0, 1, 0, 0, 0), value))
        return downscaled(g, y, FEW[..., :1], in_zp=-3)

    return build


unit("padding one off", (1, 3, 3, 1), padded(0), padded(1))
unit("padding folded into a convolution with another zero point", (1, 3, 3, 1), padded(-4), padded(-3, False))


def largest(padding: int | None) -> Build:
    """Of entries of a table that are -50 or more, but for one."""

    def build(g: TensorGraph, x: int) -> int:
        entries = [-60 if k == 77 else max(-50, k // 2) for k in range(-128, 128)]
        y = g.add_with("table", [x], makers.table(entries))
        if padding is not None:
            y = g.add_with("pad", [y], makers.pad((0, 0, 0, 1, 0, 0, 0, 0), padding))
        return clamp(g, g.add_with("reduce_max", [y], makers.extremum(1)), -100, 100)

    return build


pair("a largest one over padding", [((1, 6, 2, 2), "INT8")], largest(None), largest(-50), 77)
