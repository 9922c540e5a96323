"""The block of the output that Vela 5 lets the NPU compute at a time.

Two questions decide it, asked here of all candidates at once, as arrays:
- which blocks have room on chip (`shared_memory_block`, `split_memory_block`);
- which of those fetches the fewest elements per output (`_fetched`).

The formulas are from regor/architecture.
E55 is ethosu55/ethos_u55.cpp, E85 is ethosu85/ethos_u85.cpp.
Shapes are (h, w, c), in elements; pairs are (y, x).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import prod, sqrt
from typing import overload

import numpy as np
from numpy.typing import NDArray

from eqsat.target.family import HWC, SharedMemory, SplitMemory

#: Elements of a kernel's window that one pass takes, in height and in width, at most.
_WINDOW = 8
#: Channels of a brick, the unit in which feature maps and accumulators are stored.
_BRICK = 16
#: Bytes of an accumulator.
_ACCUMULATOR = 4


IntArray = NDArray[np.int64]


@overload
def up(x: int, step: int) -> int: ...


@overload
def up(x: IntArray, step: int) -> IntArray: ...


def up(x: int | IntArray, step: int) -> int | IntArray:
    """Returns `x` rounded up to a multiple of `step`."""
    return -(-x // step) * step


def _in_steps(shape: HWC, steps: HWC) -> HWC:
    return as_shape(up(d, step) for d, step in zip(shape, steps))


def as_shape(extents: Iterable[int]) -> HWC:
    """Returns (h, w, c) of three numbers."""
    h, w, c = extents
    return h, w, c


@dataclass(frozen=True, slots=True)
class Work:
    """The computation of an operator.

    kind  : conv, depthwise, product (of matrices), pool, sum (REDUCE_SUM) or elementwise
    ifm   : shape of the input
    ofm   : shape of the output
    bits  : of an element of the input
    scalar: whether one operand of an elementwise op is a number
    """

    kind: str
    ifm: HWC
    ofm: HWC
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    bits: int = 8
    scalar: bool = False

    @property
    def channelwise(self) -> bool:
        """Whether a channel of the output needs only that channel of the input."""
        return self.kind in ("depthwise", "pool", "elementwise")

    @property
    def extent(self) -> tuple[int, int]:
        """Elements that the kernel spans, dilation included."""
        (ky, kx), (dy, dx) = self.kernel, self.dilation
        return (ky - 1) * dy + 1, (kx - 1) * dx + 1

    def window(self, axis: int, outputs: IntArray, step: int) -> IntArray:
        """Returns the input elements of `axis` that `outputs` in a row need in one pass.

        They are rounded up to a multiple of `step` (E55, E85: GetArchIFMBlockSize).
        """
        return up((outputs - 1) * self.stride[axis] + min(self.extent[axis], _WINDOW), step)


@dataclass(frozen=True, slots=True)
class BlockConfig:
    """The blocks that an operator is computed in.

    ifm, ofm   : blocks of the input and of the output
    micro      : the micro block of the output
    part_kernel: whether the kernel's elements go before the channels
    """

    ifm: HWC
    ofm: HWC
    micro: HWC
    part_kernel: bool = False


class _Candidates:
    """Blocks to choose from, as flat arrays in the order that decides ties (depth, height, width).

    ofm: blocks of the output, of whole micro blocks, up to the extents of `end`
    ifm: blocks of the input that these read, in whole `unit`s, `depth` channels at a time
    """

    def __init__(self, work: Work, micro: HWC, end: HWC, unit: HWC, depth: int):
        # bricks; a remainder of one micro block
        rest = end[2] if end[2] < _BRICK or end[2] % _BRICK == micro[2] else 0
        depths = [c for c in range(micro[2], end[2] + 1, micro[2]) if c % _BRICK == 0 or c == rest]
        spans = [np.arange(m, e + 1, m) for m, e in zip(micro[:2], end[:2])]
        c, h, x = (a.ravel() for a in np.meshgrid(depths, *spans, indexing="ij"))
        self.work, self.ofm = work, (h, x, c)
        self.ifm = (
            work.window(0, h, unit[0]),
            work.window(1, x, unit[1]),
            c if work.channelwise else np.full_like(c, depth),
        )

    def best(self, fits: NDArray[np.bool_]) -> tuple[HWC, HWC] | None:
        """Returns (input block, output block) of those that fit and fetch least; None if none fits.

        Among equal ones the first is taken, unless small blocks (or those of products) follow it.
        Then the last of these that sees most of the input is taken.
        """
        if not fits.any():
            return None
        fetched = np.where(fits, _fetched(self.work, self.ifm, self.ofm), np.float32(np.inf))
        first, *others = np.flatnonzero(fetched == fetched.min())
        small = (self.ofm[0] <= 4) & (self.ofm[1] <= 4) | (self.work.kind == "product")
        others = [k for k in others if small[k]]
        if others:
            seen = [min(self.work.ifm[0], self.ifm[0][k]) * min(self.work.ifm[1], self.ifm[1][k]) for k in others]
            first = max(zip(seen, others))[1]
        return as_shape(int(a[first]) for a in self.ifm), as_shape(int(a[first]) for a in self.ofm)


def _fetched(work: Work, ifm: tuple[IntArray, ...], ofm: tuple[IntArray, ...]) -> NDArray[np.float32]:
    """Returns for each block the elements that come on chip per output of `work`.

    They are inputs and weights, or the share of a block for ops without reuse.
    (E55, E85: the criterion of FindBlockConfig.)
    Single precision is needed because Vela's ties decide.
    """
    total, area, block = np.float32(prod(work.ofm)), ifm[0] * ifm[1], (ofm[0] * ofm[1] * ofm[2]).astype(np.float32)
    if work.kind in ("elementwise", "product"):
        fetched = total / block
    else:
        rows, columns, slices = (np.float32(o) / b.astype(np.float32) for o, b in zip(work.ofm, ofm))
        counts = [-(-o // b) for o, b in zip(work.ofm, ofm)]
        passes = prod(up(e, _WINDOW) // _WINDOW for e in work.extent)
        inputs = (area * work.ifm[2] * passes).astype(np.float32) * columns * rows
        weights = (
            np.float32(prod(work.kernel) * work.ifm[2]) * (counts[0] * counts[1])
            if work.kind in ("conv", "depthwise")
            else np.float64(0)
        )
        if not work.channelwise:  # the input is read for every slice of the output's depth
            inputs, weights = inputs * counts[2], weights * (slices * ofm[2].astype(np.float32))
        fetched = ((inputs + weights) / total).astype(np.float32)
    whole = prod(work.ifm) < 2 * area * ifm[2]  # the input is on chip
    return np.where(whole, fetched / np.float32(2), fetched)


# ---- one memory for inputs, outputs, accumulators and tables (U55, U65) -----------------------------


def _banks(memory: SharedMemory, size: IntArray, bits: int) -> IntArray:
    """Returns the banks of two buffers of `size` bytes, by the bits of an element (E55: TryBlockConfig)."""
    return up(2 * (up(size, 1024) // 1024), memory.granule * (2 if bits == 32 else 1))


def _kernel_first(work: Work) -> bool:
    """Whether the kernel's elements go before the channels, to fill the MACs better (E55: ChooseKernelMethod)."""
    c, taps = work.ifm[2], prod(work.kernel)
    deep, few = (32, 4) if work.bits == 8 else (16, 2)
    return work.kind == "conv" and (c <= 8 or c / up(c, 8) * (taps / up(taps, few)) >= c / up(c, deep))


@lru_cache(maxsize=65536)
def shared_memory_block(work: Work, micro: HWC, most: HWC, memory: SharedMemory, table: bool = False) -> BlockConfig:
    """Returns the blocks in one memory, none larger than `most`.

    table: whether a lookup table takes a bank, too.
    Raises ValueError if nothing fits.
    """
    size, kernel_first = work.bits // 8, _kernel_first(work)
    depth = _input_depth(work, kernel_first)
    end = as_shape(up(min(o, limit), m) for o, limit, m in zip(work.ofm, most, micro))
    found = _Candidates(work, micro, end, micro, depth)
    inputs = _banks(memory, found.ifm[0] * found.ifm[1] * up(found.ifm[2] * size, 8), work.bits)
    row = _one_row(work, micro)  # E55, FitBlockForOFM: no accumulators for a micro block's second row
    if work.kind == "elementwise":
        needed = inputs if work.scalar and work.bits <= 16 else 2 * inputs
    else:
        h, x, d = found.ofm
        needed = inputs + _banks(memory, (np.minimum(h, 1) if row else h) * x * up(d, 8) * _ACCUMULATOR, 32)
    reserved = 2 if memory.banks > 16 else int(table)
    blocks = found.best(2 + needed <= memory.banks - reserved)  # two banks are the output's
    if blocks is None:
        raise ValueError(f"no block of {work} fits")
    return BlockConfig(*blocks, _micro(work, micro), kernel_first)


def told_block(work: Work, micro: HWC, ofm: HWC, part_kernel: bool) -> BlockConfig:
    """Returns the blocks in one memory for a known block of the output.

    part_kernel: whether the kernel's elements go before the channels.
    """
    h, x = (int(work.window(axis, np.array(ofm[axis]), micro[axis])) for axis in (0, 1))
    depth = ofm[2] if work.channelwise else _input_depth(work, part_kernel)
    return BlockConfig((h, x, depth), ofm, _micro(work, micro), part_kernel)


def _input_depth(work: Work, kernel_first: bool) -> int:
    """Returns the channels of the input that are read at a time."""
    c = work.ifm[2]
    return up(min(c, 16), 4) if work.bits == 16 else up(min(c, 16 if kernel_first else 32), 8)


def _one_row(work: Work, micro: HWC) -> bool:
    return work.ofm[0] == work.kernel[0] == 1 and micro[0] == 2


def _micro(work: Work, micro: HWC) -> HWC:
    """Returns the micro block that is used (ethos_u55_performance.cpp: GetOfmMicroBlock)."""
    flat = _one_row(work, micro) and work.kind in ("conv", "product") and work.ofm[1] % 2 == 0
    return (1, 4, micro[2]) if flat else micro


# ---- a memory for inputs, one for accumulators (U85) ---------------------------------------------------


def _stored(memory: SplitMemory, micro: int, depth: int, bits: int) -> HWC:
    """Returns the (h, w, c) in whose multiples an input is stored, `depth` channels at a time (E85: CalcIfmAUSize)."""
    h, x, granules = memory.units[micro][np.searchsorted((128, 256), depth * bits)]
    return h, x, granules * 128 // bits


@lru_cache(maxsize=65536)
def split_memory_block(work: Work, micros: tuple[HWC, ...], most: HWC, memory: SplitMemory, macs: int) -> BlockConfig:
    """Returns the blocks in split memories, none larger than `most`.

    Raises ValueError if nothing fits.
    """
    usable = memory.products if work.kind in ("conv", "product", "sum") else memory.pooling
    if work.bits > 8:
        usable = tuple(range(len(micros)))
    k = min(usable, key=lambda k: prod(_in_steps(work.ofm, micros[k])))  # E85, FindUBlock: least padding
    micro, c, taps = micros[k], work.ifm[2], prod(work.kernel)
    # E85, ChooseKernelFirst: how well either order fills the MACs
    kernel_first = work.kind == "conv" and c / up(c, 16) * taps / (taps - taps % 5 + max(taps % 5, 2)) >= c / up(c, 64)
    depth = _split_depth(work, micro, kernel_first, macs)
    granule = (*micro[:2], _BRICK)
    if work.kind in ("pool", "depthwise", "sum"):
        return _by_aspect(work, memory, k, micro, most, granule, depth if work.kind == "sum" else None, macs)
    end = as_shape(up(max(min(o, limit), g), m) for o, limit, g, m in zip(work.ofm, most, granule, micro))
    unit = _stored(memory, k, depth, work.bits)
    found = _Candidates(work, micro, end, unit, depth)
    inputs = found.ifm[0] * found.ifm[1] * up(min(depth, c), unit[2]) * (work.bits // 8)  # bytes (E85: TryBlockConfig)
    accumulators = found.ofm[0] * found.ofm[1] * up(found.ofm[2], _BRICK) * _ACCUMULATOR
    for copies in (2, 1):  # two: one is filled while the other is in use
        blocks = found.best((copies * inputs <= memory.inputs) & (copies * accumulators <= memory.accumulators))
        if blocks is not None:
            return BlockConfig((*blocks[0][:2], depth), blocks[1], micro, kernel_first)
    raise ValueError(f"no block of {work} fits")


def told_split_block(
    work: Work,
    micros: tuple[HWC, ...],
    micro: tuple[int, int],
    ofm: HWC,
    kernel_first: bool,
    memory: SplitMemory,
    macs: int,
) -> BlockConfig:
    """Returns the blocks in split memories for a known block of the output.

    micro: rows and columns of its micro blocks.
    kernel_first: whether the kernel's elements go before the channels.
    """
    k = next(k for k, m in enumerate(micros) if m[:2] == micro)
    depth = ofm[2] if work.channelwise else _split_depth(work, micros[k], kernel_first, macs)
    unit = _stored(memory, k, depth, work.bits)
    h, x = (int(work.window(axis, np.array(ofm[axis]), unit[axis])) for axis in (0, 1))
    return BlockConfig((h, x, depth), ofm, micros[k], kernel_first)


def _split_depth(work: Work, micro: HWC, kernel_first: bool, macs: int) -> int:
    """Returns the channels of the input that are read at a time."""
    return 16 if kernel_first else 32 if work.bits == 32 or macs <= 256 and micro[2] == 16 else 64


def _by_aspect(
    work: Work, memory: SplitMemory, k: int, micro: HWC, limits: HWC, granule: HWC, depth: int | None, macs: int
) -> BlockConfig:
    """Returns the blocks of a depthwise op, pooling or sum (E85: FindDepthwiseConfig, AreaFit).

    There is one area for every depth of the block.
    It has the output's aspect and is as large as the accumulators allow.
    It is cut down, rows first, until its inputs fit.
    The first block that covers the output is taken, or else the one that misses least of it.
    depth: channels of the input at a time, None if they are those of the output.
    Raises ValueError if nothing fits.
    """
    elements, inputs = memory.accumulators // _ACCUMULATOR, memory.inputs * 8 // work.bits
    whole, (gh, gx, _) = _in_steps(work.ofm, granule), granule
    most = as_shape(map(min, whole, limits))
    found: list[tuple[HWC, HWC]] = []
    for c in range(_BRICK, min(max(macs, elements // (gh * gx * _BRICK)), most[2]) + 1, _BRICK):
        unit, area, channels = _stored(memory, k, depth or c, work.bits), elements // c, depth or c
        x = min(most[1], max(gx, int(sqrt(area * whole[1] / whole[0])) // gx * gx, area // most[0]))
        h = min(most[0], max(gh, area // x // gh * gh))
        fewer_rows, fewer_columns = np.arange(h, 0, -gh), np.arange(x, 0, -gx)[1:]
        heights = np.append(fewer_rows, np.full_like(fewer_columns, fewer_rows[-1]))
        widths = np.append(np.full_like(fewer_rows, x), fewer_columns)
        needs = work.window(0, heights, unit[0]), work.window(1, widths, unit[1])
        fits = np.minimum(needs[0] * needs[1] * up(channels, unit[2]), prod(_in_steps(work.ifm, unit))) <= inputs
        n = int(fits.argmax()) if fits.any() else -1
        block = int(heights[n]), int(widths[n]), c
        if prod(block) > elements:
            break
        found.append(((int(needs[0][n]), int(needs[1][n]), up(channels, unit[2])), block))
        if all(have >= o for have, o in zip(block, whole)):
            return BlockConfig(*found[-1], micro)
    i, j = (1, 2) if work.kernel == (1, 1) else (0, 1)  # the axes whose coverage counts
    missed = [(1 + abs(1 - whole[i] * whole[j] / (b[i] * b[j]))) * (1 + abs(1 - most[2] / b[2]) / 10) for _, b in found]
    if not found:
        raise ValueError(f"no block of {work} fits")
    return BlockConfig(*found[missed.index(min(missed))], micro)
