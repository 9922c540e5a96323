"""Compiles the smallest graph of each Vela defect (`eqsat/vela/defects.py`) and shows which graphs the installed
version still compiles incorrectly.

    python -m benchmarks.vela_defects [-t ethos-u55-128 ...]

Each binary is run on the functional model and compared with the TOSA reference model (`docs/vela-defects.md`).
The first paragraph of a docstring describes the graph, and the second describes what the binary does.

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
    """Returns a function that makes the graph built by `build`, and adds that function to GRAPHS."""

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
    """A REDUCE_MIN reads a tensor that a RESHAPE or TRANSPOSE also reads.

    U55 and U65 have no minimum reduction, so Vela emits -1 - max(-1 - x).
    The last of these operations reads the maximum in the shape of the other reader.
    `minimum_in_another_shape` is a related defect.
    A REDUCE_MAX in place of the REDUCE_MIN is compiled correctly.
    """
    x = g.add_input("x", (6, 10), "INT8")
    least = g.add_with("reduce_min", [x], makers.extremum(1))
    y = g.add("reshape", (x,), shape=(6, 2, 5))
    return least, g.add_with("clamp", [y], makers.clamp("INT8", -50, 90))


@_smallest
def equal_weights(g: TensorGraph) -> Outputs:
    """Several convolutions have equal weights and scales but different biases.

    All of these convolutions get the biases of the first one.
    eqsat used to create such graphs from batch normalizations, before it checked binaries.
    """
    y = g.add_input("x", (1, 4, 4, 8), "INT8")
    weights = np.full((8, 1, 1, 8), 3)
    for bias in (100, -700):
        operands = [y, g.add_const(weights, "INT8"), g.add_const(np.full(8, bias), "INT32")]
        y = _rescale(g, g.add_with("conv2d", operands, makers.conv("INT8")), "INT8", _ONE, 34)
    return y


@_smallest
def activation_of_several_images(g: TensorGraph) -> Outputs:
    """A pointwise CONV2D of more than one image is followed by a RESCALE and then by a CLAMP or TABLE.

    A single operation reads the images as rows of one shape, but writes rows of another shape.
    This defect occurred in the linear layers of a transformer, in the form with the lowest cost.
    The result of eqsat 0.1 for attention on U65 was one of these graphs.
    """
    y = _rescale(g, _conv2d(g, g.add_input("x", (2, 1, 8, 64), "INT8"), 16, 1, (0, 0, 0, 0)), "INT8", _ONE, 36)
    return g.add_with("clamp", [y], makers.clamp("INT8", 0, 90))


@_smallest
def activation_of_reduced_images(g: TensorGraph) -> Outputs:
    """A REDUCE_MAX, REDUCE_MIN or REDUCE_SUM within each of several images is followed by a CLAMP or TABLE, either
    directly or behind a RESCALE.

    A single operation reads the images as rows of one shape, but writes rows of another shape.
    For a REDUCE_SUM on U55 and U65, the operation may also read past the end of the weights that Vela encodes, so that
    the bytes of the binary differ from run to run.
    This defect occurs in the softmax of an attention with several heads, including in stock ExecuTorch's delegate.
    """
    most = g.add_with("reduce_max", [g.add_input("x", (2, 1, 2, 2), "INT8")], makers.extremum(3))
    return g.add_with("clamp", [most], makers.clamp("INT8", 0, 90))


@_smallest
def lost_output(g: TensorGraph) -> Outputs:
    """An output of the graph is a TRANSPOSE (or, for some shapes, a RESHAPE) that is read only by another TRANSPOSE.

    Vela merges the two operators into one, and the binary no longer has this output: ExecuTorch's runtime finds fewer
    outputs than the delegate has.
    **Stock ExecuTorch's delegate has this defect for an encoder whose skip connections leave the delegate**, if an
    operator on the CPU follows (`unet_bilinear` in the zoo).
    eqsat treats such a binary as if Vela had refused the graph.
    """
    x = g.add_with("clamp", [g.add_input("x", (1, 4, 4, 8), "INT8")], makers.clamp("INT8", 0, 90))
    y = g.add("transpose", [x], perms=(0, 3, 1, 2))
    again = g.add("transpose", [y], perms=(0, 2, 3, 1))
    return y, g.add_with("clamp", [again], makers.clamp("INT8", 0, 50))


@_smallest
def sum_with_itself(g: TensorGraph) -> Outputs:
    """A tensor is added to itself (x + x), and each operand is rescaled by the `2**20` that ExecuTorch uses.

    The sum is halved, as seen on Arm's FVP (executorch pull request 21151).
    Vela 5.0 to 5.2 do not fuse equal scales that do not fit into 16 bits.
    The functional model cuts scales to 16 bits, so it would show the defect.
    """
    x = _rescale(g, g.add_input("x", (1, 4, 4, 8), "INT8"), "INT32", _ONE, 10)
    return _rescale(g, g.add("add", (x, x)), "INT8", _ONE, 51)


@_smallest
def sum_of_equal_scales(g: TensorGraph) -> Outputs:
    """The operands of a sum are rescaled by the same factor.

    The defect is the same as `sum_with_itself`.
    """
    a, b = (_rescale(g, g.add_input(n, (1, 4, 4, 8), "INT8"), "INT32", _ONE, 10) for n in "ab")
    return _rescale(g, g.add("add", (a, b)), "INT8", _ONE, 51)


@_smallest
def sum_of_large_scales(g: TensorGraph) -> Outputs:
    """The operands of a sum are rescaled by different factors, and the larger factor is not the `2**19` that is built
    into the hardware.

    The defect is the same as `sum_with_itself`.
    """
    a, b = (
        _rescale(g, g.add_input(n, (1, 4, 4, 8), "INT8"), "INT32", m, 10)
        for n, m in (("a", _ONE), ("b", 3 * _ONE // 4))
    )
    return _rescale(g, g.add("add", (a, b)), "INT8", _ONE, 51)


@_smallest
def sum_of_unlike_integers(g: TensorGraph) -> Outputs:
    """A RESCALE to INT8 or INT16 reads an INT32 sum or difference whose operands are rescaled by different integers
    below `2**15`.

    The sum is scaled incorrectly.
    Equal integers are compiled correctly.
    Vela does not fuse the RESCALEs if one of the factors is a fraction or is `2**15` or more, so such graphs are also
    compiled correctly.
    """
    a, b = (_rescale(g, g.add_input(n, (1, 4, 4, 8), "INT8"), "INT32", m << 28, 28) for n, m in (("a", 1), ("b", 3)))
    return _rescale(g, g.add("add", (a, b)), "INT8", _ONE, 33)


@_smallest
def shared_rescale(g: TensorGraph) -> Outputs:
    """Two operators read the same RESCALE to INT32.

    Both operators read zeros (executorch issue 21415).
    If the cause is a hazard between overlapping operations, the functional model cannot show it.
    """
    x = _rescale(g, g.add_input("x", (1, 4, 4, 8), "INT8"), "INT32", _ONE, 11, in_zp=3)
    y = _rescale(g, g.add_input("y", (1, 4, 4, 8), "INT8"), "INT32", 3 << 28, 11)
    sums = (g.add(op, operands) for op, operands in (("add", (x, y)), ("sub", (y, x))))
    return tuple(_rescale(g, n, "INT8", _ONE, 50) for n in sums)


@_smallest
def shared_rescale_of_unlike_readers(g: TensorGraph) -> Outputs:
    """A sum and a maximum read the same RESCALE to INT32.

    The defect is the same as `shared_rescale`, and the guard of `shared_rescale` covers this graph, too.
    """
    x = _rescale(g, g.add_input("x", (1, 4, 4, 8), "INT8"), "INT32", in_zp=3)
    y = _rescale(g, g.add_input("y", (1, 4, 4, 8), "INT8"), "INT32", in_zp=-5)
    most = g.add_with("maximum", [x, y], makers.extremum())
    return tuple(_rescale(g, n, "INT8", _ONE, 32) for n in (g.add("add", (x, y)), most))


@_smallest
def shared_rescale_of_a_mean(g: TensorGraph) -> Outputs:
    """A sum over channels and a product read the same RESCALE to INT32.

    The defect is the same as `shared_rescale`, and the guard of `shared_rescale` covers this graph, too.
    """
    x = _rescale(g, g.add_input("x", (1, 4, 4, 8), "INT8"), "INT32", in_zp=3)
    squares = g.add_with("mul", [x, x], makers.mul())
    total = g.add("reduce_sum", (x,), axis=3)
    return _rescale(g, squares, "INT8", _ONE, 38), _rescale(g, total, "INT8", _ONE, 33)


@_smallest
def wide_rescale(g: TensorGraph) -> Outputs:
    """A RESCALE reads INT32 and produces INT32.

    According to ExecuTorch's Arm backend, the RESCALE produces zeros on a device.
    The functional model has no notion of time, so it cannot show a hazard between overlapping operations.
    eqsat gives such a RESCALE a price if the input graph contains it, and accepts an input graph that breaks the guard
    if its binary was found to be correct.
    """
    x = _rescale(g, g.add_input("x", (1, 4, 4, 8), "INT8"), "INT32", in_zp=3)
    x = g.add("add", (x, _rescale(g, g.add_input("y", (1, 4, 4, 8), "INT8"), "INT32")))
    return _rescale(g, _rescale(g, x, "INT32", _ONE, 26), "INT8", _ONE, 35)


@_smallest
def scaled_maximum(g: TensorGraph) -> Outputs:
    """A RESCALE follows a MAX_POOL2D.

    Vela emits one operation, a maximum with a scale, but the hardware does not apply the scale.
    The changelog of Vela 5.2 mentions this defect.
    """
    x = g.add_input("x", (1, 8, 8, 8), "INT8")
    y = g.add_with("max_pool2d", [x], makers.max_pool((2, 2), stride=(2, 2)))
    return _rescale(g, y, "INT8", _ONE, 31)


@_smallest
def padded_convolution_of_a_slice(g: TensorGraph) -> Outputs:
    """A SLICE is followed by a convolution or pooling operator that processes more than one image and has padding above
    or to the left.

    All of the padding is added below and to the right instead.
    """
    x = g.add("slice", (g.add_input("x", (2, 4, 4, 4), "INT8"),), start=(0, 0, 0, 1), size=(2, 4, 4, 3))
    return _rescale(g, _conv2d(g, x, 8, 3, (1, 1, 1, 1)), "INT8", _ONE, 37)


@_smallest
def wide_rescale_of_a_slice(g: TensorGraph) -> Outputs:
    """A RESCALE from INT8 to INT32 follows a SLICE, and Vela does not fuse the RESCALE into another operator.

    Vela emits two operations.
    The second operation has the size of the entire tensor, so it writes past the end of its own result.
    This defect occurred in a mean over a slice, in a Swin block that eqsat chose before it checked binaries.
    """
    x = g.add("slice", (g.add_input("x", (1, 12, 12), "INT8"),), start=(0, 0, 7), size=(1, 12, 4))
    return _rescale(g, x, "INT32", in_zp=3)


@_smallest
def narrow_rescale_of_a_slice(g: TensorGraph) -> Outputs:
    """A RESCALE from INT32 to INT8 follows a SLICE.

    The operation of the RESCALE has the size of the entire tensor, so it reads the wrong elements and writes past the
    end of its own result.
    This defect occurred in a recurrent network whose products of one matrix with each step were computed as one
    convolution, followed by SLICEs of the INT32 sums.
    Adding zero between the SLICE and the RESCALE avoids the defect and costs less than the RESCALE of a SLICE.
    """
    x = g.add("slice", (g.add_input("x", (1, 12, 12), "INT32"),), start=(0, 0, 7), size=(1, 12, 4))
    return _rescale(g, x, "INT8")


@_smallest
def wide_rescale_of_a_pad(g: TensorGraph) -> Outputs:
    """A RESCALE from INT8 to INT32 follows a PAD.

    Every part of the padded tensor is written to the beginning of the result.
    """
    x = g.add_with("pad", [g.add_input("x", (14,), "INT8")], makers.pad((1, 1), 0))
    return _rescale(g, x, "INT32")


@_smallest
def constant_first(g: TensorGraph) -> Outputs:
    """The first operand of an INT32 ADD, SUB, MUL, MAXIMUM or MINIMUM is a constant or tensor with one element, and the
    second operand is a tensor with five or six axes.

    The operation reads the one-element operand as if it had the size of the second operand, past its end, and combines
    every element that it reads with a single element of the second operand.
    If the operands are exchanged, the binary is correct.
    """
    c = g.add_const(np.full((1, 1, 1, 1, 1), 5, np.int32), "INT32")
    return g.add("add", (c, g.add_input("x", (1, 12, 2, 4, 2), "INT32")))


@_smallest
def unsigned_rescale(g: TensorGraph) -> Outputs:
    """A RESCALE to INT8 is followed by a RESCALE to unsigned values.

    Vela emits a single operation, which clamps values to 127 although they may reach 255.
    """
    x = _rescale(g, g.add_input("x", (8, 7), "INT32"), "INT8", _ONE, 36)
    return _rescale(g, x, "INT8", out_zp=-128, output_unsigned=True)


@_smallest
def transposed_convolution_with_output_padding(g: TensorGraph) -> Outputs:
    """A TRANSPOSE_CONV2D with stride 2 has output padding that adds rows below.

    The added rows overwrite the first rows.
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
    """A REDUCE_MAX (on U85 also a REDUCE_MIN) follows a SLICE or precedes a PAD or CONCAT.

    Behind a SLICE, the operation reads the tensor from its first element and reads the entire reduced axis.
    In front of a PAD or CONCAT, the operation writes its rows directly one after another.
    """
    x = g.add("slice", (g.add_input("x", (6, 10), "INT8"),), start=(4, 0), size=(2, 10))
    return g.add_with("reduce_max", [x], makers.extremum(1))


@_smallest
def sum_of_a_slice(g: TensorGraph) -> Outputs:
    """A REDUCE_SUM along the last axis follows a SLICE.

    The operation reads the tensor from its first element instead of the first element of the slice.
    This defect occurs in means over part of a tensor, for example in the LayerNorm of a Swin block.
    """
    x = g.add("slice", (g.add_input("x", (1, 6, 8, 16), "INT8"),), start=(0, 2, 0, 0), size=(1, 4, 8, 16))
    return _rescale(g, g.add("reduce_sum", (_rescale(g, x, "INT32"),), axis=3), "INT8", _ONE, 34)


@_smallest
def product_of_a_slice(g: TensorGraph) -> Outputs:
    """The first operand of a MATMUL is a SLICE.

    Every product reads from the beginning of the entire tensor, and reads as many channels as the entire tensor has.
    """
    x = g.add("slice", (g.add_input("x", (1, 6, 6, 8), "INT8"),), start=(0, 0, 0, 0), size=(1, 4, 6, 8))
    x = g.add("reshape", (x,), shape=(4, 6, 8))
    return g.add_with("matmul", [x, g.add_input("y", (4, 8, 6), "INT8")], makers.matmul(3, 3))


@_smallest
def channel_scales_before_slices(g: TensorGraph) -> Outputs:
    """SLICEs of channels follow an INT32 RESCALE that has a factor per channel, and one operator reads several of these
    SLICEs.

    Vela gives each SLICE its own RESCALE, but all of these RESCALEs use the factors of the first one.
    This defect occurred in the gates of a recurrent network.
    A TABLE between the RESCALE and the SLICEs that leaves every value as it is avoids the defect.
    It costs nothing, since Vela fuses it into the RESCALE.
    """
    x = g.add_input("x", (1, 1, 1, 32), "INT32")
    y = g.add_with("rescale", [x], makers.rescale("INT8", [_ONE + (k << 24) for k in range(32)], [39] * 32))
    parts = (g.add("slice", [y], start=(0, 0, 0, at), size=(1, 1, 1, 16)) for at in (0, 16))
    z = g.add("add", [_rescale(g, part, "INT32", _ONE, 10) for part in parts])
    return _rescale(g, z, "INT8", _ONE, 50)


@_smallest
def channel_scales_behind_a_reshape(g: TensorGraph) -> Outputs:
    """A RESCALE that has a factor per channel follows a convolution and a RESHAPE that merges positions into channels.

    All positions use the factors of the first position.
    """
    x = _conv2d(g, g.add_input("x", (1, 1, 2, 4), "INT8"), 4, 1, (0, 0, 0, 0))
    x = g.add("reshape", [x], shape=(1, 1, 1, 8))
    return g.add_with("rescale", [x], makers.rescale("INT8", [_ONE + (k << 27) for k in range(8)], [38] * 8))


@_smallest
def channel_scales_behind_a_concat(g: TensorGraph) -> Outputs:
    """A RESCALE that has a factor per channel follows a CONCAT, TILE or PAD along the channels.

    Each part uses the factors of the first channels.
    """
    x = g.add("concat", [g.add_input(n, (1, 4, 4, 4), "INT8") for n in "ab"], axis=3)
    return g.add_with("rescale", [x], makers.rescale("INT8", [_ONE + (k << 27) for k in range(8)], [31] * 8))


@_smallest
def wide_rescale_of_a_concat(g: TensorGraph) -> Outputs:
    """A RESCALE from INT8 to INT32 follows a CONCAT or a TILE.

    Every part of the concatenated tensor is written to the beginning of the result.
    """
    x = g.add("concat", [g.add_input(n, (1, 3, 8, 8), "INT8") for n in "ab"], axis=3)
    return _rescale(g, x, "INT32")


@_smallest
def concat_of_a_wide_rescale(g: TensorGraph) -> Outputs:
    """A CONCAT or PAD reads a RESCALE and does not place it at the beginning; the RESCALE converts INT32 to INT8 and
    Vela does not fuse it, or it converts to INT32.
    Vela does not fuse a RESCALE that has several shifts (for example, behind a TRANSPOSE_CONV2D), a RESCALE behind an
    INT32 ADD whose factor is not a power of two, or a RESCALE whose operand is an output or has another reader (for
    example, a product that two RESCALEs read).

    Vela rewrites the RESCALE as products (`RewriteRescale`), and their slice of channels replaces the slice that the
    CONCAT assigned.
    Therefore, the parts of the RESCALE are written to the beginning, over the other operand.
    `wide_rescale_of_a_slice`, `narrow_rescale_of_a_slice`, `wide_rescale_of_a_pad` and `wide_rescale_of_a_concat` have
    the same cause.
    **On U55 and U65, this defect makes the results of stock ExecuTorch's U-Net of the zoo wrong.**
    """
    x = g.add_input("x", (1, 4, 4, 4), "INT32")
    x = g.add_with("rescale", [x], makers.rescale("INT8", [2**31 - 1 - k for k in range(4)], [40, 39, 40, 40]))
    return g.add("concat", (g.add_input("y", (1, 4, 4, 4), "INT8"), x), axis=3)


@_smallest
def reshaped_slice(g: TensorGraph) -> Outputs:
    """A SLICE of channels is read in another shape, through TRANSPOSEs that cancel each other.

    Vela emits one copy for each piece of the SLICE, but every copy reads the first piece.
    """
    x = g.add("slice", (g.add_input("x", (1, 12, 5, 18), "INT8"),), start=(0, 0, 0, 6), size=(1, 12, 5, 10))
    x = g.add("transpose", (g.add("reshape", (x,), shape=(60, 2, 5, 1)),), perms=(0, 2, 1, 3))
    x = g.add("reshape", (g.add("reshape", (x,), shape=(1, 12, 5, 10)),), shape=(60, 5, 2, 1))
    return g.add("transpose", (x,), perms=(0, 2, 1, 3))


@_smallest
def part_of_the_weights(g: TensorGraph) -> Outputs:
    """The output of a convolution passes through a TRANSPOSE and a TABLE into a CONCAT.

    The convolution writes its output already transposed, but has weights and scales only for as many channels as the
    transposed output is wide; for the remaining channels, it has zeros or nothing.
    **The stock graph and the explicit graph of the zoo's MobileViT block have this defect: their weight decoder runs
    out of weights**, and eqsat prints a warning.
    """
    y = _rescale(g, _conv2d(g, g.add_input("x", (1, 3, 3, 4), "INT8"), 4, 1, (0, 0, 0, 0)), "INT8", _ONE, 34)
    y = g.add("transpose", (y,), perms=(0, 3, 1, 2))
    y = g.add_with("table", [y], makers.table(list(range(127, -129, -1))))
    return g.add("concat", (g.add_input("y", (1, 4, 3, 3), "INT8"), y), axis=1)


@_smallest
def wide_strides_of_a_slice(g: TensorGraph) -> Outputs:
    """A convolution with padding and strides above 3 follows a SLICE.

    The convolution does not read the slice.
    Rules create such graphs from patch embeddings that do not fill their last row, but eqsat does not return these
    graphs.
    """
    x = g.add("slice", (g.add_input("x", (1, 12, 12, 4), "INT8"),), start=(0, 0, 0, 0), size=(1, 10, 10, 4))
    weights = (np.arange(16 * 3 * 3 * 4) % 7 - 3).reshape(16, 3, 3, 4).astype(np.int8)
    operands = [x, g.add_const(weights, "INT8"), g.add_const(np.zeros(16, np.int32), "INT32")]
    return _rescale(
        g, g.add_with("conv2d", operands, makers.conv("INT8", pad=(1, 0, 1, 0), stride=(4, 4))), "INT8", _ONE, 34
    )


@_smallest
def too_early_behind_a_transpose(g: TensorGraph) -> Outputs:
    """A TRANSPOSE exchanges height and width, and a convolution, pooling operator or RESCALE reads the result in the
    shape of the TRANSPOSE's operand.
    The shapes agree if the image is square, or if a RESHAPE lies between the two operators.

    The TRANSPOSE writes in the shape of its operand, with exchanged strides.
    Because the shapes are equal, Vela sets BLOCKDEP as for equal layouts, and the convolution may start before the
    blocks that it reads have been written.
    Whether it does depends on the blocks: among 160 convolutions of square images with sides of 8 to 48 elements and 1
    to 16 channels, 31 start too early.
    The result on a device depends on how long each block takes.
    """
    x = g.add("transpose", (g.add_input("x", (1, 16, 16, 2), "INT8"),), perms=(0, 2, 1, 3))
    return _rescale(g, _conv2d(g, x, 48, 1, (0, 0, 0, 0)), "INT8", _ONE, 38)


@_smallest
def mask_that_is_an_output(g: TensorGraph) -> Outputs:
    """A SELECT reads a comparison or logical operator that is also an output of the graph.

    The zeros and ones of the output take the place of the mask, so SELECT chooses each bit separately.
    """
    x, y = (g.add_input(n, (1, 4, 5, 6), "INT8") for n in "xy")
    mask = g.add("greater", [_rescale(g, n, "INT32") for n in (x, y)])
    return mask, g.add("select", (mask, x, g.add_with("clamp", [x], makers.clamp("INT8", -9, 9))))


@_smallest
def negated_and_widened(g: TensorGraph) -> Outputs:
    """A RESCALE to INT32 follows a NEGATE of INT16 (or, in Vela 5.2 only, a BITWISE_NOT).

    Vela emits a single operation.
    In 5.2, this operation clamps the result to INT16; in 5.1, it does not saturate at -32,768, where NEGATE does.
    """
    x = g.add("negate", (g.add_input("x", (12,), "INT16"),), in_zp=(0,), out_zp=(0,))
    return _rescale(g, x, "INT32", _ONE, 26)


@_smallest
def maximum_to_unsigned(g: TensorGraph) -> Outputs:
    """A RESCALE to unsigned values follows a maximum (or a SELECT, REDUCE_MAX, REDUCE_MIN or BITWISE_NOT).

    Vela emits a single operation, which clamps values to 127 although they may reach 255.
    """
    x = g.add_with("max_pool2d", [g.add_input("x", (1, 4, 4, 8), "INT8")], makers.max_pool((2, 2)))
    return _rescale(g, x, "INT8", out_zp=-128, output_unsigned=True)


@_smallest
def minimum_in_another_shape(g: TensorGraph) -> Outputs:
    """A RESHAPE or TRANSPOSE follows a REDUCE_MIN.

    U55 and U65 have no minimum reduction, so Vela emits -1 - max(-1 - x).
    The last of these operations has the new shape, but reads the maximum as if it had only one row.
    """
    x = g.add_with("reduce_min", [g.add_input("x", (1, 3, 5, 8), "INT8")], makers.extremum(2))
    return g.add("reshape", (x,), shape=(1, 3, 8))


@_smallest
def widened_minimum(g: TensorGraph) -> Outputs:
    """A RESCALE to INT16 follows a REDUCE_MIN of INT8.

    The last operation applies the scale, but clamps the result to INT8.
    """
    x = g.add_with("reduce_min", [g.add_input("x", (16, 12), "INT8")], makers.extremum(0))
    return _rescale(g, x, "INT16", _ONE, 24)


@_smallest
def negated_to_unsigned(g: TensorGraph) -> Outputs:
    """A RESCALE to unsigned values follows a NEGATE.

    Vela emits a single operation, which clamps values to 127 although they may reach 255.
    """
    x = g.add("negate", (g.add_input("x", (1, 3, 7, 2), "INT8"),), in_zp=(3,), out_zp=(0,))
    return _rescale(g, x, "INT8", out_zp=-128, output_unsigned=True)


@_smallest
def zero_point_behind_an_empty_pad(g: TensorGraph) -> Outputs:
    """A convolution follows a PAD that adds no elements and whose value is not the zero point.

    The convolution takes the zero point of its input from the PAD.
    If the PAD adds elements, the binary is correct.
    """
    x = g.add_with("pad", [g.add_input("x", (1, 4, 5, 6), "INT8")], makers.pad((0,) * 8, 0))
    w = g.add_const(np.arange(48, dtype=np.int8).reshape(8, 1, 1, 6), "INT8")
    b = g.add_const(np.zeros(8, np.int32), "INT32")
    y = g.add_with("conv2d", [x, w, b], makers.conv("INT8", in_zp=-128))
    return _rescale(g, y, "INT8", _ONE, 37)


@_smallest
def activation_of_a_long_transpose(g: TensorGraph) -> Outputs:
    """A CLAMP or TABLE follows a TRANSPOSE of five axes, and one of these axes has a single element.

    The binary moves the data and ends with a copy, but it does not contain the CLAMP or TABLE.
    """
    x = g.add("transpose", (g.add_input("x", (1, 8, 4, 1, 4), "INT8"),), perms=(0, 3, 2, 1, 4))
    return g.add_with("clamp", [x], makers.clamp("INT8", -50, 90))


@_smallest
def activation_of_a_flat_transpose(g: TensorGraph) -> Outputs:
    """A CLAMP or TABLE follows a TRANSPOSE of five axes, and only two of these axes have more than one element.

    The binary does not contain the CLAMP or TABLE.
    For some of these graphs, Vela 5.1 for U55 and U65 emits pooling operations of nothing but padding; these binaries
    are not run.
    """
    x = g.add("transpose", (g.add_input("x", (4, 2, 1, 1, 1), "INT16"),), perms=(2, 1, 4, 0, 3))
    return g.add_with("clamp", [x], makers.clamp("INT16", -50, 90))


@_smallest
def clamps_around_a_transpose(g: TensorGraph) -> Outputs:
    """A TRANSPOSE lies between two CLAMPs.

    Vela emits one operation twice, both times with the range of the second CLAMP.
    """
    x = g.add_with("clamp", [g.add_input("x", (1, 6, 6, 8), "INT8")], makers.clamp("INT8", 18, 127))
    x = g.add("transpose", (x,), perms=(0, 2, 3, 1))
    return g.add_with("clamp", [x], makers.clamp("INT8", -3, 127))


@_smallest
def slice_of_fewer_axes(g: TensorGraph) -> Outputs:
    """A SLICE of five axes is reshaped to four axes, and a CONCAT or RESCALE reads the result.

    Every image that is read is the first image, or the padding behind the first image.
    For U55 and U65, Vela crashes on the CONCAT.
    """
    x = g.add("slice", (g.add_input("x", (2, 3, 2, 4, 5), "INT8"),), start=(0, 0, 0, 0, 0), size=(1, 3, 2, 4, 5))
    x = g.add("reshape", (x,), shape=(3, 2, 4, 5))
    return g.add("concat", (x, g.add_input("y", (3, 2, 4, 5), "INT8")), axis=1)


@_smallest
def padded_depthwise_with_a_multiplier(g: TensorGraph) -> Outputs:
    """A PAD follows a DEPTHWISE_CONV2D that has two output channels per input channel.

    The convolution becomes several operations, which write to the beginning of the padded tensor; zeros follow.
    """
    w = g.add_const((np.arange(24) % 7 - 3).reshape(1, 1, 12, 2).astype(np.int8), "INT8")
    b = g.add_const(np.zeros(1, np.int32), "INT32")
    x = g.add_with("depthwise_conv2d", [g.add_input("x", (1, 1, 1, 12), "INT8"), w, b], makers.conv("INT8"))
    y = _rescale(g, x, "INT8", _ONE, 34)
    return g.add_with("pad", [y], makers.pad((0, 0, 0, 1, 1, 0, 0, 0), 0))


@_smallest
def narrowing_cast(g: TensorGraph) -> Outputs:
    """A CAST converts to a type with fewer bits.

    The binary saturates, although TOSA discards the upper bits.
    On U85, the binary writes a result that does not fit into its type, and it is not known what the device does with
    it.
    """
    return g.add("cast", (g.add_input("x", (1, 5, 3, 4), "INT32"),), dtype="INT16")


def verdict(defect: Defect, target: Target, via: Worker) -> Verdict:
    """Returns whether the binary equals the reference.

    Raises WorkerError if Vela refuses the graph.
    """
    return verify(dumps(GRAPHS[defect.name]()), target, via, 16)


def is_wrong(defect: Defect, target: Target) -> bool:
    """Tells whether the table says that the installed Vela compiles the graph of a defect incorrectly."""
    return defect.seen and defect.is_in(target.family, version())


def _told(defect: Defect, target: Target, via: Worker) -> str:
    """Returns a description of what happened to the graph of a defect."""
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
