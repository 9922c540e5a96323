"""Compiles the smallest graph of each Vela defect (`eqsat/vela/defects.py`) and shows which graphs the installed
version still compiles incorrectly.

    python -m benchmarks.vela_defects [-t ethos-u55-128 ...]

Each binary is run on the functional model and compared with the TOSA reference model (`docs/vela-defects.md`).
The first paragraph of a docstring describes the graph, and the second describes what the binary does.

Takes a compilation and a run for each defect and target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from benchmarks.study import TARGETS, arguments
from eqsat.device.verification import Verdict
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Worker
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.flatbuffer import dumps
from eqsat.vela.defects import DEFECTS, Defect
from eqsat.vela.facts import version
from tests.device.verify import verify
from tests.term import Term, graph

#: The multiplier of the scale 1 for a shift of 30.
_ONE = 1 << 30
Outputs = Term | tuple[Term, ...]
#: The smallest graph of each defect, by its name.
GRAPHS: dict[str, Callable[[], TensorGraph]] = {}
#: Defects whose graphs Vela refuses on the families without the defect.
REFUSED_ELSEWHERE = {"wide_strides_of_a_slice", "mask_that_is_an_output", "slice_of_fewer_axes"}
#: Defects whose binaries the functional model cannot run on the families without the defect.
NOT_RUN_ELSEWHERE = {"narrowing_cast"}


def _smallest(inputs: str) -> Callable[[Callable[..., Outputs]], Callable[[], TensorGraph]]:
    """Returns a decorator for what makes a graph of inputs (as of `tests.term.graph`), which it adds to GRAPHS."""

    def add(build: Callable[..., Outputs]) -> Callable[[], TensorGraph]:
        return GRAPHS.setdefault(build.__name__, wraps(build)(lambda: graph(inputs, build)))

    return add


def _conv2d(x: Term, channels: int, kernel: int = 1, pad: Sequence[int] = (0, 0, 0, 0), **more: Any) -> Term:
    shape = channels, kernel, kernel, x.shape[3]
    return x.conv((np.arange(np.prod(shape)) % 7 - 3).reshape(shape), np.zeros(channels), pad=pad, **more)


@_smallest("x:INT8[6,10]")
def minimum_beside_another_shape(x: Term) -> Outputs:
    """A REDUCE_MIN reads a tensor that a RESHAPE or TRANSPOSE also reads.

    U55 and U65 have no minimum reduction, so Vela emits -1 - max(-1 - x). The last of these operations reads the
    maximum in the shape of the other reader. `minimum_in_another_shape` is a related defect. A REDUCE_MAX in place of
    the REDUCE_MIN is compiled correctly.
    """
    return x.reduce("min", 1), x.reshape(6, 2, 5).clamp(-50, 90)


@_smallest("x:INT8[1,4,4,8]")
def equal_weights(x: Term) -> Outputs:
    """Several convolutions have equal weights and scales but different biases.

    All of these convolutions get the biases of the first one.
    eqsat used to create such graphs from batch normalizations, before it checked binaries.
    """
    for bias in (100, -700):
        x = x.conv(np.full((8, 1, 1, 8), 3), np.full(8, bias)).rescale("INT8", _ONE, 34)
    return x


@_smallest("x:INT8[2,1,8,64]")
def activation_of_several_images(x: Term) -> Outputs:
    """A pointwise CONV2D of more than one image is followed by a RESCALE and then by a CLAMP or TABLE.

    A single operation reads the images as rows of one shape, but writes rows of another shape.
    This defect occurred in the linear layers of a transformer, in the form with the lowest cost.
    The result of eqsat 0.1 for attention on U65 was one of these graphs.
    """
    return _conv2d(x, 16).rescale("INT8", _ONE, 36).clamp(0, 90)


@_smallest("x:INT8[2,1,2,2]")
def activation_of_reduced_images(x: Term) -> Outputs:
    """A REDUCE_MAX, REDUCE_MIN or REDUCE_SUM within each of several images is followed by a CLAMP or TABLE, either
    directly or behind a RESCALE.

    A single operation reads the images as rows of one shape, but writes rows of another shape.
    For a REDUCE_SUM on U55 and U65, the operation may also read past the end of the weights that Vela encodes, so that
    the bytes of the binary differ from run to run.
    This defect occurs in the softmax of an attention with several heads, including in stock ExecuTorch's delegate.
    """
    return x.reduce("max", 3).clamp(0, 90)


@_smallest("x:INT8[1,4,4,8]")
def lost_output(x: Term) -> Outputs:
    """An output of the graph is a TRANSPOSE (or, for some shapes, a RESHAPE) that is read only by another TRANSPOSE.

    Vela merges the two operators into one, and the binary no longer has this output: ExecuTorch's runtime finds fewer
    outputs than the delegate has. **Stock ExecuTorch's delegate has this defect for an encoder whose skip connections
    leave the delegate**, if an operator on the CPU follows (`unet_bilinear` in the zoo). eqsat treats such a binary as
    if Vela had refused the graph.
    """
    y = x.clamp(0, 90).transpose(0, 3, 1, 2)
    return y, y.transpose(0, 2, 3, 1).clamp(0, 50)


@_smallest("x:INT8[1,4,4,8]")
def sum_with_itself(x: Term) -> Outputs:
    """A tensor is added to itself (x + x), and each operand is rescaled by the `2**20` that ExecuTorch uses.

    The sum is halved, as seen on Arm's FVP (executorch pull request 21151). Vela 5.0 to 5.2 do not fuse equal scales
    that do not fit into 16 bits. The functional model cuts scales to 16 bits, so it would show the defect.
    """
    wide = x.rescale("INT32", _ONE, 10)
    return (wide + wide).rescale("INT8", _ONE, 51)


@_smallest("a:INT8[1,4,4,8] b:INT8[1,4,4,8]")
def sum_of_equal_scales(a: Term, b: Term) -> Outputs:
    """The operands of a sum are rescaled by the same factor.

    The defect is the same as `sum_with_itself`.
    """
    return (a.rescale("INT32", _ONE, 10) + b.rescale("INT32", _ONE, 10)).rescale("INT8", _ONE, 51)


@_smallest("a:INT8[1,4,4,8] b:INT8[1,4,4,8]")
def sum_of_large_scales(a: Term, b: Term) -> Outputs:
    """The operands of a sum are rescaled by different factors, and the larger factor is not the `2**19` that is built
    into the hardware.

    The defect is the same as `sum_with_itself`.
    """
    return (a.rescale("INT32", _ONE, 10) + b.rescale("INT32", 3 * _ONE // 4, 10)).rescale("INT8", _ONE, 51)


@_smallest("a:INT8[1,4,4,8] b:INT8[1,4,4,8]")
def sum_of_unlike_integers(a: Term, b: Term) -> Outputs:
    """A RESCALE to INT8 or INT16 reads an INT32 sum or difference whose operands are rescaled by different integers
    below `2**15`.

    The sum is scaled incorrectly. Equal integers are compiled correctly. Vela does not fuse the RESCALEs if one of the
    factors is a fraction or is `2**15` or more, so such graphs are also compiled correctly.
    """
    return (a.rescale("INT32", 1 << 28, 28) + b.rescale("INT32", 3 << 28, 28)).rescale("INT8", _ONE, 33)


@_smallest("x:INT8[1,4,4,8] y:INT8[1,4,4,8]")
def shared_rescale(x: Term, y: Term) -> Outputs:
    """Two operators read the same RESCALE to INT32.

    Both operators read zeros (executorch issue 21415).
    If the cause is a hazard between overlapping operations, the functional model cannot show it.
    """
    a, b = x.rescale("INT32", _ONE, 11, in_zp=3), y.rescale("INT32", 3 << 28, 11)
    return (a + b).rescale("INT8", _ONE, 50), (b - a).rescale("INT8", _ONE, 50)


@_smallest("x:INT8[1,4,4,8] y:INT8[1,4,4,8]")
def shared_rescale_of_unlike_readers(x: Term, y: Term) -> Outputs:
    """A sum and a maximum read the same RESCALE to INT32.

    The defect is the same as `shared_rescale`, and the guard of `shared_rescale` covers this graph, too.
    """
    a, b = x.rescale("INT32", _ONE, 30, in_zp=3), y.rescale("INT32", _ONE, 30, in_zp=-5)
    return (a + b).rescale("INT8", _ONE, 32), a.max(b).rescale("INT8", _ONE, 32)


@_smallest("x:INT8[1,4,4,8]")
def shared_rescale_of_a_mean(x: Term) -> Outputs:
    """A sum over channels and a product read the same RESCALE to INT32.

    The defect is the same as `shared_rescale`, and the guard of `shared_rescale` covers this graph, too.
    """
    wide = x.rescale("INT32", _ONE, 30, in_zp=3)
    return (wide * wide).rescale("INT8", _ONE, 38), wide.reduce("sum", 3).rescale("INT8", _ONE, 33)


@_smallest("x:INT8[1,4,4,8] y:INT8[1,4,4,8]")
def wide_rescale(x: Term, y: Term) -> Outputs:
    """A RESCALE reads INT32 and produces INT32.

    According to ExecuTorch's Arm backend, the RESCALE produces zeros on a device. The functional model has no notion of
    time, so it cannot show a hazard between overlapping operations. eqsat gives such a RESCALE a price if the input
    graph contains it, and accepts an input graph that breaks the guard if its binary was found to be correct.
    """
    total = x.rescale("INT32", _ONE, 30, in_zp=3) + y.rescale("INT32", _ONE, 30)
    return total.rescale("INT32", _ONE, 26).rescale("INT8", _ONE, 35)


@_smallest("x:INT8[1,8,8,8]")
def scaled_maximum(x: Term) -> Outputs:
    """A RESCALE follows a MAX_POOL2D.

    Vela emits one operation, a maximum with a scale, but the hardware does not apply the scale.
    The changelog of Vela 5.2 mentions this defect.
    """
    return x.largest(2, 2, stride=(2, 2)).rescale("INT8", _ONE, 31)


@_smallest("x:INT8[2,4,4,4]")
def padded_convolution_of_a_slice(x: Term) -> Outputs:
    """A SLICE is followed by a convolution or pooling operator that processes more than one image and has padding above
    or to the left.

    All of the padding is added below and to the right instead.
    """
    return _conv2d(x.part(1, 3, 3), 8, 3, (1, 1, 1, 1)).rescale("INT8", _ONE, 37)


@_smallest("x:INT8[1,12,12]")
def wide_rescale_of_a_slice(x: Term) -> Outputs:
    """A RESCALE from INT8 to INT32 follows a SLICE, and Vela does not fuse the RESCALE into another operator.

    Vela emits two operations.
    The second operation has the size of the entire tensor, so it writes past the end of its own result.
    This defect occurred in a mean over a slice, in a Swin block that eqsat chose before it checked binaries.
    """
    return x.part(7, 4, 2).rescale("INT32", _ONE, 30, in_zp=3)


@_smallest("x:INT32[1,12,12]")
def narrow_rescale_of_a_slice(x: Term) -> Outputs:
    """A RESCALE from INT32 to INT8 follows a SLICE.

    The operation of the RESCALE has the size of the entire tensor, so it reads the wrong elements and writes past the
    end of its own result. This defect occurred in a recurrent network whose products of one matrix with each step were
    computed as one convolution, followed by SLICEs of the INT32 sums. Adding zero between the SLICE and the RESCALE
    avoids the defect and costs less than the RESCALE of a SLICE.
    """
    return x.part(7, 4, 2).rescale("INT8", _ONE, 30)


@_smallest("x:INT8[14]")
def wide_rescale_of_a_pad(x: Term) -> Outputs:
    """A RESCALE from INT8 to INT32 follows a PAD.

    Every part of the padded tensor is written to the beginning of the result.
    """
    return x.pad((1, 1), 0).rescale("INT32", _ONE, 30)


@_smallest("x:INT32[1,12,2,4,2]")
def constant_first(x: Term) -> Outputs:
    """The first operand of an INT32 ADD, SUB, MUL, MAXIMUM or MINIMUM is a constant or tensor with one element, and the
    second operand is a tensor with five or six axes.

    The operation reads the one-element operand as if it had the size of the second operand, past its end, and combines
    every element that it reads with a single element of the second operand.
    If the operands are exchanged, the binary is correct.
    """
    return x.const(5) + x


@_smallest("x:INT32[8,7]")
def unsigned_rescale(x: Term) -> Outputs:
    """A RESCALE to INT8 is followed by a RESCALE to unsigned values.

    Vela emits a single operation, which clamps values to 127 although they may reach 255.
    """
    narrow = x.rescale("INT8", _ONE, 36)
    return narrow.rescale("INT8", _ONE, 30, out_zp=-128, output_unsigned=True)


@_smallest("x:INT8[1,1,1,6]")
def transposed_convolution_with_output_padding(x: Term) -> Outputs:
    """A TRANSPOSE_CONV2D with stride 2 has output padding that adds rows below.

    The added rows overwrite the first rows.
    """
    weights = np.arange(1, 7).reshape(1, 1, 1, 6)
    sums = x.conv(weights, op="transpose_conv2d", out_pad=(0, 0, 1, 0), stride=(2, 1), in_zp=-128)
    return sums.rescale("INT8", _ONE, 37)


@_smallest("x:INT8[6,10]")
def maximum_of_a_slice(x: Term) -> Outputs:
    """A REDUCE_MAX (on U85 also a REDUCE_MIN) follows a SLICE or precedes a PAD or CONCAT.

    Behind a SLICE, the operation reads the tensor from its first element and reads the entire reduced axis.
    In front of a PAD or CONCAT, the operation writes its rows directly one after another.
    """
    return x.part(4, 2).reduce("max", 1)


@_smallest("x:INT8[1,6,8,16]")
def sum_of_a_slice(x: Term) -> Outputs:
    """A REDUCE_SUM along the last axis follows a SLICE.

    The operation reads the tensor from its first element instead of the first element of the slice.
    This defect occurs in means over part of a tensor, for example in the LayerNorm of a Swin block.
    """
    return x.part(2, 4, 1).rescale("INT32", _ONE, 30).reduce("sum", 3).rescale("INT8", _ONE, 34)


@_smallest("x:INT8[1,6,6,8] y:INT8[4,8,6]")
def product_of_a_slice(x: Term, y: Term) -> Outputs:
    """The first operand of a MATMUL is a SLICE.

    Every product reads from the beginning of the entire tensor, and reads as many channels as the entire tensor has.
    """
    return x.part(0, 4, 1).reshape(4, 6, 8).matmul(y, 3, 3)


@_smallest("x:INT32[1,1,1,32]")
def channel_scales_before_slices(x: Term) -> Outputs:
    """SLICEs of channels follow an INT32 RESCALE that has a factor per channel, and one operator reads several of these
    SLICEs.

    Vela gives each SLICE its own RESCALE, but all of these RESCALEs use the factors of the first one. This defect
    occurred in the gates of a recurrent network. A TABLE between the RESCALE and the SLICEs that leaves every value as
    it is avoids the defect. It costs nothing, since Vela fuses it into the RESCALE.
    """
    y = x.rescale("INT8", [_ONE + (k << 24) for k in range(32)], [39] * 32)
    first, second = (y.part(at, 16, 3).rescale("INT32", _ONE, 10) for at in (0, 16))
    return (first + second).rescale("INT8", _ONE, 50)


@_smallest("x:INT8[1,1,2,4]")
def channel_scales_behind_a_reshape(x: Term) -> Outputs:
    """A RESCALE that has a factor per channel follows a convolution and a RESHAPE that merges positions into channels.

    All positions use the factors of the first position.
    """
    sums = _conv2d(x, 4).reshape(1, 1, 1, 8)
    return sums.rescale("INT8", [_ONE + (k << 27) for k in range(8)], [38] * 8)


@_smallest("a:INT8[1,4,4,4] b:INT8[1,4,4,4]")
def channel_scales_behind_a_concat(a: Term, b: Term) -> Outputs:
    """A RESCALE that has a factor per channel follows a CONCAT, TILE or PAD along the channels.

    Each part uses the factors of the first channels.
    """
    return a.concat(b, axis=3).rescale("INT8", [_ONE + (k << 27) for k in range(8)], [31] * 8)


@_smallest("a:INT8[1,3,8,8] b:INT8[1,3,8,8]")
def wide_rescale_of_a_concat(a: Term, b: Term) -> Outputs:
    """A RESCALE from INT8 to INT32 follows a CONCAT or a TILE.

    Every part of the concatenated tensor is written to the beginning of the result.
    """
    return a.concat(b, axis=3).rescale("INT32", _ONE, 30)


@_smallest("x:INT32[1,4,4,4] y:INT8[1,4,4,4]")
def concat_of_a_wide_rescale(x: Term, y: Term) -> Outputs:
    """A CONCAT or PAD reads a RESCALE and does not place it at the beginning; the RESCALE converts INT32 to INT8 and
    Vela does not fuse it, or it converts to INT32. Vela does not fuse a RESCALE that has several shifts (for example,
    behind a TRANSPOSE_CONV2D), a RESCALE behind an INT32 ADD whose factor is not a power of two, or a RESCALE whose
    operand is an output or has another reader (for example, a product that two RESCALEs read).

    Vela rewrites the RESCALE as products (`RewriteRescale`), and their slice of channels replaces the slice that the
    CONCAT assigned. Therefore, the parts of the RESCALE are written to the beginning, over the other operand.
    `wide_rescale_of_a_slice`, `narrow_rescale_of_a_slice`, `wide_rescale_of_a_pad` and `wide_rescale_of_a_concat` have
    the same cause. **On U55 and U65, this defect makes the results of stock ExecuTorch's U-Net of the zoo wrong.**
    """
    return y.concat(x.rescale("INT8", [2**31 - 1 - k for k in range(4)], [40, 39, 40, 40]), axis=3)


@_smallest("x:INT8[1,12,5,18]")
def reshaped_slice(x: Term) -> Outputs:
    """A SLICE of channels is read in another shape, through TRANSPOSEs that cancel each other.

    Vela emits one copy for each piece of the SLICE, but every copy reads the first piece.
    """
    y = x.part(6, 10, 3).reshape(60, 2, 5, 1).transpose(0, 2, 1, 3)
    return y.reshape(1, 12, 5, 10).reshape(60, 5, 2, 1).transpose(0, 2, 1, 3)


@_smallest("x:INT8[1,3,3,4] y:INT8[1,4,3,3]")
def part_of_the_weights(x: Term, y: Term) -> Outputs:
    """The output of a convolution passes through a TRANSPOSE and a TABLE into a CONCAT.

    The convolution writes its output already transposed, but has weights and scales only for as many channels as the
    transposed output is wide; for the remaining channels, it has zeros or nothing.
    **The stock graph and the explicit graph of the zoo's MobileViT block have this defect: their weight decoder runs
    out of weights**, and eqsat prints a warning.
    """
    z = _conv2d(x, 4).rescale("INT8", _ONE, 34).transpose(0, 3, 1, 2)
    return y.concat(z.table(range(127, -129, -1)), axis=1)


@_smallest("x:INT8[1,12,12,4]")
def wide_strides_of_a_slice(x: Term) -> Outputs:
    """A convolution with padding and strides above 3 follows a SLICE.

    The convolution does not read the slice.
    Rules create such graphs from patch embeddings that do not fill their last row.
    """
    part = x("slice", start=(0, 0, 0, 0), size=(1, 10, 10, 4))
    return _conv2d(part, 16, 3, (1, 0, 1, 0), stride=(4, 4)).rescale("INT8", _ONE, 34)


@_smallest("x:INT8[1,16,16,2]")
def too_early_behind_a_transpose(x: Term) -> Outputs:
    """A TRANSPOSE exchanges height and width, and a convolution, pooling operator or RESCALE reads the result in the
    shape of the TRANSPOSE's operand. The shapes agree if the image is square, or if a RESHAPE lies between the two
    operators.

    The TRANSPOSE writes in the shape of its operand, with exchanged strides. Because the shapes are equal, Vela sets
    BLOCKDEP as for equal layouts, and the convolution may start before the blocks that it reads have been written.
    Whether it does depends on the blocks: among 160 convolutions of square images with sides of 8 to 48 elements and 1
    to 16 channels, 31 start too early. The result on a device depends on how long each block takes.
    """
    return _conv2d(x.transpose(0, 2, 1, 3), 48).rescale("INT8", _ONE, 38)


@_smallest("x:INT8[1,1,64,16]")
def too_early_behind_an_activation(x: Term) -> Outputs:
    """A CLAMP or TABLE follows a TRANSPOSE or REVERSE, and a convolution or another operator reads the result.

    A single operation transposes or reverses and applies the activation. Vela sets BLOCKDEP to 0 behind a result that
    is transposed or reversed, but looks for that at the activation, which is not. So the reader may start before the
    blocks that it reads have been written. Whether it does depends on the blocks: on U85, with a CLAMP or TABLE between
    a TRANSPOSE and a pointwise convolution, 96 of 144 graphs start too early, and none of 72 without. This defect
    occurred in a LeViT that eqsat chose before it checked results that are transposed. The result on a device depends
    on how long each block takes. Where eqsat finds that a binary has it, activations behind all of these operators have
    a price of their own from then on, so that they are applied before them.
    """
    x = x.transpose(0, 1, 3, 2).table(range(127, -129, -1))
    return _conv2d(x, 48, 3, pad=(1, 1, 1, 1)).rescale("INT8", _ONE, 38)


@_smallest("x:INT8[1,4,5,6] y:INT8[1,4,5,6]")
def mask_that_is_an_output(x: Term, y: Term) -> Outputs:
    """A SELECT reads a comparison or logical operator that is also an output of the graph.

    The zeros and ones of the output take the place of the mask, so SELECT chooses each bit separately.
    """
    mask = x.rescale("INT32", _ONE, 30) > y.rescale("INT32", _ONE, 30)
    return mask, mask("select", x, x.clamp(-9, 9))


@_smallest("x:INT16[12]")
def negated_and_widened(x: Term) -> Outputs:
    """A RESCALE to INT32 follows a NEGATE of INT16 (or, in Vela 5.2 only, a BITWISE_NOT).

    Vela emits a single operation.
    In 5.2, this operation clamps the result to INT16; in 5.1, it does not saturate at -32,768, where NEGATE does.
    """
    return x.negate().rescale("INT32", _ONE, 26)


@_smallest("x:INT8[1,4,4,8]")
def maximum_to_unsigned(x: Term) -> Outputs:
    """A RESCALE to unsigned values follows a maximum (or a SELECT, REDUCE_MAX, REDUCE_MIN or BITWISE_NOT).

    Vela emits a single operation, which clamps values to 127 although they may reach 255.
    """
    return x.largest(2, 2).rescale("INT8", _ONE, 30, out_zp=-128, output_unsigned=True)


@_smallest("x:INT8[1,3,5,8]")
def minimum_in_another_shape(x: Term) -> Outputs:
    """A RESHAPE or TRANSPOSE follows a REDUCE_MIN.

    U55 and U65 have no minimum reduction, so Vela emits -1 - max(-1 - x).
    The last of these operations has the new shape, but reads the maximum as if it had only one row.
    """
    return x.reduce("min", 2).reshape(1, 3, 8)


@_smallest("x:INT8[16,12]")
def widened_minimum(x: Term) -> Outputs:
    """A RESCALE to INT16 follows a REDUCE_MIN of INT8.

    The last operation applies the scale, but clamps the result to INT8.
    """
    return x.reduce("min", 0).rescale("INT16", _ONE, 24)


@_smallest("x:INT8[1,3,7,2]")
def negated_to_unsigned(x: Term) -> Outputs:
    """A RESCALE to unsigned values follows a NEGATE.

    Vela emits a single operation, which clamps values to 127 although they may reach 255.
    """
    return x.negate(3, 0).rescale("INT8", _ONE, 30, out_zp=-128, output_unsigned=True)


@_smallest("x:INT8[1,4,5,6]")
def zero_point_behind_an_empty_pad(x: Term) -> Outputs:
    """A convolution follows a PAD that adds no elements and whose value is not the zero point.

    The convolution takes the zero point of its input from the PAD. If the PAD adds elements, the binary is correct.
    """
    sums = x.pad((0,) * 8, 0).conv(np.arange(48).reshape(8, 1, 1, 6), np.zeros(8), in_zp=-128)
    return sums.rescale("INT8", _ONE, 37)


@_smallest("x:INT8[1,8,4,1,4]")
def activation_of_a_long_transpose(x: Term) -> Outputs:
    """A CLAMP or TABLE follows a TRANSPOSE of five axes, and one of these axes has a single element.

    The binary moves the data and ends with a copy, but it does not contain the CLAMP or TABLE.
    """
    return x.transpose(0, 3, 2, 1, 4).clamp(-50, 90)


@_smallest("x:INT16[4,2,1,1,1]")
def activation_of_a_flat_transpose(x: Term) -> Outputs:
    """A CLAMP or TABLE follows a TRANSPOSE of five axes, and only two of these axes have more than one element.

    The binary does not contain the CLAMP or TABLE. For some of these graphs, Vela 5.1 for U55 and U65 emits pooling
    operations of nothing but padding; these binaries are not run.
    """
    return x.transpose(2, 1, 4, 0, 3).clamp(-50, 90)


@_smallest("x:INT8[1,6,6,8]")
def clamps_around_a_transpose(x: Term) -> Outputs:
    """A TRANSPOSE lies between two CLAMPs.

    Vela emits one operation twice, both times with the range of the second CLAMP.
    """
    return x.clamp(18, 127).transpose(0, 2, 3, 1).clamp(-3, 127)


@_smallest("x:INT8[2,3,2,4,5] y:INT8[3,2,4,5]")
def slice_of_fewer_axes(x: Term, y: Term) -> Outputs:
    """A SLICE of five axes is reshaped to four axes, and a CONCAT or RESCALE reads the result.

    Every image that is read is the first image, or the padding behind the first image.
    For U55 and U65, Vela crashes on the CONCAT.
    """
    return x.part(0).reshape(3, 2, 4, 5).concat(y, axis=1)


@_smallest("x:INT8[1,1,1,12]")
def padded_depthwise_with_a_multiplier(x: Term) -> Outputs:
    """A PAD follows a DEPTHWISE_CONV2D that has two output channels per input channel.

    The convolution becomes several operations, which write to the beginning of the padded tensor; zeros follow.
    """
    weights = (np.arange(24) % 7 - 3).reshape(1, 1, 12, 2)
    return x.conv(weights, op="depthwise_conv2d").rescale("INT8", _ONE, 34).pad((0, 0, 0, 1, 1, 0, 0, 0), 0)


@_smallest("x:INT32[1,5,3,4]")
def narrowing_cast(x: Term) -> Outputs:
    """A CAST converts to a type with fewer bits.

    The binary saturates, although TOSA discards the upper bits. On U85, the binary writes a result that does not fit
    into its type, and it is not known what the device does with it.
    """
    return x.cast("INT16")


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
    wrong, not_run = is_wrong(defect, target), found.equal is None
    as_known = not wrong and defect.name in NOT_RUN_ELSEWHERE if not_run else found.equal is not wrong
    told = "equal" if found.equal else f"{'not run: ' if not_run else ''}{found.reason}"
    return told if as_known else f"NOT AS IN THE TABLE: {told}"


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
