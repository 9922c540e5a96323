"""Small graphs of one operator each, and changes that keep their results.

The changes cost a device nothing, or a known little.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from eqsat.target.family import HWC
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph

#: Shapes (h, w, c) of the inputs, the largest first.
SHAPES: tuple[HWC, ...] = ((32, 32, 48), (16, 16, 48), (16, 16, 16), (8, 8, 16), (4, 4, 16), (1, 4, 16))

#: Adds operators behind a node of a graph, and returns the last of them.
_Step = Callable[[TensorGraph, int], int]


def _same(g: TensorGraph, x: int) -> int:
    """Adds nothing."""
    return x


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a graph.

    input: adds operators behind the first input.
    constant: adds operators behind a constant.
    result: adds operators in front of the output.
    swapped: whether the operands have the other order.
    """

    name: str
    input: _Step = _same
    constant: _Step = _same
    result: _Step = _same
    swapped: bool = False


def _clamp(g: TensorGraph, x: int) -> int:
    """Adds a CLAMP to all values of the dtype, if TOSA has one."""
    dtype = g.nodes[x].dtype
    return g.add_with("clamp", [x], makers.clamp(dtype)) if dtype in ("INT8", "INT16") else x


def _rescale(g: TensorGraph, x: int) -> int:
    """Adds a RESCALE by one, if the dtype is INT8 or INT16."""
    dtype = g.nodes[x].dtype
    return g.add_with("rescale", [x], makers.rescale(dtype)) if dtype in ("INT8", "INT16") else x


def _pool(g: TensorGraph, x: int) -> int:
    """Adds a MAX_POOL2D of 1x1, if the tensor can have one."""
    fits = len(g.nodes[x].shape) == 4 and g.nodes[x].dtype in ("INT8", "INT16")
    return g.add_with("max_pool2d", [x], makers.max_pool((1, 1))) if fits else x


def _concat(g: TensorGraph, x: int) -> int:
    """Adds a CONCAT of two halves, along the last axis of an even size."""
    shape = g.nodes[x].shape
    axes = [k for k, n in enumerate(shape) if n > 1 and n % 2 == 0]
    if not axes:
        return x
    size = tuple(n // 2 if k == axes[-1] else n for k, n in enumerate(shape))
    starts = (tuple(part * size[k] if k == axes[-1] else 0 for k in range(len(shape))) for part in (0, 1))
    return g.add("concat", [g.add("slice", [x], start=start, size=size) for start in starts], axis=axes[-1])


def _reshape(g: TensorGraph, x: int) -> int:
    """Adds a RESHAPE to another shape and one back."""
    shape = g.nodes[x].shape
    flat = g.add("reshape", [x], shape=(1, int(np.prod(shape[:-1])), 1, shape[-1]))
    return g.add("reshape", [flat], shape=shape)


#: The change that changes nothing.
UNCHANGED = Change("")
#: Operators that can be added, by their name in a change.
STEPS: dict[str, _Step] = {
    "CLAMP to all values": _clamp,
    "RESCALE by one": _rescale,
    "pool of 1x1": _pool,
    "CONCAT of its halves": _concat,
    "RESHAPE there and back": _reshape,
}
#: All changes.
CHANGES: tuple[Change, ...] = (
    *(
        Change(f"{name}, {place}", **{field: step})  # type: ignore[arg-type]
        for name, step in STEPS.items()
        for field, place in (
            ("input", "behind the input"),
            ("constant", "behind the constant"),
            ("result", "at the end"),
        )
    ),
    Change("operands in the other order", swapped=True),
)

#: Makes the graph of a shape with a change.
Maker = Callable[[HWC, Change], TensorGraph]
#: The graphs by name.
GRAPHS: dict[str, Maker] = {}


def _graph(name: str) -> Callable[[Maker], Maker]:
    def add(maker: Maker) -> Maker:
        GRAPHS[name] = maker
        return maker

    return add


def _constant(g: TensorGraph, shape: tuple[int, ...], dtype: str, change: Change) -> int:
    limit = 100 if dtype == "INT8" else 10_000
    values = np.random.default_rng(0).integers(-limit, limit, shape)
    return change.constant(g, g.add_const(values, dtype))


def _input(g: TensorGraph, shape: tuple[int, ...], change: Change, dtype: str = "INT8") -> int:
    return change.input(g, g.add_input("x", shape, dtype))


def _finished(g: TensorGraph, y: int, change: Change) -> TensorGraph:
    g.outputs, g.output_names = [change.result(g, y)], ["y"]
    return g


def _products(by: Callable[[HWC], tuple[int, ...]], dtype: str) -> Maker:
    """Returns a maker of graphs with two products of an input and a constant of the shape `by`.

    There are two so that one of them has a tensor of Vela's own on either side.
    """

    def make(shape: HWC, change: Change) -> TensorGraph:
        g = TensorGraph()
        y = _input(g, (1, *shape), change, dtype)
        for _ in range(2):
            operands = [y, _constant(g, by(shape), dtype, change)]
            wide = [g.add_with("rescale", [i], makers.rescale("INT32")) for i in operands]
            wide = wide[::-1] if change.swapped else wide
            product = g.add_with("mul", wide, makers.mul())
            y = g.add_with("rescale", [product], makers.rescale(dtype, 1 << 30, 37))
        return _finished(g, y, change)

    return make


#: Shapes of the second operand of a product, by their name in a graph.
_BY: dict[str, Callable[[HWC], tuple[int, ...]]] = {
    "one of each channel": lambda s: (1, 1, 1, s[2]),
    "a row": lambda s: (1, 1, s[1], s[2]),
    "a plane": lambda s: (1, s[0], s[1], 1),
    "one number": lambda s: (1, 1, 1, 1),
    "a whole tensor": lambda s: (1, *s),
}
for _dtype in ("INT8", "INT16"):
    for _what, _by in _BY.items():
        GRAPHS[f"products of {_dtype} by {_what}"] = _products(_by, _dtype)


@_graph("product by a mean of each channel")
def scaled_by_its_mean(shape: HWC, change: Change) -> TensorGraph:
    g = TensorGraph()
    x, factor = _input(g, (1, *shape), change), g.add_input("factor", (1, 1, 1, shape[2]), "INT8")
    wide = [g.add_with("rescale", [i], makers.rescale("INT32")) for i in (x, factor)]
    product = g.add_with("mul", wide[::-1] if change.swapped else wide, makers.mul())
    return _finished(g, g.add_with("rescale", [product], makers.rescale("INT8", 1 << 30, 37)), change)


@_graph("maximum with one of each channel")
def maximum(shape: HWC, change: Change) -> TensorGraph:
    g = TensorGraph()
    operands = [_input(g, (1, *shape), change), _constant(g, (1, 1, 1, shape[2]), "INT8", change)]
    wide = [g.add_with("rescale", [i], makers.rescale("INT32")) for i in operands]
    most = g.add_with("maximum", wide[::-1] if change.swapped else wide, makers.extremum())
    return _finished(g, g.add_with("rescale", [most], makers.rescale("INT8")), change)


def _convolution(kernel: int, dilation: int = 1, depthwise: bool = False) -> Maker:
    def make(shape: HWC, change: Change) -> TensorGraph:
        g = TensorGraph()
        x = _input(g, (1, *shape), change)
        channels, pad = shape[2], kernel // 2 * dilation
        form = (kernel, kernel, channels, 1) if depthwise else (channels, kernel, kernel, channels)
        weights = g.add_const(np.random.default_rng(1).integers(-127, 128, form), "INT8")
        bias = g.add_const(np.arange(channels), "INT32")
        attrs = makers.conv("INT8", pad=(pad,) * 4, dilation=(dilation,) * 2)
        y = g.add_with("depthwise_conv2d" if depthwise else "conv2d", [x, weights, bias], attrs)
        return _finished(g, g.add_with("rescale", [y], makers.rescale("INT8", 1 << 30, 38)), change)

    return make


GRAPHS["convolution 1x1"] = _convolution(1)
GRAPHS["convolution 3x3"] = _convolution(3)
GRAPHS["convolution 3x3, dilated by 4"] = _convolution(3, 4)
GRAPHS["depthwise convolution 3x3"] = _convolution(3, depthwise=True)


@_graph("four products of one matrix")
def shared_weights(shape: HWC, change: Change) -> TensorGraph:
    """Returns four products in a row of one position of eight times the channels, by one matrix.

    The time steps of a recurrence are such products; their weights are in SRAM once.
    """
    g = TensorGraph()
    channels = 8 * shape[2]
    y = _input(g, (1, 1, 1, channels), change)
    weights = g.add_const(np.random.default_rng(1).integers(-127, 128, (channels, 1, 1, channels)), "INT8")
    bias = g.add_const(np.arange(channels), "INT32")
    for _ in range(4):
        product = g.add_with("conv2d", [y, weights, bias], makers.conv("INT8"))
        y = g.add_with("rescale", [product], makers.rescale("INT8", 1 << 30, 38))
    return _finished(g, y, change)


def _single(op: Callable[[TensorGraph, int], int], dtype: str = "INT8") -> Maker:
    def make(shape: HWC, change: Change) -> TensorGraph:
        g = TensorGraph()
        return _finished(g, op(g, _input(g, (1, *shape), change, dtype)), change)

    return make


def _reduced(g: TensorGraph, x: int, axis: int) -> int:
    """Adds a sum over an axis, between RESCALEs to INT32 and back."""
    wide = g.add_with("rescale", [x], makers.rescale("INT32"))
    return g.add_with("rescale", [g.add("reduce_sum", [wide], axis=axis)], makers.rescale("INT8", 1 << 30, 35))


def _each_channel(g: TensorGraph, x: int) -> int:
    """Adds a RESCALE by factors that all differ."""
    channels = g.nodes[x].shape[-1]
    return g.add_with(
        "rescale", [x], makers.rescale("INT8", [(1 << 30) - 1000 * k for k in range(channels)], [31] * channels)
    )


def _transposed(perms: tuple[int, ...]) -> Maker:
    return _single(lambda g, x: g.add("transpose", [x], perms=perms))


for _perms in ((0, 1, 3, 2), (0, 2, 1, 3), (0, 3, 2, 1), (0, 2, 3, 1), (0, 3, 1, 2)):
    GRAPHS[f"transpose {_perms}"] = _transposed(_perms)
GRAPHS |= {
    "table": _single(lambda g, x: g.add_with("table", [x], makers.table([k // 2 for k in range(-128, 128)]))),
    "clamp": _single(lambda g, x: g.add_with("clamp", [x], makers.clamp("INT8", -100, 100))),
    "average pool 2x2": _single(lambda g, x: g.add_with("avg_pool2d", [x], makers.avg_pool((2, 2)))),
    "max pool 2x2": _single(lambda g, x: g.add_with("max_pool2d", [x], makers.max_pool((2, 2)))),
    "sum over columns": _single(lambda g, x: _reduced(g, x, 2)),
    "sum over channels": _single(lambda g, x: _reduced(g, x, 3)),
    "maximum over columns": _single(lambda g, x: g.add_with("reduce_max", [x], makers.extremum(2))),
    "conversion to INT16": _single(lambda g, x: g.add_with("rescale", [x], makers.rescale("INT16", 1 << 30, 28))),
    "conversion to INT32": _single(lambda g, x: g.add_with("rescale", [x], makers.rescale("INT32", 1 << 30, 26))),
    "rescale of each channel": _single(_each_channel),
    "padding": _single(lambda g, x: g.add_with("pad", [x], makers.pad((0, 0, 1, 1, 1, 1, 0, 0), 3))),
    "slice of odd channels": _single(
        lambda g, x: g.add("slice", [x], start=(0, 0, 0, 1), size=(*g.nodes[x].shape[:3], g.nodes[x].shape[3] - 1))
    ),
    "concat with itself": _single(lambda g, x: g.add("concat", [x, x], axis=3)),
    "resize twice": _single(
        lambda g, x: g.add("resize", [x], scale=(4, 2, 4, 2), offset=(0, 0), border=(2, 2), mode=1)
    ),
}


@_graph("matmul")
def matmul(shape: HWC, change: Change) -> TensorGraph:
    g = TensorGraph()
    h, w, c = shape
    x = change.input(g, g.add_input("x", (1, h * w, c), "INT8"))
    product = g.add_with("matmul", [x, g.add_input("b", (1, c, 16), "INT8")], makers.matmul())
    return _finished(g, g.add_with("rescale", [product], makers.rescale("INT8", 1 << 30, 38)), change)


@_graph("gather of all rows")
def gather(shape: HWC, change: Change) -> TensorGraph:
    g = TensorGraph()
    h, w, c = shape
    x = change.input(g, g.add_input("x", (1, h * w, c), "INT8"))
    rows = g.add_const(np.arange(h * w)[None, ::-1].copy(), "INT32")
    return _finished(g, g.add("gather", [x, rows]), change)
