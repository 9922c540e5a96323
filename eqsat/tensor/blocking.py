"""Rewrites a convolution on blocks of pixels, or with other strides, dilations and channels.

Along an axis, elements are read in blocks, which become channels, and results are written in blocks too.
That is a convolution over blocks, whose kernel has the old weights in the right places and zeros elsewhere.
Zero weights add nothing, since weights have zero point 0, so every form is equal to the bit.

>>> blocked = Axis(size=391, kernel=21, stride=10).block(10)
>>> blocked.blocks, blocked.kernel, blocked.stride, blocked.appended
(40, 3, 1, 9)

For W of an NHWC tensor both regroupings are views; for H they are transposes, which may cancel with others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqsat.tensor.movement import Move
from eqsat.tensor.ops import OPS
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

    def block(self, block: int) -> BlockedAxis | None:
        """Returns the convolution on blocks of `block` elements, None if neither of stride and block divides the other.

        Result r of a block reads the elements stride * r - low + dilation * t, from the block's first one on.
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
        return _over_blocks(self.size, self.results, reads, block, outputs, stride)


def _block_transposed(size: int, kernel: int, stride: int, low: int, high: int) -> BlockedAxis | None:
    """Returns a transposed convolution along one axis as a convolution with `stride` results per element.

    Element i adds tap t to result stride * i + low + t (TOSA 1.0, TRANSPOSE_CONV2D, out_pad).
    Returns None if it does not read all of its input.
    """
    reads = [
        (r, t, (r - low - t) // stride) for r in range(stride) for t in range(kernel) if (r - low - t) % stride == 0
    ]
    made = _over_blocks(size, (size - 1) * stride + low + high + kernel, reads, 1, stride, 1)
    return made if made.low >= 0 and made.high >= 0 else None


def _over_blocks(
    size: int, results: int, reads: list[tuple[int, int, int]], block: int, outputs: int, stride: int
) -> BlockedAxis:
    """Returns the convolution over blocks in which result r reads element e by tap t, for all (r, t, e) of `reads`."""
    first = min(e for *_, e in reads) // block
    taps = tuple((e // block - first, r, e % block, t) for r, t, e in reads)
    kernel = 1 + max(tap[0] for tap in taps)
    blocks, result_blocks = -(-size // block), -(-results // outputs)
    high = (result_blocks - 1) * stride + kernel + first - blocks
    return BlockedAxis(block, outputs, stride, kernel, -first, high, blocks, blocks * block - size, results, taps)


@dataclass(frozen=True, slots=True)
class BlockedAxis:
    """A convolution over blocks along one axis.

    block: elements of a block.
    outputs: results of a block of results.
    stride, kernel, low, high: of the convolution over `blocks` blocks.
    appended: elements that the input lacks for whole blocks.
    results: number of results that count.
    taps: (position in the kernel, result in its block, element in its block, old tap).
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

    @property
    def result_blocks(self) -> int:
        return (self.blocks + self.low + self.high - self.kernel) // self.stride + 1

    def weights(self, values: NDArray[Any]) -> NDArray[Any]:
        """Lays out weights [taps, out, other, in] for the blocks, as [kernel, outputs * out, other, block * in].

        Channels out are ordered by (result in the block, old channel), channels in by (element in the block, old one).
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
    The result of the convolution goes through `write`, after which the first `results` rows and columns count.
    attributes: stride, pad and dilation.
    lay: lays out the weights, which are large for blocks, and mostly not needed.
    appended_is_padding: whether appended elements must be the input's zero point; otherwise they may be anything.
    """

    op: str
    attributes: Mapping[str, Any]
    weights_shape: Shape
    lay: Callable[[], NDArray[Any]]
    bias: NDArray[Any]
    read: Move
    write: Move
    appended: tuple[int, int]
    appended_is_padding: bool
    results: tuple[int, int]

    @property
    def weights(self) -> NDArray[Any]:
        return self.lay()

    @property
    def has_surplus(self) -> bool:
        return self.write.out_shape[1:3] != self.results


def space_to_depth(shape: Shape, block: tuple[int, int]) -> Move:
    """Returns the movement of blocks of H and W of [N, H, W, C] into channels.

    Channels are ordered by (row in the block, column in the block, old channel).
    """
    n, h, w, c = shape
    (bh, bw), rows, columns = block, h // block[0], w // block[1]
    return regroup(shape, (n, rows, bh, columns, bw, c), (0, 1, 3, 2, 4, 5), (n, rows, columns, bh * bw * c))


def regroup(shape: Shape, split: Shape, perm: tuple[int, ...], out: Shape) -> Move:
    """Returns the movement that views a tensor as `split`, transposes it and views it as `out`."""
    moved = Move.reshape(shape, split).then(Move.transpose(split, perm))
    made = moved and moved.then(Move.reshape(moved.out_shape, out))
    # Views between whole axes always compose.
    assert made is not None
    return made


@dataclass(frozen=True, slots=True, eq=False)
class ConstantConvolution:
    """A convolution with constant weights on x of `shape` [N, H, W, C].

    op: "conv2d", "depthwise_conv2d" or "transpose_conv2d".
    bias: one per output channel.
    attributes: stride, dilation and pad, or stride and out_pad.
    """

    op: str
    shape: Shape
    weights: NDArray[Any]
    bias: NDArray[Any]
    attributes: Mapping[str, Any]

    def _axes(self) -> tuple[Axis, Axis]:
        """Returns H and W of a CONV2D or DEPTHWISE_CONV2D."""
        top, bottom, left, right = self.attributes["pad"]
        (sy, sx), (dy, dx) = self.attributes["stride"], self.attributes["dilation"]
        (_, h, w, _), (kh, kw) = self.shape, self.weights.shape[OPS[self.op].kernel_axis :][:2]
        return Axis(h, kh, sy, dy, top, bottom), Axis(w, kw, sx, dx, left, right)

    def _result(self) -> tuple[int, int, int, int]:
        """Returns the shape of the result of a CONV2D or DEPTHWISE_CONV2D."""
        height, width = self._axes()
        return self.shape[0], height.results, width.results, len(self.bias)

    def _plain(self, shape: Shape, weights: NDArray[Any], pad: tuple[int, ...]) -> ConstantConvolution:
        """Returns the same operator with stride and dilation 1 on x of another shape."""
        attributes = {"stride": (1, 1), "pad": pad, "dilation": (1, 1)}
        return ConstantConvolution(self.op, shape, weights, self.bias, attributes)

    def _as(
        self,
        other: ConstantConvolution,
        read: Move,
        write: Move,
        appended: tuple[int, int] = (0, 0),
        appended_is_padding: bool = False,
    ) -> Spelling:
        """Returns this convolution as another one between two movements."""
        convolution = other.op, other.attributes, other.weights.shape, lambda: other.weights, other.bias
        return Spelling(*convolution, read, write, appended, appended_is_padding, self._result()[1:3])

    def _on_blocks(
        self, weights: NDArray[Any], height: BlockedAxis, width: BlockedAxis, appended_is_padding: bool
    ) -> Spelling:
        """Returns the convolution with weights [OC, KH, KW, IC] as a CONV2D on blocks of H and W."""

        def lay() -> NDArray[Any]:
            laid = width.weights(weights.transpose(2, 0, 1, 3)).transpose(2, 1, 0, 3)
            return np.ascontiguousarray(height.weights(laid).transpose(1, 0, 2, 3))

        (n, *_, c), out, block = self.shape, len(self.bias), (height.block, width.block)
        outputs = height.outputs * width.outputs
        results = (n, height.result_blocks * height.outputs, width.result_blocks * width.outputs, out)
        return Spelling(
            "conv2d",
            {
                "stride": (height.stride, width.stride),
                "pad": (height.low, height.high, width.low, width.high),
                "dilation": (1, 1),
            },
            (outputs * weights.shape[0], height.kernel, width.kernel, prod(block) * weights.shape[3]),
            lay,
            np.tile(self.bias, outputs),
            space_to_depth((n, height.blocks * block[0], width.blocks * block[1], c), block),
            space_to_depth(results, (height.outputs, width.outputs)).inverse(),
            (height.appended, width.appended),
            appended_is_padding,
            (height.results, width.results),
        )

    def block(self, block: tuple[int, int]) -> Spelling | None:
        """Returns a CONV2D or DEPTHWISE_CONV2D as a CONV2D on blocks of (H, W) elements, if `Axis.block` can."""
        axes = self._axes()
        height, width = (a.block(b) for a, b in zip(axes, block, strict=True))
        if not (height and width):
            return None
        weights = dense(self.weights) if self.op == "depthwise_conv2d" else self.weights
        is_padding = any(a.high > 0 and blocks.appended for a, blocks in zip(axes, (height, width)))
        return self._on_blocks(weights, height, width, is_padding)

    def block_transposed(self) -> Spelling | None:
        """Returns a TRANSPOSE_CONV2D as a CONV2D with a block of results per pixel, if it crops at most a kernel."""
        top, bottom, left, right = self.attributes["out_pad"]
        (_, h, w, _), (_, kh, kw, _), (sy, sx) = self.shape, self.weights.shape, self.attributes["stride"]
        height = _block_transposed(h, kh, sy, top, bottom)
        width = _block_transposed(w, kw, sx, left, right)
        return self._on_blocks(self.weights, height, width, False) if height and width else None

    def reduce_dilation(self, dilation: tuple[int, int]) -> Spelling | None:
        """Returns the convolution with a dilation of (H, W), if that divides its own, and zeros between its taps."""
        first, old = OPS[self.op].kernel_axis, self.attributes["dilation"]
        if any(o % d for o, d in zip(old, dilation, strict=True)):
            return None
        laid = spread_taps(spread_taps(self.weights, first, old[0] // dilation[0]), first + 1, old[1] // dilation[1])
        other = replace(self, weights=laid, attributes={**self.attributes, "dilation": dilation})
        return self._as(other, _keep(self.shape), _keep(other._result()))

    def split_phases(self) -> Spelling | None:
        """Returns a convolution dilated along W as one without dilation, each phase in a row of its own.

        Returns None unless `_phases` can pad it, and the dilation divides W.
        """
        (n, h, w, c), phases, padding = self.shape, self.attributes["dilation"][1], self._phases()
        if padding is None or w % phases:
            return None
        read = regroup(self.shape, (n, h, w // phases, phases, c), (0, 1, 3, 2, 4), (n, h * phases, w // phases, c))
        other = self._plain(read.out_shape, self.weights, (0, 0, *padding))
        written = *_, columns, out = other._result()
        write = regroup(written, (n, h, phases, columns, out), (0, 1, 3, 2, 4), (n, h, columns * phases, out))
        return self._as(other, read, write)

    def in_columns(self) -> Spelling | None:
        """Returns a convolution of one row, dilated along W, as one without dilation, with a column for each phase.

        Its kernel lies along H, and the movements around it are views. Returns None unless `_phases` can pad it.
        """
        (n, h, w, c), phases, padding = self.shape, self.attributes["dilation"][1], self._phases()
        if padding is None or n * h > 1:
            return None
        rows, first = -(-w // phases), OPS[self.op].kernel_axis
        read = Move.reshape((1, 1, rows * phases, c), (1, rows, phases, c))
        other = self._plain(read.out_shape, self.weights.swapaxes(first, first + 1), (*padding, 0, 0))
        written = _, results, _, out = other._result()
        write = Move.reshape(written, (1, 1, results * phases, out))
        return self._as(other, read, write, (0, rows * phases - w), padding[1] > 0)

    def _phases(self) -> tuple[int, int] | None:
        """Returns the padding at both ends of each phase of W, in elements of the phase.

        Returns None unless the convolution is dilated along W, which divides its padding there, strides are 1, and the
        kernel has height 1 without padding along H.
        """
        (top, bottom, left, right), phases = self.attributes["pad"], self.attributes["dilation"][1]
        flat = self.weights.shape[OPS[self.op].kernel_axis] == 1 and not (top or bottom)
        if not flat or self.attributes["stride"] != (1, 1) or phases == 1 or left % phases or right % phases:
            return None
        return left // phases, right // phases

    def stack_phases(self) -> Spelling | None:
        """Returns a dilated convolution as one without dilation, on an image for each pair of phases.

        The images are stacked along H with rows of padding between them.
        Returns None unless strides are 1, the dilations divide height, width and padding, and the kernel has more rows
        than the padding of a phase, and more than one (one row needs no padding between: `split_phases`).
        """
        (n, h, w, c), (down, across) = self.shape, self.attributes["dilation"]
        top, bottom, left, right = self.attributes["pad"]
        kernel = self.weights.shape[OPS[self.op].kernel_axis]
        if self.attributes["stride"] != (1, 1) or down * across == 1 or kernel == 1:
            return None
        if any(size % down for size in (h, top, bottom)) or any(size % across for size in (w, left, right)):
            return None
        low, high = top // down, bottom // down
        if max(low, high) >= kernel:
            return None
        rows, images = h // down + max(low, high), down * across
        split = (n, rows, down, w // across, across, c)
        read = regroup((n, rows * down, w, c), split, (0, 2, 4, 1, 3, 5), (n, images * rows, w // across, c))
        pad = (low, kernel - 1 - low, left // across, right // across)
        other = self._plain(read.out_shape, self.weights, pad)
        written = *_, columns, out = other._result()
        split = (n, down, across, rows, columns, out)
        write = regroup(written, split, (0, 3, 1, 4, 2, 5), (n, rows * down, columns * across, out))
        return self._as(other, read, write, (rows * down - h, 0), low + high > 0)

    def divide_channels(self, parts: int) -> Spelling | None:
        """Returns a pointwise CONV2D at one position with its channels in equal parts along W, the taps of its kernel.

        Returns None for another operator, for several taps, with padding, and if there are no such parts.
        Returns None for several positions: otherwise the parts could be divided again without end.
        """
        out, channels = self.weights.shape[0], self.shape[-1]
        several = max(*self.shape[:3], *self.weights.shape[1:3]) > 1
        if self.op != "conv2d" or channels % parts or several or any(self.attributes["pad"]):
            return None
        read = Move.reshape(self.shape, (1, 1, parts, channels // parts))
        other = self._plain(read.out_shape, self.weights.reshape(out, 1, parts, channels // parts), (0, 0, 0, 0))
        return self._as(other, read, _keep(other._result()))


def _keep(shape: Shape) -> Move:
    return Move.reshape(shape, shape)


def spread_taps(weights: NDArray[Any], axis: int, factor: int) -> NDArray[Any]:
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
