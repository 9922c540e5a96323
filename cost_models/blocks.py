"""The blocks of an operator's output that the NPU computes one after the other, and what it reads for each.

A command tells its block (`derive_block`, `derive_split_block`).
For an operator that is not compiled, a guess takes its place (`guess_block`).

The formulas are from regor/architecture of Vela.
E55 is ethosu55/ethos_u55.cpp, E85 is ethosu85/ethos_u85.cpp.
Shapes are (h, w, c), in elements; pairs are (y, x).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod, sqrt

from eqsat.target.family import HWC, Core, SharedMemory, SplitMemory

#: Elements of a kernel's window that one pass takes, in height and in width, at most.
_WINDOW = 8
#: Bytes of an accumulator.
_ACCUMULATOR = 4
#: Bytes of a bank.
_BANK = 1024
#: Channels of a block that is guessed, at most.
_GUESSED_DEPTH = 64


def up(x: int, step: int) -> int:
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
    """The computation of an operator on the MAC array.

    kind  : conv, depthwise, product (of matrices), pool or sum (REDUCE_SUM)
    ifm   : shape of the input
    ofm   : shape of the output
    bits  : of an element of the input
    """

    kind: str
    ifm: HWC
    ofm: HWC
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    bits: int = 8

    @property
    def channelwise(self) -> bool:
        """Whether a channel of the output needs only that channel of the input."""
        return self.kind in ("depthwise", "pool")

    def window(self, axis: int, outputs: int, step: int) -> int:
        """Returns the input elements of `axis` that `outputs` in a row need in one pass.

        They are rounded up to a multiple of `step` (E55, E85: GetArchIFMBlockSize).
        """
        extent = (self.kernel[axis] - 1) * self.dilation[axis] + 1
        return up((outputs - 1) * self.stride[axis] + min(extent, _WINDOW), step)


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


def guess_block(work: Work, core: Core, most: HWC) -> BlockConfig:
    """Returns guessed blocks of an operator, none larger than `most`; accumulators take half of a shared memory."""
    if isinstance(core.memory, SharedMemory):
        half = core.memory.banks * _BANK // 2
        return derive_block(work, core, _square(work, _micro(work, core.micro[0]), most, half), _fills_shared(work))
    usable: Sequence[int] = core.memory.pooling if work.channelwise else core.memory.products
    if work.bits > 8:
        usable = range(len(core.micro))
    micro = min((core.micro[k] for k in usable), key=lambda m: prod(_in_steps(work.ofm, m)))  # E85, FindUBlock
    block = _square(work, micro, most, core.memory.accumulators)
    return derive_split_block(work, core, micro[:2], block, _fills_split(work))


def _square(work: Work, micro: HWC, most: HWC, room: int) -> HWC:
    """Returns a block of the output about as high as wide, with `room` bytes for two sets of accumulators."""
    rows, columns, c = as_shape(map(min, _in_steps(work.ofm, micro), most))
    c = min(c, _GUESSED_DEPTH)
    area = room // (2 * _ACCUMULATOR) // c
    width = min(columns, up(int(sqrt(area)), micro[1]))
    h = min(rows, max(1, area // width // micro[0]) * micro[0])
    return h, min(columns, max(1, area // h // micro[1]) * micro[1]), c


# ---- one memory for inputs, outputs, accumulators and tables (U55, U65) -----------------------------


def _fills_shared(work: Work) -> bool:
    """Whether the MACs are filled better if the kernel's elements go before the channels (E55: ChooseKernelMethod)."""
    c, taps = work.ifm[2], prod(work.kernel)
    deep, few = (32, 4) if work.bits == 8 else (16, 2)
    return work.kind == "conv" and (c <= 8 or c / up(c, 8) * (taps / up(taps, few)) >= c / up(c, deep))


def derive_block(work: Work, core: Core, ofm: HWC, part_kernel: bool) -> BlockConfig:
    """Returns the blocks in one memory for a known block of the output; part_kernel: as in `BlockConfig`."""
    c, micro = work.ifm[2], core.micro[0]
    h, x = (work.window(axis, ofm[axis], micro[axis]) for axis in (0, 1))
    read = up(min(c, 16), 4) if work.bits == 16 else up(min(c, 16 if part_kernel else 32), 8)
    return BlockConfig((h, x, ofm[2] if work.channelwise else read), ofm, _micro(work, micro), part_kernel)


def _micro(work: Work, micro: HWC) -> HWC:
    """Returns the micro block that is used (ethos_u55_performance.cpp: GetOfmMicroBlock)."""
    one_row = work.ofm[0] == work.kernel[0] == 1 and micro[0] == 2
    flat = one_row and work.kind in ("conv", "product") and work.ofm[1] % 2 == 0
    return (1, 4, micro[2]) if flat else micro


# ---- a memory for inputs, one for accumulators (U85) ---------------------------------------------------


def _fills_split(work: Work) -> bool:
    """Whether the MACs are filled better if the kernel's elements go before the channels (E85: ChooseKernelFirst)."""
    c, taps = work.ifm[2], prod(work.kernel)
    return work.kind == "conv" and c / up(c, 16) * taps / (taps - taps % 5 + max(taps % 5, 2)) >= c / up(c, 64)


def derive_split_block(work: Work, core: Core, micro: tuple[int, int], ofm: HWC, kernel_first: bool) -> BlockConfig:
    """Returns the blocks in split memories for a known block of the output.

    micro: rows and columns of its micro blocks. kernel_first: `part_kernel` of `BlockConfig`.
    """
    assert isinstance(core.memory, SplitMemory)
    k = next(k for k, m in enumerate(core.micro) if m[:2] == micro)
    read = 16 if kernel_first else 32 if work.bits == 32 or core.macs <= 256 and core.micro[k][2] == 16 else 64
    depth = ofm[2] if work.channelwise else read
    # the (h, w) in whose multiples an input is stored (E85: CalcIfmAUSize)
    unit = core.memory.units[k][bisect_left((128, 256), depth * work.bits)]
    h, x = (work.window(axis, ofm[axis], unit[axis]) for axis in (0, 1))
    return BlockConfig((h, x, depth), ofm, core.micro[k], kernel_first)
