"""Rewrites a convolution on blocks of pixels, or with other strides, dilations and channels.

A convolution with constant weights is an integer-linear map.
Along an axis, read its elements in blocks, which become channels, and write its results in
blocks too.
That is a convolution over blocks.
Its kernel has the old weights in the right places and zeros elsewhere.
Zero weights add nothing to the accumulator, since weights have zero point 0.
So every form is equal to the bit.
Strides, dilations, space-to-depth, PixelShuffle and transposed convolutions are special cases.

>>> blocked = Axis(size=391, kernel=21, stride=10).blocked(10)
>>> blocked.blocks, blocked.kernel, blocked.stride, blocked.appended
(40, 3, 1, 9)

For W of an NHWC tensor both regroupings are views.
For H they are transposes, which may cancel elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqsat.tensor.movement import Move
from eqsat.tensor.types import Shape


@dataclass(frozen=True, slots=True)
class Axis:
    """A convolution along one axis: `size` elements in, `kernel` taps, `low` and `high` padding."""

    size: int
    kernel: int
    stride: int = 1
    dilation: int = 1
    low: int = 0
    high: int = 0

    @property
    def results(self) -> int:
        """Number of results (TOSA 1.0, CONV2D)."""
        return (self.size - 1 + self.low + self.high - (self.kernel - 1) * self.dilation) // self.stride + 1

    def blocked(self, block: int) -> BlockedAxis | None:
        """Returns the convolution on blocks of `block` elements.

        Returns None unless the stride divides the block or the block divides the stride.
        Result r of a block reads the elements stride * r - low + dilation * t.
        They are counted from the block's first element.
        """
        if block % self.stride == 0:
            outputs, stride = block // self.stride, 1
        elif self.stride % block == 0:
            outputs, stride = 1, self.stride // block
        else:
            return None
        reads = [
            (r, t, self.stride * r - self.low + self.dilation * t) for r in range(outputs) for t in range(self.kernel)
        ]
        first = min(e for _, _, e in reads) // block
        taps = tuple((e // block - first, r, e % block, t) for r, t, e in reads)
        kernel = 1 + max(tap[0] for tap in taps)
        blocks, result_blocks = -(-self.size // block), -(-self.results // outputs)
        high = (result_blocks - 1) * stride + kernel + first - blocks
        return BlockedAxis(
            block,
            outputs,
            stride,
            kernel,
            -first,
            high,
            blocks,
            blocks * block - self.size,
            self.results,
            taps,
            self.high > 0,
        )


@dataclass(frozen=True, slots=True)
class TransposedAxis:
    """A transposed convolution along one axis.

    Element i adds tap t to result stride * i + low + t (TOSA: out_pad).
    """

    size: int
    kernel: int
    stride: int
    low: int = 0
    high: int = 0

    @property
    def results(self) -> int:
        """Number of results (TOSA 1.0, TRANSPOSE_CONV2D)."""
        return (self.size - 1) * self.stride + self.low + self.high + self.kernel

    def blocked(self) -> BlockedAxis | None:
        """Returns the convolution with `stride` results per block of one element.

        Returns None if it does not read all of its input.
        """
        reads = [
            (r, t, (r - self.low - t) // self.stride)
            for r in range(self.stride)
            for t in range(self.kernel)
            if (r - self.low - t) % self.stride == 0
        ]
        first, last = min(e for *_, e in reads), max(e for *_, e in reads)
        result_blocks = -(-self.results // self.stride)
        high = result_blocks + last - self.size
        taps = tuple((e - first, r, 0, t) for r, t, e in reads)
        made = BlockedAxis(
            1,
            self.stride,
            1,
            last - first + 1,
            -first,
            high,
            self.size,
            0,
            self.results,
            taps,
            appended_is_padding=False,
        )
        return made if made.low >= 0 and high >= 0 else None


@dataclass(frozen=True, slots=True)
class BlockedAxis:
    """A convolution over blocks along one axis.

    block: elements of a block.
    outputs: results of a block of results.
    stride, kernel, low, high: of the convolution over `blocks` blocks.
    appended: elements that the input lacks for whole blocks.
    results: number of results that count.
    taps: (position in the kernel, result in its block, element in its block, old tap).
    appended_is_padding: whether results that count read appended elements in place of padding.
    """

    block: int
    outputs: int
    stride: int
    kernel: int
    low: int
    high: int
    blocks: int
    appended: int
    results: int
    taps: tuple[tuple[int, int, int, int], ...] = field(repr=False)
    appended_is_padding: bool

    @property
    def result_blocks(self) -> int:
        return (self.blocks + self.low + self.high - self.kernel) // self.stride + 1

    def weights(self, values: NDArray[Any]) -> NDArray[Any]:
        """Lays out weights [taps, channels out, other axis, channels in] for the blocks.

        Returns [kernel, outputs * out, other, block * in].
        Channels out are ordered by (result in the block, old channel).
        Channels in are ordered by (element of the block, old channel).
        """
        _, out, other, channels = values.shape
        laid = np.zeros((self.kernel, self.outputs, out, other, self.block, channels), values.dtype)
        for place, result, element, tap in self.taps:
            laid[place, result, :, :, element] = values[tap]
        return laid.reshape(self.kernel, self.outputs * out, other, self.block * channels)


@dataclass(frozen=True, slots=True)
class Spelling:
    """Another convolution with the same results, and what is done before and after it.

    x [N, H, W, C] gets `appended` rows and columns at its ends and goes through `read`.
    The convolution is `op` with `attributes` (stride, pad, dilation), `weights` and `bias`.
    `lay` lays out its weights, of shape `weights_shape`; those of blocks are large, and most are never asked for.
    Its result goes through `write`, after which the first `results` rows and columns count.
    appended_is_padding: appended elements must be the input's zero point, else they are free.
    """

    op: str
    attributes: Mapping[str, Any]
    weights_shape: Shape
    lay: Callable[[], NDArray[Any]]
    bias: NDArray[Any]
    read: Move
    write: Move
    appended: tuple[int, int] = (0, 0)
    appended_is_padding: bool = False

    results: tuple[int, int] = (0, 0)

    @property
    def weights(self) -> NDArray[Any]:
        return self.lay()

    @property
    def has_surplus(self) -> bool:
        return self.write.out_shape[1:3] != self.results


def on_blocks(
    shape: Shape, weights: NDArray[Any], bias: NDArray[Any], height: BlockedAxis, width: BlockedAxis
) -> Spelling:
    """Returns a convolution with weights [OC, KH, KW, IC] as a CONV2D on blocks of H and W.

    shape: of the input, [N, H, W, C].
    It may be a CONV2D or a TRANSPOSE_CONV2D.
    """

    def lay() -> NDArray[Any]:
        laid = width.weights(weights.transpose(2, 0, 1, 3)).transpose(2, 1, 0, 3)
        return np.ascontiguousarray(height.weights(laid).transpose(1, 0, 2, 3))

    (n, *_, c), out = shape, len(bias)
    outputs, block = height.outputs * width.outputs, height.block * width.block
    read = space_to_depth((n, height.blocks * height.block, width.blocks * width.block, c), (height.block, width.block))
    results = (n, height.result_blocks * height.outputs, width.result_blocks * width.outputs, out)
    return Spelling(
        "conv2d",
        {
            "stride": (height.stride, width.stride),
            "pad": (height.low, height.high, width.low, width.high),
            "dilation": (1, 1),
        },
        (outputs * weights.shape[0], height.kernel, width.kernel, block * weights.shape[3]),
        lay,
        np.tile(bias, outputs),
        read,
        space_to_depth(results, (height.outputs, width.outputs)).inverse(),
        (height.appended, width.appended),
        any(a.appended and a.appended_is_padding for a in (height, width)),
        (height.results, width.results),
    )


def space_to_depth(shape: Shape, block: tuple[int, int]) -> Move:
    """Returns the movement of blocks of H and W of [N, H, W, C] into channels.

    Channels are ordered by (row in the block, column in the block, old channel).
    """
    n, h, w, c = shape
    (bh, bw), rows, columns = block, h // block[0], w // block[1]
    return regrouped(shape, (n, rows, bh, columns, bw, c), (0, 1, 3, 2, 4, 5), (n, rows, columns, bh * bw * c))


def regrouped(shape: Shape, split: Shape, perm: tuple[int, ...], out: Shape) -> Move:
    """Returns the movement that views a tensor as `split`, transposes it and views it as `out`."""
    moved = Move.reshape(shape, split).then(Move.transpose(split, perm))
    made = moved and moved.then(Move.reshape(moved.out_shape, out))
    # Views between whole axes always compose.
    assert made is not None
    return made


def blocked(
    op: str,
    shape: Shape,
    weights: NDArray[Any],
    bias: NDArray[Any],
    attributes: Mapping[str, Any],
    block: tuple[int, int],
) -> Spelling | None:
    """Returns a CONV2D or DEPTHWISE_CONV2D as a CONV2D on blocks of (H, W) elements.

    Returns None if neither of stride and block divides the other.
    """
    if op == "depthwise_conv2d":
        weights = dense(weights)
    height, width = (a.blocked(b) for a, b in zip(axes_of(shape, weights.shape, attributes), block, strict=True))
    return on_blocks(shape, weights, bias, height, width) if height and width else None


def axes_of(shape: Shape, weights: Shape, attributes: Mapping[str, Any]) -> tuple[Axis, Axis]:
    """Returns H and W of a CONV2D on x of `shape` [N, H, W, C] with weights [OC, KH, KW, IC]."""
    top, bottom, left, right = attributes["pad"]
    (sy, sx), (dy, dx) = attributes["stride"], attributes["dilation"]
    return Axis(shape[1], weights[1], sy, dy, top, bottom), Axis(shape[2], weights[2], sx, dx, left, right)


def transposed(
    shape: Shape, weights: NDArray[Any], bias: NDArray[Any], attributes: Mapping[str, Any]
) -> Spelling | None:
    """Returns a TRANSPOSE_CONV2D as a CONV2D with a block of results per pixel.

    Returns None if it crops more than a kernel.
    """
    top, bottom, left, right = attributes["out_pad"]
    sy, sx = attributes["stride"]
    height = TransposedAxis(shape[1], weights.shape[1], sy, top, bottom).blocked()
    width = TransposedAxis(shape[2], weights.shape[2], sx, left, right).blocked()
    return on_blocks(shape, weights, bias, height, width) if height and width else None


def undilated(
    op: str,
    shape: Shape,
    weights: NDArray[Any],
    bias: NDArray[Any],
    attributes: Mapping[str, Any],
    dilation: tuple[int, int],
) -> Spelling | None:
    """Returns a convolution with a smaller dilation of (H, W) and zeros between its taps.

    Returns None if the new dilation does not divide the old one.
    """
    first = 0 if op == "depthwise_conv2d" else 1
    old = attributes["dilation"]
    if any(o % d for o, d in zip(old, dilation, strict=True)):
        return None
    laid = spread(spread(weights, first, old[0] // dilation[0]), first + 1, old[1] // dilation[1])
    same, results = Move.reshape(shape, shape), _result_shape(op, shape, laid, {**attributes, "dilation": dilation})
    kept = {"stride": attributes["stride"], "pad": attributes["pad"], "dilation": dilation}
    return Spelling(
        op, kept, laid.shape, lambda: laid, bias, same, Move.reshape(results, results), results=(results[1], results[2])
    )


def phased(
    op: str, shape: Shape, weights: NDArray[Any], bias: NDArray[Any], attributes: Mapping[str, Any]
) -> Spelling | None:
    """Returns a convolution dilated along W as one without dilation, each phase in a row of its own.

    Returns None unless `_phases` can pad it, and the dilation divides W.
    """
    (n, h, w, c), phases, padding = shape, attributes["dilation"][1], _phases(op, weights, attributes)
    if padding is None or w % phases:
        return None
    read = regrouped(shape, (n, h, w // phases, phases, c), (0, 1, 3, 2, 4), (n, h * phases, w // phases, c))
    kept = {"stride": (1, 1), "pad": (0, 0, *padding), "dilation": (1, 1)}
    _, _, columns, out = _result_shape(op, read.out_shape, weights, kept)
    results = (n, h, columns * phases, out)
    write = regrouped((n, h * phases, columns, out), (n, h, phases, columns, out), (0, 1, 3, 2, 4), results)
    return Spelling(op, kept, weights.shape, lambda: weights, bias, read, write, results=results[1:3])


def in_columns(
    op: str, shape: Shape, weights: NDArray[Any], bias: NDArray[Any], attributes: Mapping[str, Any]
) -> Spelling | None:
    """Returns a convolution of one row, dilated along W, as one without dilation, with a column for each phase.

    Its kernel lies along H, and the movements before and after it are views.
    Returns None unless `_phases` can pad it.
    """
    (n, h, w, c), phases, padding = shape, attributes["dilation"][1], _phases(op, weights, attributes)
    if padding is None or n * h > 1:
        return None
    rows, axis = -(-w // phases), _kernel_height(op)
    read = Move.reshape((1, 1, rows * phases, c), (1, rows, phases, c))
    kept = {"stride": (1, 1), "pad": (*padding, 0, 0), "dilation": (1, 1)}
    turned = weights.swapaxes(axis, axis + 1)
    written = _result_shape(op, read.out_shape, turned, kept)
    write = Move.reshape(written, (1, 1, written[1] * phases, written[3]))
    _, *results, _ = _result_shape(op, shape, weights, attributes)
    appended = (0, rows * phases - w)
    return Spelling(
        op, kept, turned.shape, lambda: turned, bias, read, write, appended, padding[1] > 0, (results[0], results[1])
    )


def _kernel_height(op: str) -> int:
    """Returns the axis of weights that is the height of the kernel."""
    return 0 if op == "depthwise_conv2d" else 1


def _phases(op: str, weights: NDArray[Any], attributes: Mapping[str, Any]) -> tuple[int, int] | None:
    """Returns the padding at both ends of each phase of W, in elements of the phase.

    None unless the convolution is dilated along W, which divides its padding there.
    None unless strides are 1 and the kernel has height 1, without padding along H.
    """
    (top, bottom, left, right), phases = attributes["pad"], attributes["dilation"][1]
    flat = weights.shape[_kernel_height(op)] == 1 and not (top or bottom) and attributes["stride"] == (1, 1)
    if not flat or phases == 1 or left % phases or right % phases:
        return None
    return left // phases, right // phases


def stacked(
    op: str, shape: Shape, weights: NDArray[Any], bias: NDArray[Any], attributes: Mapping[str, Any]
) -> Spelling | None:
    """Returns a dilated convolution as one without dilation.

    The elements of each pair of phases become an image of their own.
    The images are stacked along H with rows of padding between them.
    Returns None unless strides are 1 and the dilations divide height, width and padding.
    Returns None for a kernel of height 1, which needs no padding between (`phased`).
    """
    (n, h, w, c), (down, across), (top, bottom, left, right) = shape, attributes["dilation"], attributes["pad"]
    kernel = weights.shape[_kernel_height(op)]
    if attributes["stride"] != (1, 1) or down * across == 1 or kernel == 1:
        return None
    if any(size % down for size in (h, top, bottom)) or any(size % across for size in (w, left, right)):
        return None
    low, high = top // down, bottom // down
    if max(low, high) >= kernel:
        return None
    rows, images = h // down + max(low, high), down * across
    split = (n, rows, down, w // across, across, c)
    read = regrouped((n, rows * down, w, c), split, (0, 2, 4, 1, 3, 5), (n, images * rows, w // across, c))
    kept = {"stride": (1, 1), "pad": (low, kernel - 1 - low, left // across, right // across), "dilation": (1, 1)}
    *_, columns, out = _result_shape(op, read.out_shape, weights, kept)
    split = (n, down, across, rows, columns, out)
    write = regrouped(
        (n, images * rows, columns, out), split, (0, 3, 1, 4, 2, 5), (n, rows * down, columns * across, out)
    )
    _, *results, _ = _result_shape(op, shape, weights, attributes)
    appended = (rows * down - h, 0)
    return Spelling(
        op, kept, weights.shape, lambda: weights, bias, read, write, appended, low + high > 0, (results[0], results[1])
    )


def divided(
    op: str, shape: Shape, weights: NDArray[Any], bias: NDArray[Any], attributes: Mapping[str, Any], parts: int
) -> Spelling | None:
    """Returns a pointwise CONV2D at one position with its channels in `parts` parts along W.

    The parts are taps of its kernel, and nothing is moved.
    Returns None for another operator, for several positions or taps, and for unequal parts.
    Returns None with padding.
    With more positions, parts of parts could be formed without end.
    """
    out, channels = weights.shape[0], shape[-1]
    places, taps = shape[:3], weights.shape[1:3]
    if op != "conv2d" or channels % parts or max(*places, *taps) > 1 or any(attributes["pad"]):
        return None
    results, kept = (1, 1, 1, out), {"stride": (1, 1), "pad": (0, 0, 0, 0), "dilation": (1, 1)}
    read = Move.reshape(shape, (1, 1, parts, channels // parts))
    laid, same = weights.reshape(out, 1, parts, channels // parts), Move.reshape(results, results)
    return Spelling(op, kept, laid.shape, lambda: laid, bias, read, same, results=(1, 1))


def _result_shape(op: str, shape: Shape, weights: NDArray[Any], attributes: Mapping[str, Any]) -> Shape:
    if op == "depthwise_conv2d":
        kh, kw, channels, multiplier = weights.shape
        kernel = (channels * multiplier, kh, kw, 1)
    else:
        kernel = weights.shape
    height, width = axes_of(shape, kernel, attributes)
    return (shape[0], height.results, width.results, kernel[0])


def spread(weights: NDArray[Any], axis: int, factor: int) -> NDArray[Any]:
    """Returns a kernel with `factor` - 1 zeros between its taps along an axis."""
    shape = list(weights.shape)
    shape[axis] = (shape[axis] - 1) * factor + 1
    out = np.zeros(shape, weights.dtype)
    out[(slice(None),) * axis + (slice(None, None, factor),)] = weights
    return out


def dense(weights: NDArray[Any]) -> NDArray[Any]:
    """Returns weights [KH, KW, C, M] of a DEPTHWISE_CONV2D as CONV2D weights [C * M, KH, KW, C]."""
    kh, kw, channels, multiplier = weights.shape
    out = np.zeros((channels, multiplier, kh, kw, channels), weights.dtype)
    for c in range(channels):
        out[c, ..., c] = weights[:, :, c].transpose(2, 0, 1)
    return out.reshape(channels * multiplier, kh, kw, channels)
