"""Which known defects (`eqsat/vela/defects.py`) the installed version of Vela has, by the smallest graph of each.

    python -m benchmarks.vela_defects [-t ethos-u55-128 ...]

Each graph is compiled, run on the functional model and compared with the TOSA reference model (`docs/vela-defects.md`).
A docstring says what the graph is and, in its second part, what the binary does.

Takes a compilation and a run for each defect and target.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import numpy as np

from benchmarks.study import TARGETS, arguments
from eqsat.device.verification import Verdict, verify
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Worker
from eqsat.target import Target
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.flatbuffer import dumps
from eqsat.vela.defects import DEFECTS, Defect
from eqsat.vela.facts import version

#: The multiplier of the scale 1 for a shift of 30.
_ONE = 1 << 30
#: The nodes that are the outputs of a graph.
Outputs = int | tuple[int, ...]
#: The smallest graph of each defect, by its name.
GRAPHS: dict[str, Callable[[], TensorGraph]] = {}
#: Defects whose graphs Vela refuses on the families without the defect.
REFUSED_ELSEWHERE = {"wide_strides_of_a_slice", "mask_that_is_an_output", "slice_of_fewer_axes"}
#: Defects whose binaries the functional model cannot run on the families without the defect.
NOT_RUN_ELSEWHERE = {"narrowing_cast"}


def _smallest(build: Callable[[TensorGraph], Outputs]) -> Callable[[], TensorGraph]:
    """Returns what makes the graph that `build` builds, and adds it to GRAPHS."""

    @wraps(build)
    def made() -> TensorGraph:
        g = TensorGraph()
        found = build(g)
        g.outputs = list(found) if isinstance(found, tuple) else [found]
        g.output_names = [f"y{k}" for k in range(len(g.outputs))]
        return g

    GRAPHS[build.__name__] = made
    return made


def _rescale(g: TensorGraph, x: int, dtype: str, multiplier: int = _ONE, shift: int = 30, **more: object) -> int:
    return g.add_with("rescale", [x], makers.rescale(dtype, multiplier, shift, **more))  # type: ignore[arg-type]


def _conv2d(g: TensorGraph, x: int, channels: int, kernel: int, pad: tuple[int, int, int, int]) -> int:
    depth = g.nodes[x].shape[-1]
    values = np.arange(channels * kernel * kernel * depth) % 7 - 3
    w = g.add_const(values.reshape(channels, kernel, kernel, depth).astype(np.int8), "INT8")
    b = g.add_const(np.zeros(channels, np.int32), "INT32")
    return g.add_with("conv2d", [x, w, b], makers.conv("INT8", pad=pad))


@_smallest
def minimum_beside_another_shape(g: TensorGraph) -> Outputs:
    """REDUCE_MIN of a tensor that a RESHAPE or TRANSPOSE reads too.

    The last operation reads the maximum of `minimum_in_another_shape` in the shape of the other reader.
    REDUCE_MAX is right.
    """
    x = g.add_input("x", (6, 10), "INT8")
    least = g.add_with("reduce_min", [x], makers.extremum(1))
    y = g.add("reshape", (x,), shape=(6, 2, 5))
    return least, g.add_with("clamp", [y], makers.clamp("INT8", -50, 90))


@_smallest
def equal_weights(g: TensorGraph) -> Outputs:
    """Convolutions of equal weights and scales have different biases.

    All get the biases of the first.
    eqsat made such graphs of batch normalisations, until it looked at binaries.
    """
    y = g.add_input("x", (1, 4, 4, 8), "INT8")
    weights = np.full((8, 1, 1, 8), 3)
    for bias in (100, -700):
        operands = [y, g.add_const(weights, "INT8"), g.add_const(np.full(8, bias), "INT32")]
        y = _rescale(g, g.add_with("conv2d", operands, makers.conv("INT8")), "INT8", _ONE, 34)
    return y


@_smallest
def activation_of_several_images(g: TensorGraph) -> Outputs:
    """A pointwise CONV2D of more than one image has a CLAMP or TABLE behind its RESCALE.

    One operation reads the images as rows of another shape than it writes.
    Linear layers of a transformer, in the form that costs least, met it.
    eqsat 0.1's answer for attention on U65 was among them.
    """
    y = _rescale(g, _conv2d(g, g.add_input("x", (2, 1, 8, 64), "INT8"), 16, 1, (0, 0, 0, 0)), "INT8", _ONE, 36)
    return g.add_with("clamp", [y], makers.clamp("INT8", 0, 90))


@_smallest
def activation_of_reduced_images(g: TensorGraph) -> Outputs:
    """A REDUCE_MAX, REDUCE_MIN or REDUCE_SUM within each of several images has a CLAMP or TABLE behind it, or behind
    its RESCALE.

    One operation reads the images as rows of another shape than it writes.
    Of a sum for U55 and U65 it may also read weights beyond the end of those that Vela encodes, so that the bytes of a
    binary differ from run to run.
    The softmax of an attention with several heads meets it, in stock ExecuTorch's delegate too.
    """
    most = g.add_with("reduce_max", [g.add_input("x", (2, 1, 2, 2), "INT8")], makers.extremum(3))
    return g.add_with("clamp", [most], makers.clamp("INT8", 0, 90))


@_smallest
def lost_output(g: TensorGraph) -> Outputs:
    """An output of the graph is a TRANSPOSE, or of some shapes a RESHAPE, that only another TRANSPOSE reads.

    The two become one, and the output is none of the binary's: ExecuTorch's runtime finds fewer than the delegate has.
    **Stock ExecuTorch's delegate of an encoder whose skip connections leave it** meets it in front of an operator on
    the CPU (the zoo's `unet_bilinear`).
    eqsat takes such a binary for refused.
    """
    x = g.add_with("clamp", [g.add_input("x", (1, 4, 4, 8), "INT8")], makers.clamp("INT8", 0, 90))
    y = g.add("transpose", [x], perms=(0, 3, 1, 2))
    again = g.add("transpose", [y], perms=(0, 2, 3, 1))
    return y, g.add_with("clamp", [again], makers.clamp("INT8", 0, 50))


@_smallest
def sum_with_itself(g: TensorGraph) -> Outputs:
    """x + x of one tensor, each side rescaled by the `2**20` that ExecuTorch uses.

    The sum is halved, seen on Arm's FVP (executorch pull request 21151).
    5.0 to 5.2 do not fuse equal scales that have no room in 16 bits; the model cuts them to 16 bits, so that it would
    show.
    """
    x = _rescale(g, g.add_input("x", (1, 4, 4, 8), "INT8"), "INT32", _ONE, 10)
    return _rescale(g, g.add("add", (x, x)), "INT8", _ONE, 51)


@_smallest
def sum_of_equal_scales(g: TensorGraph) -> Outputs:
    """A sum whose operands are rescaled by the same factor.

    As `sum_with_itself`.
    """
    a, b = (_rescale(g, g.add_input(n, (1, 4, 4, 8), "INT8"), "INT32", _ONE, 10) for n in "ab")
    return _rescale(g, g.add("add", (a, b)), "INT8", _ONE, 51)


@_smallest
def sum_of_large_scales(g: TensorGraph) -> Outputs:
    """A sum whose larger factor is not the `2**19` that the hardware has built in.

    As `sum_with_itself`.
    """
    a, b = (
        _rescale(g, g.add_input(n, (1, 4, 4, 8), "INT8"), "INT32", m, 10)
        for n, m in (("a", _ONE), ("b", 3 * _ONE // 4))
    )
    return _rescale(g, g.add("add", (a, b)), "INT8", _ONE, 51)


@_smallest
def sum_of_unlike_integers(g: TensorGraph) -> Outputs:
    """A RESCALE to INT8 or INT16 reads a sum or difference of INT32, whose operands are RESCALEs by different integers
    below `2**15`.

    The sum is scaled wrongly.
    Equal integers are right, and so are factors of which one is a fraction or larger, which Vela does not fuse.
    """
    a, b = (_rescale(g, g.add_input(n, (1, 4, 4, 8), "INT8"), "INT32", m << 28, 28) for n, m in (("a", 1), ("b", 3)))
    return _rescale(g, g.add("add", (a, b)), "INT8", _ONE, 33)


@_smallest
def shared_rescale(g: TensorGraph) -> Outputs:
    """A RESCALE to INT32 has two readers.

    They read zeros (executorch issue 21415).
    The functional model would not show a hazard between operations that overlap.
    """
    x = _rescale(g, g.add_input("x", (1, 4, 4, 8), "INT8"), "INT32", _ONE, 11, in_zp=3)
    y = _rescale(g, g.add_input("y", (1, 4, 4, 8), "INT8"), "INT32", 3 << 28, 11)
    sums = (g.add(op, operands) for op, operands in (("add", (x, y)), ("sub", (y, x))))
    return tuple(_rescale(g, n, "INT8", _ONE, 50) for n in sums)


@_smallest
def shared_rescale_of_unlike_readers(g: TensorGraph) -> Outputs:
    """A sum and a maximum read a RESCALE to INT32.

    As `shared_rescale`, whose guard is theirs too.
    """
    x = _rescale(g, g.add_input("x", (1, 4, 4, 8), "INT8"), "INT32", in_zp=3)
    y = _rescale(g, g.add_input("y", (1, 4, 4, 8), "INT8"), "INT32", in_zp=-5)
    most = g.add_with("maximum", [x, y], makers.extremum())
    return tuple(_rescale(g, n, "INT8", _ONE, 32) for n in (g.add("add", (x, y)), most))


@_smallest
def shared_rescale_of_a_mean(g: TensorGraph) -> Outputs:
    """A sum over channels and a product read a RESCALE to INT32.

    As `shared_rescale`, whose guard is theirs too.
    """
    x = _rescale(g, g.add_input("x", (1, 4, 4, 8), "INT8"), "INT32", in_zp=3)
    squares = g.add_with("mul", [x, x], makers.mul())
    total = g.add("reduce_sum", (x,), axis=3)
    return _rescale(g, squares, "INT8", _ONE, 38), _rescale(g, total, "INT8", _ONE, 33)


@_smallest
def wide_rescale(g: TensorGraph) -> Outputs:
    """RESCALE from INT32 to INT32.

    It gives zeros on a device, by ExecuTorch's backend for Arm.
    The functional model has no notion of time, so that a hazard between operations that overlap would not show on it.
    What the input has itself is priced, and given graphs that break the guard are taken where their binary was found to
    be right.
    """
    x = _rescale(g, g.add_input("x", (1, 4, 4, 8), "INT8"), "INT32", in_zp=3)
    x = g.add("add", (x, _rescale(g, g.add_input("y", (1, 4, 4, 8), "INT8"), "INT32")))
    return _rescale(g, _rescale(g, x, "INT32", _ONE, 26), "INT8", _ONE, 35)


@_smallest
def scaled_maximum(g: TensorGraph) -> Outputs:
    """MAX_POOL2D, then RESCALE.

    One operation is a maximum with a scale, which the hardware does not apply; 5.2's changelog has it.
    """
    x = g.add_input("x", (1, 8, 8, 8), "INT8")
    y = g.add_with("max_pool2d", [x], makers.max_pool((2, 2), stride=(2, 2)))
    return _rescale(g, y, "INT8", _ONE, 31)


@_smallest
def padded_convolution_of_a_slice(g: TensorGraph) -> Outputs:
    """A convolution or pooling with padding above or to the left, of more than one image, is behind a SLICE.

    All padding goes below and to the right.
    """
    x = g.add("slice", (g.add_input("x", (2, 4, 4, 4), "INT8"),), start=(0, 0, 0, 1), size=(2, 4, 4, 3))
    return _rescale(g, _conv2d(g, x, 8, 3, (1, 1, 1, 1)), "INT8", _ONE, 37)


@_smallest
def wide_rescale_of_a_slice(g: TensorGraph) -> Outputs:
    """RESCALE of INT8 to INT32 is behind a SLICE, where nothing takes it in.

    The second of two operations has the size of the whole tensor: it writes beyond its own result.
    A Swin block that eqsat chose before it looked at binaries met it, in a mean over a slice.
    """
    x = g.add("slice", (g.add_input("x", (1, 12, 12), "INT8"),), start=(0, 0, 7), size=(1, 12, 4))
    return _rescale(g, x, "INT32", in_zp=3)


@_smallest
def narrow_rescale_of_a_slice(g: TensorGraph) -> Outputs:
    """RESCALE of INT32 to INT8 is behind a SLICE.

    Its operation has the size of the whole tensor: it reads the wrong elements and writes beyond its own result.
    Products of one matrix with the steps of a recurrence met it, as one convolution with slices of its INT32 sums.
    A sum with zero between the two avoids it, and takes less than the RESCALE of a SLICE does.
    """
    x = g.add("slice", (g.add_input("x", (1, 12, 12), "INT32"),), start=(0, 0, 7), size=(1, 12, 4))
    return _rescale(g, x, "INT8")


@_smallest
def wide_rescale_of_a_pad(g: TensorGraph) -> Outputs:
    """RESCALE of INT8 to INT32 is behind a PAD.

    Every part is written to the beginning of the result.
    """
    x = g.add_with("pad", [g.add_input("x", (14,), "INT8")], makers.pad((1, 1), 0))
    return _rescale(g, x, "INT32")


@_smallest
def constant_first(g: TensorGraph) -> Outputs:
    """ADD, SUB, MUL, MAXIMUM or MINIMUM of an INT32 constant or tensor of one element and a tensor of five axes or six,
    in this order.

    The one element is read as if it had the tensor's size, beyond its end, and one element of the tensor is added to
    all.
    The other order is right.
    """
    c = g.add_const(np.full((1, 1, 1, 1, 1), 5, np.int32), "INT32")
    return g.add("add", (c, g.add_input("x", (1, 12, 2, 4, 2), "INT32")))


@_smallest
def unsigned_rescale(g: TensorGraph) -> Outputs:
    """RESCALE to INT8, then to unsigned.

    One operation clamps to 127 what may reach 255.
    """
    x = _rescale(g, g.add_input("x", (8, 7), "INT32"), "INT8", _ONE, 36)
    return _rescale(g, x, "INT8", out_zp=-128, output_unsigned=True)


@_smallest
def transposed_convolution_with_output_padding(g: TensorGraph) -> Outputs:
    """TRANSPOSE_CONV2D of stride 2 is asked for more rows below.

    The rows below overwrite the first ones.
    """
    x = g.add_input("x", (1, 1, 1, 6), "INT8")
    w = g.add_const(np.arange(1, 7, dtype=np.int8).reshape(1, 1, 1, 6), "INT8")
    b = g.add_const(np.zeros(1, np.int32), "INT32")
    y = g.add_with(
        "transpose_conv2d", [x, w, b], makers.transpose_conv("INT8", out_pad=(0, 0, 1, 0), stride=(2, 1), in_zp=-128)
    )
    return _rescale(g, y, "INT8", _ONE, 37)


@_smallest
def maximum_of_a_slice(g: TensorGraph) -> Outputs:
    """REDUCE_MAX, on U85 REDUCE_MIN too, is behind a SLICE, or in front of a PAD or CONCAT.

    It reads the tensor from its first element, and all of the reduced axis.
    In front, it writes its rows one behind the other.
    """
    x = g.add("slice", (g.add_input("x", (6, 10), "INT8"),), start=(4, 0), size=(2, 10))
    return g.add_with("reduce_max", [x], makers.extremum(1))


@_smallest
def sum_of_a_slice(g: TensorGraph) -> Outputs:
    """REDUCE_SUM along the last axis is behind a SLICE.

    It reads the tensor from its first element.
    Means over a part of a tensor meet it, such as LayerNorm in a Swin block.
    """
    x = g.add("slice", (g.add_input("x", (1, 6, 8, 16), "INT8"),), start=(0, 2, 0, 0), size=(1, 4, 8, 16))
    return _rescale(g, g.add("reduce_sum", (_rescale(g, x, "INT32"),), axis=3), "INT8", _ONE, 34)


@_smallest
def product_of_a_slice(g: TensorGraph) -> Outputs:
    """MATMUL has a SLICE as first operand.

    Every product reads from the beginning of the whole tensor, as many channels as that has.
    """
    x = g.add("slice", (g.add_input("x", (1, 6, 6, 8), "INT8"),), start=(0, 0, 0, 0), size=(1, 4, 6, 8))
    x = g.add("reshape", (x,), shape=(4, 6, 8))
    return g.add_with("matmul", [x, g.add_input("y", (4, 8, 6), "INT8")], makers.matmul(3, 3))


@_smallest
def channel_scales_before_slices(g: TensorGraph) -> Outputs:
    """SLICEs of channels are behind a RESCALE of INT32 with a factor per channel, and an operator reads several.

    Each has a RESCALE of its own, and all take the factors of the first.
    Gates of a recurrence met it; SLICEs in front of their own RESCALEs avoid it.
    """
    x = g.add_input("x", (1, 1, 1, 32), "INT32")
    y = g.add_with("rescale", [x], makers.rescale("INT8", [_ONE + (k << 24) for k in range(32)], [39] * 32))
    parts = (g.add("slice", [y], start=(0, 0, 0, at), size=(1, 1, 1, 16)) for at in (0, 16))
    z = g.add("add", [_rescale(g, part, "INT32", _ONE, 10) for part in parts])
    return _rescale(g, z, "INT8", _ONE, 50)


@_smallest
def channel_scales_behind_a_reshape(g: TensorGraph) -> Outputs:
    """RESCALE with a factor per channel is behind a convolution and a RESHAPE that joins its positions to its channels.

    All positions take the factors of the first.
    """
    x = _conv2d(g, g.add_input("x", (1, 1, 2, 4), "INT8"), 4, 1, (0, 0, 0, 0))
    x = g.add("reshape", [x], shape=(1, 1, 1, 8))
    return g.add_with("rescale", [x], makers.rescale("INT8", [_ONE + (k << 27) for k in range(8)], [38] * 8))


@_smallest
def channel_scales_behind_a_concat(g: TensorGraph) -> Outputs:
    """RESCALE with a factor per channel is behind a CONCAT, TILE or PAD of channels.

    Each part takes the factors of the first channels.
    """
    x = g.add("concat", [g.add_input(n, (1, 4, 4, 4), "INT8") for n in "ab"], axis=3)
    return g.add_with("rescale", [x], makers.rescale("INT8", [_ONE + (k << 27) for k in range(8)], [31] * 8))


@_smallest
def wide_rescale_of_a_concat(g: TensorGraph) -> Outputs:
    """RESCALE of INT8 to INT32 is behind a CONCAT or a TILE.

    Every part is written to the beginning of the result.
    """
    x = g.add("concat", [g.add_input(n, (1, 3, 8, 8), "INT8") for n in "ab"], axis=3)
    return _rescale(g, x, "INT32")


@_smallest
def concat_of_a_wide_rescale(g: TensorGraph) -> Outputs:
    """CONCAT of a tensor (or PAD) and a RESCALE of INT32 to INT8 that nothing takes in, or any RESCALE to INT32.
    Nothing does if the RESCALE has several shifts, as behind a TRANSPOSE_CONV2D, or a factor that is no power of two,
    behind an ADD of INT32, or if its operand has another reader or is an output, as a product with two RESCALEs.

    Vela makes products of it, and their slice of channels replaces the part of the CONCAT (`RewriteRescale`).
    So the parts of the second are written to the beginning, over the first.
    `wide_rescale_of_a_slice`, `narrow_rescale_of_a_slice`, `wide_rescale_of_a_pad` and `wide_rescale_of_a_concat` have
    the same cause.
    **Stock ExecuTorch's U-Net of the zoo is wrong with it, on U55 and U65.**
    """
    x = g.add_input("x", (1, 4, 4, 4), "INT32")
    x = g.add_with("rescale", [x], makers.rescale("INT8", [2**31 - 1 - k for k in range(4)], [40, 39, 40, 40]))
    return g.add("concat", (g.add_input("y", (1, 4, 4, 4), "INT8"), x), axis=3)


@_smallest
def reshaped_slice(g: TensorGraph) -> Outputs:
    """A SLICE of channels is read in another shape through TRANSPOSEs that cancel.

    There is a copy for each piece, and all of them read the first.
    """
    x = g.add("slice", (g.add_input("x", (1, 12, 5, 18), "INT8"),), start=(0, 0, 0, 6), size=(1, 12, 5, 10))
    x = g.add("transpose", (g.add("reshape", (x,), shape=(60, 2, 5, 1)),), perms=(0, 2, 1, 3))
    x = g.add("reshape", (g.add("reshape", (x,), shape=(1, 12, 5, 10)),), shape=(60, 5, 2, 1))
    return g.add("transpose", (x,), perms=(0, 2, 1, 3))


@_smallest
def part_of_the_weights(g: TensorGraph) -> Outputs:
    """A TRANSPOSE turns the output of a convolution, with a TABLE behind it, into a CONCAT.

    The convolution writes it turned: it has weights and scales of as many channels as the turned output is wide, for
    the rest zeros, or none at all.
    **The stock and the explicit graph of the zoo's MobileViT block meet it: their decoder runs out of weights**, and
    eqsat warns of it.
    """
    y = _rescale(g, _conv2d(g, g.add_input("x", (1, 3, 3, 4), "INT8"), 4, 1, (0, 0, 0, 0)), "INT8", _ONE, 34)
    y = g.add("transpose", (y,), perms=(0, 3, 1, 2))
    y = g.add_with("table", [y], makers.table(list(range(127, -129, -1))))
    return g.add("concat", (g.add_input("y", (1, 4, 3, 3), "INT8"), y), axis=1)


@_smallest
def wide_strides_of_a_slice(g: TensorGraph) -> Outputs:
    """A convolution with strides above 3 and padding is behind a SLICE.

    It does not read the slice.
    Rules make such graphs of patch embeddings that do not fill their last row; they are no answer.
    """
    x = g.add("slice", (g.add_input("x", (1, 12, 12, 4), "INT8"),), start=(0, 0, 0, 0), size=(1, 10, 10, 4))
    weights = (np.arange(16 * 3 * 3 * 4) % 7 - 3).reshape(16, 3, 3, 4).astype(np.int8)
    operands = [x, g.add_const(weights, "INT8"), g.add_const(np.zeros(16, np.int32), "INT32")]
    return _rescale(
        g, g.add_with("conv2d", operands, makers.conv("INT8", pad=(1, 0, 1, 0), stride=(4, 4))), "INT8", _ONE, 34
    )


@_smallest
def too_early_behind_a_transpose(g: TensorGraph) -> Outputs:
    """A TRANSPOSE of height and width, and a convolution, pooling or RESCALE of the shape from before it: a square, or
    a RESHAPE lies between.

    The TRANSPOSE writes its operand's shape with strides that are exchanged. As the shapes are equal, BLOCKDEP is that
    of equal layouts, and the convolution may begin before blocks are written that it reads.
    Blocks decide whether it does: of 160 convolutions of squares of 8 to 48 elements, with 1 to 16 channels, 31 do.
    What a device computes depends on the time that the blocks take.
    """
    x = g.add("transpose", (g.add_input("x", (1, 16, 16, 2), "INT8"),), perms=(0, 2, 1, 3))
    return _rescale(g, _conv2d(g, x, 48, 1, (0, 0, 0, 0)), "INT8", _ONE, 38)


@_smallest
def mask_that_is_an_output(g: TensorGraph) -> Outputs:
    """SELECT reads a comparison or logical operator that is an output.

    The output's zeros and ones take the mask's place, and SELECT chooses by single bits.
    """
    x, y = (g.add_input(n, (1, 4, 5, 6), "INT8") for n in "xy")
    mask = g.add("greater", [_rescale(g, n, "INT32") for n in (x, y)])
    return mask, g.add("select", (mask, x, g.add_with("clamp", [x], makers.clamp("INT8", -9, 9))))


@_smallest
def negated_and_widened(g: TensorGraph) -> Outputs:
    """NEGATE of INT16 (or BITWISE_NOT, 5.2 only), then RESCALE to INT32.

    One operation clamps the result as INT16 (5.2), or does not saturate where NEGATE does, at -32,768 (5.1).
    """
    x = g.add("negate", (g.add_input("x", (12,), "INT16"),), in_zp=(0,), out_zp=(0,))
    return _rescale(g, x, "INT32", _ONE, 26)


@_smallest
def maximum_to_unsigned(g: TensorGraph) -> Outputs:
    """A maximum (or SELECT, REDUCE_MAX, REDUCE_MIN, BITWISE_NOT), then RESCALE to unsigned.

    One operation clamps to 127 what may reach 255.
    """
    x = g.add_with("max_pool2d", [g.add_input("x", (1, 4, 4, 8), "INT8")], makers.max_pool((2, 2)))
    return _rescale(g, x, "INT8", out_zp=-128, output_unsigned=True)


@_smallest
def minimum_in_another_shape(g: TensorGraph) -> Outputs:
    """REDUCE_MIN, then RESHAPE or TRANSPOSE.

    U55 and U65 have no minimum, so it is -1 - max(-1 - x).
    The last operation has the new shape, but reads the maximum as if it had one row.
    """
    x = g.add_with("reduce_min", [g.add_input("x", (1, 3, 5, 8), "INT8")], makers.extremum(2))
    return g.add("reshape", (x,), shape=(1, 3, 8))


@_smallest
def widened_minimum(g: TensorGraph) -> Outputs:
    """REDUCE_MIN of INT8, then RESCALE to INT16.

    The last operation scales, and clamps the result as INT8.
    """
    x = g.add_with("reduce_min", [g.add_input("x", (16, 12), "INT8")], makers.extremum(0))
    return _rescale(g, x, "INT16", _ONE, 24)


@_smallest
def negated_to_unsigned(g: TensorGraph) -> Outputs:
    """NEGATE, then RESCALE to unsigned.

    One operation clamps to 127 what may reach 255.
    """
    x = g.add("negate", (g.add_input("x", (1, 3, 7, 2), "INT8"),), in_zp=(3,), out_zp=(0,))
    return _rescale(g, x, "INT8", out_zp=-128, output_unsigned=True)


@_smallest
def zero_point_behind_an_empty_pad(g: TensorGraph) -> Outputs:
    """PAD by nothing, with a value that is not the zero point, then a convolution.

    The convolution takes its input's zero point from the PAD.
    With something to pad it is right.
    """
    x = g.add_with("pad", [g.add_input("x", (1, 4, 5, 6), "INT8")], makers.pad((0,) * 8, 0))
    w = g.add_const(np.arange(48, dtype=np.int8).reshape(8, 1, 1, 6), "INT8")
    b = g.add_const(np.zeros(8, np.int32), "INT32")
    y = g.add_with("conv2d", [x, w, b], makers.conv("INT8", in_zp=-128))
    return _rescale(g, y, "INT8", _ONE, 37)


@_smallest
def activation_of_a_long_transpose(g: TensorGraph) -> Outputs:
    """A TRANSPOSE of five axes, one of them with one element, then CLAMP or TABLE.

    The moves are made, and the last is a copy: CLAMP or TABLE is nowhere.
    """
    x = g.add("transpose", (g.add_input("x", (1, 8, 4, 1, 4), "INT8"),), perms=(0, 3, 2, 1, 4))
    return g.add_with("clamp", [x], makers.clamp("INT8", -50, 90))


@_smallest
def activation_of_a_flat_transpose(g: TensorGraph) -> Outputs:
    """A TRANSPOSE of five axes of which only two have more than one element, then CLAMP or TABLE.

    CLAMP or TABLE is nowhere.
    For U55 and U65 5.1 makes poolings of nothing but padding of some, which are not run.
    """
    x = g.add("transpose", (g.add_input("x", (4, 2, 1, 1, 1), "INT16"),), perms=(2, 1, 4, 0, 3))
    return g.add_with("clamp", [x], makers.clamp("INT16", -50, 90))


@_smallest
def clamps_around_a_transpose(g: TensorGraph) -> Outputs:
    """CLAMP, TRANSPOSE, CLAMP.

    One operation, emitted twice, has the range of the second.
    """
    x = g.add_with("clamp", [g.add_input("x", (1, 6, 6, 8), "INT8")], makers.clamp("INT8", 18, 127))
    x = g.add("transpose", (x,), perms=(0, 2, 3, 1))
    return g.add_with("clamp", [x], makers.clamp("INT8", -3, 127))


@_smallest
def slice_of_fewer_axes(g: TensorGraph) -> Outputs:
    """A SLICE of five axes, reshaped to four, is in front of CONCAT or RESCALE.

    Every image that is read is the first, or, behind the first, padding.
    For U55 and U65 Vela dies of the CONCAT.
    """
    x = g.add("slice", (g.add_input("x", (2, 3, 2, 4, 5), "INT8"),), start=(0, 0, 0, 0, 0), size=(1, 3, 2, 4, 5))
    x = g.add("reshape", (x,), shape=(3, 2, 4, 5))
    return g.add("concat", (x, g.add_input("y", (3, 2, 4, 5), "INT8")), axis=1)


@_smallest
def padded_depthwise_with_a_multiplier(g: TensorGraph) -> Outputs:
    """DEPTHWISE_CONV2D with two outputs a channel, then PAD.

    The convolution becomes several operations, which write to the beginning of the padded tensor, where zeros follow.
    """
    w = g.add_const((np.arange(24) % 7 - 3).reshape(1, 1, 12, 2).astype(np.int8), "INT8")
    b = g.add_const(np.zeros(1, np.int32), "INT32")
    x = g.add_with("depthwise_conv2d", [g.add_input("x", (1, 1, 1, 12), "INT8"), w, b], makers.conv("INT8"))
    y = _rescale(g, x, "INT8", _ONE, 34)
    return g.add_with("pad", [y], makers.pad((0, 0, 0, 1, 1, 0, 0, 0), 0))


@_smallest
def narrowing_cast(g: TensorGraph) -> Outputs:
    """CAST to a type of fewer bits.

    The binary saturates, where TOSA drops the upper bits.
    On U85 it writes a result that its type has no room for, of which it is not known what the device makes.
    """
    return g.add("cast", (g.add_input("x", (1, 5, 3, 4), "INT32"),), dtype="INT16")


def verdict(defect: Defect, target: Target, via: Worker) -> Verdict:
    """Returns whether the binary equals the reference.

    Raises WorkerError if Vela refuses the graph.
    """
    return verify(dumps(GRAPHS[defect.name]()), target, via, 16)


def is_wrong(defect: Defect, target: Target) -> bool:
    """Tells whether the table says that the installed Vela compiles the graph of a defect wrongly."""
    return defect.seen and defect.is_in(target.family, version())


def _told(defect: Defect, target: Target, via: Worker) -> str:
    """Returns what became of the graph of a defect, in words."""
    try:
        found = verdict(defect, target, via)
    except WorkerError as e:
        return f"refused: {' '.join(str(e).split())[:80]}"
    if found.equal is None:
        as_known = not is_wrong(defect, target) and defect.name in NOT_RUN_ELSEWHERE
        return f"{'' if as_known else 'NOT AS IN THE TABLE: '}not run: {found.reason}"
    unexpected = "" if found.equal is not is_wrong(defect, target) else "NOT AS IN THE TABLE: "
    return unexpected + ("equal" if found.equal else found.reason)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("-t", "--targets", nargs="+", default=TARGETS)
    args = parser.parse_args()
    print(f"ethos-u-vela {version()}")
    with Worker() as via:
        for name in args.targets:
            for defect in DEFECTS:
                print(f"{name:14} {defect.name:45} {_told(defect, Target.of(name), via)}")


if __name__ == "__main__":
    main()
