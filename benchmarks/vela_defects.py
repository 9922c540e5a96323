"""Graphs that Vela compiles wrongly, as small as they become: which of them the installed version still does.

    python -m benchmarks.vela_defects [-t ethos-u55-128 ...]

Each is compiled, run on the functional model and compared with the TOSA reference model (`docs/vela-defects.md`).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np

from eqsat.device.verification import Verdict, verify
from eqsat.target import Target
from eqsat.target.families import U85
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.flatbuffer import dumps
from eqsat.workers.worker import Worker, WorkerError

_ONE = 1 << 30
_BOTH = ("5.1", "5.2")


@dataclass(frozen=True, slots=True)
class Defect:
    """graph: what is compiled. title: what is wrong, in a line. wrong, wrong_u85: the versions of Vela that were seen to do it for U55 and U65, and for
    U85; none where it was reported, or suspected, and does not show. only_u85: Vela refuses the graph for the others. patterns: where it may be in
    other graphs (`benchmarks/device/explain.py`), none where random graphs have not met it."""

    title: str
    graph: Callable[[], TensorGraph]
    wrong: tuple[str, ...]
    wrong_u85: tuple[str, ...]
    only_u85: bool
    patterns: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.graph.__name__

    def wrong_on(self, target: Target) -> tuple[str, ...]:
        return self.wrong_u85 if target.family is U85 else self.wrong


DEFECTS: list[Defect] = []


def _defect(
    title: str, *wrong: str, u85: tuple[str, ...] = (), only_u85: bool = False, patterns: tuple[str, ...] = ()
) -> Callable[[Callable[[], TensorGraph]], Callable[[], TensorGraph]]:
    def add(graph: Callable[[], TensorGraph]) -> Callable[[], TensorGraph]:
        DEFECTS.append(Defect(title, graph, wrong, u85, only_u85, patterns))
        return graph

    return add


def _finished(g: TensorGraph, *outputs: int) -> TensorGraph:
    g.outputs, g.output_names = list(outputs), [f"y{k}" for k in range(len(outputs))]
    return g


def _rescale(g: TensorGraph, x: int, dtype: str, multiplier: int = _ONE, shift: int = 30, **more: object) -> int:
    return g.add_with("rescale", [x], makers.rescale(dtype, multiplier, shift, **more))  # type: ignore[arg-type]


def _conv2d(g: TensorGraph, x: int, channels: int, kernel: int, pad: tuple[int, int, int, int]) -> int:
    depth = g.nodes[x].shape[-1]
    values = np.arange(channels * kernel * kernel * depth) % 7 - 3
    w = g.add_const(values.reshape(channels, kernel, kernel, depth).astype(np.int8), "INT8")
    b = g.add_const(np.zeros(channels, np.int32), "INT32")
    return g.add_with("conv2d", [x, w, b], makers.conv("INT8", pad=pad))


@_defect(
    "REDUCE_MIN of a tensor that another reads in another shape: it goes wrong as `minimum_in_another_shape` does",
    *_BOTH,
    # first, for patterns of others are in its graphs too
    patterns=("reduce_min + reshape|transpose",),
)
def minimum_beside_another_shape() -> TensorGraph:
    g = TensorGraph()
    x = g.add_input("x", (6, 10), "INT8")
    least = g.add_with("reduce_min", [x], makers.extremum(1))
    y = g.add("reshape", (x,), shape=(6, 2, 5))
    return _finished(g, least, g.add_with("clamp", [y], makers.clamp("INT8", -50, 90)))


@_defect(
    "two convolutions of equal weights and scales: the second gets the first one's biases", "5.1", "5.2", u85=_BOTH
)
def equal_weights() -> TensorGraph:
    g = TensorGraph()
    y = g.add_input("x", (1, 4, 4, 8), "INT8")
    weights = np.full((8, 1, 1, 8), 3)
    for bias in (100, -700):
        operands = [y, g.add_const(weights, "INT8"), g.add_const(np.full(8, bias), "INT32")]
        y = _rescale(g, g.add_with("conv2d", operands, makers.conv("INT8")), "INT8", _ONE, 34)
    return _finished(g, y)


@_defect(
    "a pointwise convolution of several images with an activation behind it: one order read, another written",
    "5.1",
    u85=("5.1",),
    patterns=("conv2d > rescale > clamp|table",),
)
def activation_of_several_images() -> TensorGraph:
    g = TensorGraph()
    y = _rescale(g, _conv2d(g, g.add_input("x", (2, 1, 8, 64), "INT8"), 16, 1, (0, 0, 0, 0)), "INT8", _ONE, 36)
    return _finished(g, g.add_with("clamp", [y], makers.clamp("INT8", 0, 90)))


@_defect(
    "a TRANSPOSE that is an output, and that only another TRANSPOSE reads: it is no output of the binary",
    "5.1",
    "5.2",
    u85=_BOTH,
    patterns=(
        "transpose|reshape > transpose",
        "reshape > transpose > transpose",
        "reshape > transpose > table > transpose",
    ),
)
def lost_output() -> TensorGraph:
    g = TensorGraph()
    x = g.add_with("clamp", [g.add_input("x", (1, 4, 4, 8), "INT8")], makers.clamp("INT8", 0, 90))
    y = g.add("transpose", [x], perms=(0, 3, 1, 2))
    again = g.add("transpose", [y], perms=(0, 2, 3, 1))
    return _finished(g, y, g.add_with("clamp", [again], makers.clamp("INT8", 0, 50)))


@_defect("x + x of one tensor, each side rescaled by the 2**20 that ExecuTorch uses (executorch issue 21151)")
def sum_with_itself() -> TensorGraph:
    g = TensorGraph()
    x = _rescale(g, g.add_input("x", (1, 4, 4, 8), "INT8"), "INT32", _ONE, 10)
    return _finished(g, _rescale(g, g.add("add", (x, x)), "INT8", _ONE, 51))


@_defect("a sum whose operands are rescaled by the same factor")
def sum_of_equal_scales() -> TensorGraph:
    g = TensorGraph()
    a, b = (_rescale(g, g.add_input(n, (1, 4, 4, 8), "INT8"), "INT32", _ONE, 10) for n in "ab")
    return _finished(g, _rescale(g, g.add("add", (a, b)), "INT8", _ONE, 51))


@_defect("a sum whose larger factor is not 2**19, which the hardware has built in")
def sum_of_large_scales() -> TensorGraph:
    g = TensorGraph()
    a, b = (
        _rescale(g, g.add_input(n, (1, 4, 4, 8), "INT8"), "INT32", m, 10)
        for n, m in (("a", _ONE), ("b", 3 * _ONE // 4))
    )
    return _finished(g, _rescale(g, g.add("add", (a, b)), "INT8", _ONE, 51))


@_defect("a RESCALE to INT32 with two readers (executorch issue 21415)")
def shared_rescale() -> TensorGraph:
    g = TensorGraph()
    x = _rescale(g, g.add_input("x", (1, 4, 4, 8), "INT8"), "INT32", _ONE, 11, in_zp=3)
    y = _rescale(g, g.add_input("y", (1, 4, 4, 8), "INT8"), "INT32", 3 << 28, 11)
    sums = (g.add(op, operands) for op, operands in (("add", (x, y)), ("sub", (y, x))))
    return _finished(g, *(_rescale(g, n, "INT8", _ONE, 50) for n in sums))


@_defect("a RESCALE to INT32 read by a sum and a maximum")
def shared_rescale_of_unlike_readers() -> TensorGraph:
    g = TensorGraph()
    x = _rescale(g, g.add_input("x", (1, 4, 4, 8), "INT8"), "INT32", in_zp=3)
    y = _rescale(g, g.add_input("y", (1, 4, 4, 8), "INT8"), "INT32", in_zp=-5)
    most = g.add_with("maximum", [x, y], makers.extremum())
    return _finished(g, *(_rescale(g, n, "INT8", _ONE, 32) for n in (g.add("add", (x, y)), most)))


@_defect("a RESCALE to INT32 read by a sum over channels and by a product")
def shared_rescale_of_a_mean() -> TensorGraph:
    g = TensorGraph()
    x = _rescale(g, g.add_input("x", (1, 4, 4, 8), "INT8"), "INT32", in_zp=3)
    squares = g.add_with("mul", [x, x], makers.mul())
    total = g.add("reduce_sum", (x,), axis=3)
    return _finished(g, _rescale(g, squares, "INT8", _ONE, 38), _rescale(g, total, "INT8", _ONE, 33))


@_defect("RESCALE from INT32 to INT32")
def wide_rescale() -> TensorGraph:
    g = TensorGraph()
    x = _rescale(g, g.add_input("x", (1, 4, 4, 8), "INT8"), "INT32", in_zp=3)
    x = g.add("add", (x, _rescale(g, g.add_input("y", (1, 4, 4, 8), "INT8"), "INT32")))
    return _finished(g, _rescale(g, _rescale(g, x, "INT32", _ONE, 26), "INT8", _ONE, 35))


@_defect(
    "MAX_POOL2D and a RESCALE behind it, in one operation that does not scale",
    "5.0",
    "5.1",
    patterns=("max_pool2d|reduce_max > rescale",),
)
def scaled_maximum() -> TensorGraph:
    g = TensorGraph()
    x = g.add_input("x", (1, 8, 8, 8), "INT8")
    y = g.add_with("max_pool2d", [x], makers.max_pool((2, 2), stride=(2, 2)))
    return _finished(g, _rescale(g, y, "INT8", _ONE, 31))


@_defect(
    "a padded convolution of several images, of some channels of its input: all padding goes below and to the right",
    "5.0",
    "5.1",
    "5.2",
    u85=_BOTH,
    patterns=("slice > conv2d|depthwise_conv2d|avg_pool2d|max_pool2d",),
)
def padded_convolution_of_a_slice() -> TensorGraph:
    g = TensorGraph()
    x = g.add("slice", (g.add_input("x", (2, 4, 4, 4), "INT8"),), start=(0, 0, 0, 1), size=(2, 4, 4, 3))
    return _finished(g, _rescale(g, _conv2d(g, x, 8, 3, (1, 1, 1, 1)), "INT8", _ONE, 37))


@_defect(
    "a RESCALE to INT32 of a slice: the second of its two operations reads the shape of the whole tensor, and writes beyond its own",
    "5.2",
    patterns=("slice > rescale:INT32",),
)
def wide_rescale_of_a_slice() -> TensorGraph:
    g = TensorGraph()
    x = g.add("slice", (g.add_input("x", (1, 12, 12), "INT8"),), start=(0, 0, 7), size=(1, 12, 4))
    return _finished(g, _rescale(g, x, "INT32", in_zp=3))


@_defect(
    "a RESCALE to INT32 of a padded tensor: all parts are written to its beginning",
    "5.2",
    patterns=("pad > rescale:INT32",),
)
def wide_rescale_of_a_pad() -> TensorGraph:
    g = TensorGraph()
    x = g.add_with("pad", [g.add_input("x", (14,), "INT8")], makers.pad((1, 1), 0))
    return _finished(g, _rescale(g, x, "INT32"))


@_defect(
    "a sum (product, extremum) of one element, first, and a tensor of five axes: operands are not exchanged",
    "5.0",
    "5.1",
    "5.2",
    patterns=("add|sub|mul|maximum|minimum:INT32",),
)
def constant_first() -> TensorGraph:
    g = TensorGraph()
    c = g.add_const(np.full((1, 1, 1, 1, 1), 5, np.int32), "INT32")
    return _finished(g, g.add("add", (c, g.add_input("x", (1, 12, 2, 4, 2), "INT32"))))


@_defect(
    "a RESCALE to unsigned behind one to INT8: clamped as INT8", "5.2", u85=("5.2",), patterns=("rescale > rescale",)
)
def unsigned_rescale() -> TensorGraph:
    g = TensorGraph()
    x = _rescale(g, g.add_input("x", (8, 7), "INT32"), "INT8", _ONE, 36)
    return _finished(g, _rescale(g, x, "INT8", out_zp=-128, output_unsigned=True))


@_defect(
    "TRANSPOSE_CONV2D with a stride of 2 and more rows below: they overwrite the first",
    "5.2",
    patterns=("transpose_conv2d",),
)
def transposed_convolution_with_output_padding() -> TensorGraph:
    g = TensorGraph()
    x = g.add_input("x", (1, 1, 1, 6), "INT8")
    w = g.add_const(np.arange(1, 7, dtype=np.int8).reshape(1, 1, 1, 6), "INT8")
    b = g.add_const(np.zeros(1, np.int32), "INT32")
    y = g.add_with(
        "transpose_conv2d", [x, w, b], makers.transpose_conv("INT8", out_pad=(0, 0, 1, 0), stride=(2, 1), in_zp=-128)
    )
    return _finished(g, _rescale(g, y, "INT8", _ONE, 37))


@_defect(
    "REDUCE_MAX of some channels: it reads all of the tensor",
    "5.0",
    "5.1",
    "5.2",
    u85=_BOTH,
    patterns=(
        "slice > reduce_max|reduce_min",
        "reduce_max|reduce_min > concat|pad",
    ),
)
def maximum_of_a_slice() -> TensorGraph:
    g = TensorGraph()
    x = g.add("slice", (g.add_input("x", (6, 10), "INT8"),), start=(4, 0), size=(2, 10))
    return _finished(g, g.add_with("reduce_max", [x], makers.extremum(1)))


@_defect(
    "REDUCE_SUM along the last axis of a slice: it reads the tensor from its first element",
    "5.1",
    "5.2",
    u85=_BOTH,
    patterns=("slice > reduce_sum", "slice > rescale > reduce_sum"),
)
def sum_of_a_slice() -> TensorGraph:
    g = TensorGraph()
    x = g.add("slice", (g.add_input("x", (1, 6, 8, 16), "INT8"),), start=(0, 2, 0, 0), size=(1, 4, 8, 16))
    return _finished(g, _rescale(g, g.add("reduce_sum", (_rescale(g, x, "INT32"),), axis=3), "INT8", _ONE, 34))


@_defect(
    "MATMUL of some of the matrices of a tensor: all products read the first",
    "5.0",
    "5.1",
    "5.2",
    patterns=("slice > matmul",),
)
def product_of_a_slice() -> TensorGraph:
    g = TensorGraph()
    x = g.add("slice", (g.add_input("x", (1, 6, 6, 8), "INT8"),), start=(0, 0, 0, 0), size=(1, 4, 6, 8))
    x = g.add("reshape", (x,), shape=(4, 6, 8))
    return _finished(g, g.add_with("matmul", [x, g.add_input("y", (4, 8, 6), "INT8")], makers.matmul(3, 3)))


@_defect(
    "a RESCALE per channel behind a CONCAT of channels: each part takes the scales of the first channels",
    "5.2",
    u85=("5.2",),
    patterns=("concat|tile|pad > rescale",),
)
def channel_scales_behind_a_concat() -> TensorGraph:
    g = TensorGraph()
    x = g.add("concat", [g.add_input(n, (1, 4, 4, 4), "INT8") for n in "ab"], axis=3)
    return _finished(
        g, g.add_with("rescale", [x], makers.rescale("INT8", [_ONE + (k << 27) for k in range(8)], [31] * 8))
    )


@_defect(
    "a RESCALE to INT32 behind a CONCAT: all parts are written to its beginning",
    "5.2",
    patterns=("concat|tile > rescale:INT32",),
)
def wide_rescale_of_a_concat() -> TensorGraph:
    g = TensorGraph()
    x = g.add("concat", [g.add_input(n, (1, 3, 8, 8), "INT8") for n in "ab"], axis=3)
    return _finished(g, _rescale(g, x, "INT32"))


@_defect(
    "a CONCAT of a tensor and a RESCALE of INT32 with several shifts, as behind a TRANSPOSE_CONV2D: its parts are written to the beginning",
    "5.2",
    patterns=("rescale > concat|pad",),
)
def concat_of_a_wide_rescale() -> TensorGraph:
    g = TensorGraph()
    x = g.add_input("x", (1, 4, 4, 4), "INT32")
    x = g.add_with("rescale", [x], makers.rescale("INT8", [2**31 - 1 - k for k in range(4)], [40, 39, 40, 40]))
    return _finished(g, g.add("concat", (g.add_input("y", (1, 4, 4, 4), "INT8"), x), axis=3))


@_defect(
    "a SLICE of channels, read in another shape through TRANSPOSEs that cancel: every piece is the first",
    "5.0",
    "5.1",
    u85=("5.1",),
    patterns=("slice > transpose",),
)
def reshaped_slice() -> TensorGraph:
    g = TensorGraph()
    x = g.add("slice", (g.add_input("x", (1, 12, 5, 18), "INT8"),), start=(0, 0, 0, 6), size=(1, 12, 5, 10))
    x = g.add("transpose", (g.add("reshape", (x,), shape=(60, 2, 5, 1)),), perms=(0, 2, 1, 3))
    x = g.add("reshape", (g.add("reshape", (x,), shape=(1, 12, 5, 10)),), shape=(60, 5, 2, 1))
    return _finished(g, g.add("transpose", (x,), perms=(0, 2, 1, 3)))


@_defect(
    "a convolution whose output is transposed as it is written, with a TABLE, into a CONCAT: it has weights of as many channels as its output is wide",
    u85=_BOTH,
    patterns=("conv2d|depthwise_conv2d > rescale > table > concat",),
)
def part_of_the_weights() -> TensorGraph:
    g = TensorGraph()
    y = _rescale(g, _conv2d(g, g.add_input("x", (1, 3, 3, 4), "INT8"), 4, 1, (0, 0, 0, 0)), "INT8", _ONE, 34)
    y = g.add("transpose", (y,), perms=(0, 3, 1, 2))
    y = g.add_with("table", [y], makers.table(list(range(127, -129, -1))))
    return _finished(g, g.add("concat", (g.add_input("y", (1, 4, 3, 3), "INT8"), y), axis=1))


@_defect(
    "a convolution with strides above 3 and padding behind a SLICE",
    u85=_BOTH,
    only_u85=True,
    patterns=("slice > conv2d|depthwise_conv2d",),
)
def wide_strides_of_a_slice() -> TensorGraph:
    g = TensorGraph()
    x = g.add("slice", (g.add_input("x", (1, 12, 12, 4), "INT8"),), start=(0, 0, 0, 0), size=(1, 10, 10, 4))
    weights = (np.arange(16 * 3 * 3 * 4) % 7 - 3).reshape(16, 3, 3, 4).astype(np.int8)
    operands = [x, g.add_const(weights, "INT8"), g.add_const(np.zeros(16, np.int32), "INT32")]
    return _finished(
        g,
        _rescale(
            g, g.add_with("conv2d", operands, makers.conv("INT8", pad=(1, 0, 1, 0), stride=(4, 4))), "INT8", _ONE, 34
        ),
    )


@_defect(
    "a comparison that chooses and is an output: it chooses single bits",
    u85=_BOTH,
    only_u85=True,
    patterns=(
        "equal|greater|greater_equal|reduce_all|reduce_any|logical_and|logical_not|logical_or|logical_xor > select",
    ),
)
def mask_that_is_an_output() -> TensorGraph:
    g = TensorGraph()
    x, y = (g.add_input(n, (1, 4, 5, 6), "INT8") for n in "xy")
    mask = g.add("greater", [_rescale(g, n, "INT32") for n in (x, y)])
    return _finished(g, mask, g.add("select", (mask, x, g.add_with("clamp", [x], makers.clamp("INT8", -9, 9)))))


@_defect(
    "NEGATE of INT16 and a RESCALE to INT32: clamped as INT16 (5.2), or not where NEGATE saturates (5.1)",
    u85=_BOTH,
    patterns=("negate|bitwise_not:INT16 > rescale:INT32",),
)
def negated_and_widened() -> TensorGraph:
    g = TensorGraph()
    x = g.add("negate", (g.add_input("x", (12,), "INT16"),), in_zp=(0,), out_zp=(0,))
    return _finished(g, _rescale(g, x, "INT32", _ONE, 26))


@_defect(
    "a RESCALE to unsigned behind a maximum: clamped as INT8",
    u85=("5.2",),
    patterns=("max_pool2d|maximum|select|reduce_max|reduce_min|bitwise_not > rescale",),
)
def maximum_to_unsigned() -> TensorGraph:
    g = TensorGraph()
    x = g.add_with("max_pool2d", [g.add_input("x", (1, 4, 4, 8), "INT8")], makers.max_pool((2, 2)))
    return _finished(g, _rescale(g, x, "INT8", out_zp=-128, output_unsigned=True))


@_defect(
    "REDUCE_MIN, read in another shape: its last operation reads only the first row of what it negates",
    *_BOTH,
    patterns=("reduce_min > reshape|transpose", "reduce_min > reshape > reshape|transpose"),
)
def minimum_in_another_shape() -> TensorGraph:
    g = TensorGraph()
    x = g.add_with("reduce_min", [g.add_input("x", (1, 3, 5, 8), "INT8")], makers.extremum(2))
    return _finished(g, g.add("reshape", (x,), shape=(1, 3, 8)))


@_defect("REDUCE_MIN of INT8 and a RESCALE to INT16: clamped as INT8", "5.2", patterns=("reduce_min > rescale",))
def widened_minimum() -> TensorGraph:
    g = TensorGraph()
    x = g.add_with("reduce_min", [g.add_input("x", (16, 12), "INT8")], makers.extremum(0))
    return _finished(g, _rescale(g, x, "INT16", _ONE, 24))


@_defect("NEGATE and a RESCALE to unsigned: clamped as INT8", "5.2", u85=("5.2",), patterns=("negate > rescale",))
def negated_to_unsigned() -> TensorGraph:
    g = TensorGraph()
    x = g.add("negate", (g.add_input("x", (1, 3, 7, 2), "INT8"),), in_zp=(3,), out_zp=(0,))
    return _finished(g, _rescale(g, x, "INT8", out_zp=-128, output_unsigned=True))


@_defect(
    "a PAD that adds nothing, and a convolution: the input's zero point is lost",
    *_BOTH,
    u85=_BOTH,
    patterns=("pad > conv2d|depthwise_conv2d",),
)
def zero_point_behind_an_empty_pad() -> TensorGraph:
    g = TensorGraph()
    x = g.add_with("pad", [g.add_input("x", (1, 4, 5, 6), "INT8")], makers.pad((0,) * 8, 0))
    w = g.add_const(np.arange(48, dtype=np.int8).reshape(8, 1, 1, 6), "INT8")
    b = g.add_const(np.zeros(8, np.int32), "INT32")
    y = g.add_with("conv2d", [x, w, b], makers.conv("INT8", in_zp=-128))
    return _finished(g, _rescale(g, y, "INT8", _ONE, 37))


@_defect(
    "a TRANSPOSE of five axes, one of them of one element, and a CLAMP or TABLE: it is lost",
    *_BOTH,
    patterns=("transpose > clamp|table",),
)
def activation_of_a_long_transpose() -> TensorGraph:
    g = TensorGraph()
    x = g.add("transpose", (g.add_input("x", (1, 8, 4, 1, 4), "INT8"),), perms=(0, 3, 2, 1, 4))
    return _finished(g, g.add_with("clamp", [x], makers.clamp("INT8", -50, 90)))


@_defect(
    "a TRANSPOSE of five axes, of which two have more than one element, and a CLAMP or TABLE: it is lost",
    u85=("5.1",),
    patterns=("transpose > clamp|table",),
)
def activation_of_a_flat_transpose() -> TensorGraph:
    g = TensorGraph()
    x = g.add("transpose", (g.add_input("x", (4, 2, 1, 1, 1), "INT16"),), perms=(2, 1, 4, 0, 3))
    return _finished(g, g.add_with("clamp", [x], makers.clamp("INT16", -50, 90)))


@_defect(
    "a CLAMP, a TRANSPOSE and a CLAMP: one operation, with the range of the second",
    u85=_BOTH,
    patterns=("clamp > transpose > clamp",),
)
def clamps_around_a_transpose() -> TensorGraph:
    g = TensorGraph()
    x = g.add_with("clamp", [g.add_input("x", (1, 6, 6, 8), "INT8")], makers.clamp("INT8", 18, 127))
    x = g.add("transpose", (x,), perms=(0, 2, 3, 1))
    return _finished(g, g.add_with("clamp", [x], makers.clamp("INT8", -3, 127)))


@_defect(
    "a SLICE of five axes, read with four, in a CONCAT: all of its images are the first",
    u85=_BOTH,
    only_u85=True,
    patterns=("slice > concat", "slice > rescale"),
)
def slice_of_fewer_axes() -> TensorGraph:
    g = TensorGraph()
    x = g.add("slice", (g.add_input("x", (2, 3, 2, 4, 5), "INT8"),), start=(0, 0, 0, 0, 0), size=(1, 3, 2, 4, 5))
    x = g.add("reshape", (x,), shape=(3, 2, 4, 5))
    return _finished(g, g.add("concat", (x, g.add_input("y", (3, 2, 4, 5), "INT8")), axis=1))


@_defect(
    "DEPTHWISE_CONV2D with two outputs a channel, and a PAD: it is written to the beginning of the padded tensor",
    *_BOTH,
    u85=_BOTH,
    patterns=("depthwise_conv2d > rescale > pad",),
)
def padded_depthwise_with_a_multiplier() -> TensorGraph:
    g = TensorGraph()
    w = g.add_const((np.arange(24) % 7 - 3).reshape(1, 1, 12, 2).astype(np.int8), "INT8")
    b = g.add_const(np.zeros(1, np.int32), "INT32")
    x = g.add_with("depthwise_conv2d", [g.add_input("x", (1, 1, 1, 12), "INT8"), w, b], makers.conv("INT8"))
    y = _rescale(g, x, "INT8", _ONE, 34)
    return _finished(g, g.add_with("pad", [y], makers.pad((0, 0, 0, 1, 1, 0, 0, 0), 0)))


def verdict(defect: Defect, target: Target, via: Worker) -> Verdict:
    """Whether the binary equals the reference. Raises WorkerError where Vela refuses the graph."""
    return verify(dumps(defect.graph()), target, via, 16)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-t", "--targets", nargs="+", default=["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"])
    arguments = parser.parse_args()
    print(f"ethos-u-vela {version('ethos-u-vela')}")
    with Worker() as via:
        for name in arguments.targets:
            for defect in DEFECTS:
                try:
                    found = verdict(defect, Target.of(name), via)
                    text = "equal" if found.equal else "not run: " * (found.equal is None) + found.reason
                except WorkerError as e:
                    text = f"refused: {' '.join(str(e).split())[:80]}"
                print(f"{name:14} {defect.name:45} {text}")


if __name__ == "__main__":
    main()
